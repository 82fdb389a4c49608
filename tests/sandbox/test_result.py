"""A measurement says when it cannot be trusted."""

import dataclasses

from rewardrate.sandbox import Result

CLEAN = Result("ok", 2.0, 2.0, 1, "", "", {})


def test_waiting_or_foreign_work_beyond_five_per_cent_is_contamination():
    assert not CLEAN.contaminated
    assert dataclasses.replace(CLEAN, foreign_share=0.06).contaminated
    assert dataclasses.replace(CLEAN, wait_seconds=0.2).contaminated
    assert not dataclasses.replace(CLEAN, wait_seconds=0.05).contaminated
