"""The run folder: the only format producers write and reports read."""

from rewardrate.runlog.log import RunLog
from rewardrate.runlog.rows import (
    AttemptRow,
    EventRow,
    OutcomeRow,
    ProposalRow,
    RateRow,
    Recorded,
    Resumed,
    StepRow,
)

__all__ = [
    "AttemptRow",
    "EventRow",
    "OutcomeRow",
    "ProposalRow",
    "RateRow",
    "Recorded",
    "Resumed",
    "RunLog",
    "StepRow",
]
