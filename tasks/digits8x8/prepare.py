"""Handwritten digits of 8 x 8 pixels."""

from pathlib import Path

from rewardrate.environments.mle.splits import shuffled, write_splits
from rewardrate.errors import MissingExtra


def prepare(raw: Path, public: Path, private: Path) -> None:
    """Write the prepared files from the installed package scikit-learn; `raw` is not used."""
    try:
        import pandas as pd
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise MissingExtra("task digits8x8", "scikit-learn", "agent") from error
    pixels, digit = load_digits(return_X_y=True)
    table = pd.DataFrame(pixels.astype(int), columns=[f"p{k}" for k in range(64)])
    table["digit"] = digit
    table = table.drop_duplicates(subset=[name for name in table.columns if name != "digit"])
    train, test = shuffled(table, seed=37, test_rows=540)
    write_splits(train, test, public, private, target="digit", sample=0)
