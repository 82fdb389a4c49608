"""The run folder: the only format producers write and reports read."""

from rewardrate.runlog.log import RunLog
from rewardrate.runlog.rows import AttemptRow, EventRow, Origin, Recorded, Resumed, StepRow, best

__all__ = ["AttemptRow", "EventRow", "Origin", "Recorded", "Resumed", "RunLog", "StepRow", "best"]
