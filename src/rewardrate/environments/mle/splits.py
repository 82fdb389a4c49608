"""Three splits: train (with answers), reward (what a policy is trained on), report (touched once, at the end).

Scripts see the rows of both test splits mixed and unlabelled, in one test.csv: which row counts for which is known to
the grader alone, so a script cannot save time by answering half of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rewardrate.errors import InputError


def write_splits(
    train: Any,
    test: Any,
    public: Path,
    private: Path,
    *,
    target: str,
    sample: float | str | dict[str, float],
    id: str = "id",
    report_share: float = 0.5,
    seed: int = 0,
) -> None:
    """Write the files of a prepared task from two data frames that both carry `id` and `target`.

    public: train.csv, test.csv (without the target), sample_submission.csv. private: test.csv (id, target) and
    split.csv (id, split). `sample` is what the sample submission says for every row: one value for the column
    `target`, or a value for each of several columns (class -> probability).
    """
    for name, frame in (("train", train), ("test", test)):
        missing = {id, target} - set(frame.columns)
        if missing:
            raise InputError(name, sorted(missing), "these columns are missing from the table")
    if test[id].duplicated().any():
        raise InputError(f"test[{id!r}]", "duplicates", "each row of the test table needs its own id")
    if not 0 <= report_share < 1:
        raise InputError("report_share", report_share, "it must lie in [0, 1)")
    columns = sample if isinstance(sample, dict) else {target: sample}
    filled = test[[id]].assign(**columns)
    split = _split_names(len(test), report_share, seed, test[[id, target]].to_csv(index=False))
    for frame, path in (
        (train, public / "train.csv"),
        (test.drop(columns=target), public / "test.csv"),
        (filled, public / "sample_submission.csv"),
        (test[[id, target]], private / "test.csv"),
        (test[[id]].assign(split=split), private / "split.csv"),
    ):
        frame.to_csv(path, index=False, lineterminator="\n")


def shuffled(frame: Any, seed: int, test_rows: int, id: str = "id") -> tuple[Any, Any]:
    """The frame in random order with a fresh column `id` in front, cut into (train, test)."""
    order = np.random.default_rng(seed).permutation(len(frame))
    mixed = frame.iloc[order].reset_index(drop=True)
    mixed.insert(0, id, np.arange(len(mixed)))
    return mixed.iloc[test_rows:].reset_index(drop=True), mixed.iloc[:test_rows].reset_index(drop=True)


def _split_names(rows: int, report_share: float, seed: int, answers: str) -> Sequence[str]:
    """Which row is for which: drawn by a seed that cannot be computed without the answers."""
    names = np.full(rows, "reward", dtype=object)
    secret = int.from_bytes(hashlib.sha256(answers.encode()).digest()[:16], "big")
    order = np.random.default_rng([seed, secret]).permutation(rows)
    names[order[: round(rows * report_share)]] = "report"
    return names  # type: ignore[return-value]
