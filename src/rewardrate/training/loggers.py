"""Curves of a run where people already look at curves: TensorBoard, Weights & Biases, MLflow. Copies, not the record.

A logger is given what the run log holds, each step once, by a thread of its own: a run neither waits for it nor ends
with it. All of them write below the run folder and nothing leaves the machine.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import logging
import os
import queue
import threading
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any, Literal, Protocol, Self

from rewardrate.errors import MissingExtra
from rewardrate.runlog import AttemptRow, RunLog, StepRow

log = logging.getLogger(__name__)

Name = Literal["tensorboard", "wandb", "mlflow"]
PROJECT = "rewardrate"


class Logger(Protocol):
    """A program that draws numbers by step. It may fail at any call: the run continues without it."""

    def write(self, step: int, numbers: Mapping[str, float]) -> None:
        """The numbers of one step."""

    def close(self) -> None:
        """Nothing more will come for now."""


@dataclass(frozen=True)
class Mark:
    """How far a logger has come, in a file beside what it writes; moved before a step is written.

    So no step is written twice, whatever happens; a kill between the mark and the writing leaves that one out.
    """

    path: Path
    run: str
    "What the logger calls this run."
    step: int = 0

    @classmethod
    def read(cls, path: Path) -> Mark:
        """The mark that is there, or one at the beginning. A damaged file raises ValueError."""
        if not path.exists():
            return cls(path, uuid.uuid4().hex[:12])
        kept = json.loads(path.read_text(encoding="utf-8"))
        return cls(path, str(kept["run"]), int(kept["step"]))

    def moved(self, step: int) -> Mark:
        """The mark at `step`, on disk."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        fresh = self.path.with_suffix(".new")
        fresh.write_text(json.dumps({"run": self.run, "step": step}), encoding="utf-8")
        os.replace(fresh, self.path)
        return replace(self, step=step)


class TensorBoard:
    """Event files in `tensorboard/`: tensorboard --logdir runs."""

    def __init__(self, folder: Path, mark: Mark, settings: Mapping[str, Any]) -> None:
        try:
            import tensorboard  # noqa: F401, what torch writes event files with
        except ImportError:
            raise MissingExtra("the logger tensorboard", "tensorboard", "tensorboard") from None
        from torch.utils import tensorboard as torchs

        writer: Any = torchs.SummaryWriter
        self._events = writer(str(folder / "tensorboard"))

    def write(self, step: int, numbers: Mapping[str, float]) -> None:
        """The numbers of one step, on disk when this returns."""
        for name, value in numbers.items():
            self._events.add_scalar(name, value, step)
        self._events.flush()

    def close(self) -> None:
        """Close the file."""
        self._events.close()


class WeightsAndBiases:
    """An offline run in `wandb/`; it is sent when you say so: wandb sync runs/NAME/wandb/offline-run-*."""

    def __init__(self, folder: Path, mark: Mark, settings: Mapping[str, Any]) -> None:
        try:
            import wandb
        except ImportError:
            raise MissingExtra("the logger wandb", "wandb", "wandb") from None
        quiet = wandb.Settings(silent=True, console="off", disable_git=True, disable_code=True)
        options: dict[str, Any] = {"mode": "offline", "resume": "allow", "reinit": "create_new", "settings": quiet}
        names: dict[str, Any] = {"project": PROJECT, "name": title(folder), "id": mark.run}
        self._run: Any = wandb.init(dir=str(folder), config=dict(settings), **names, **options)

    def write(self, step: int, numbers: Mapping[str, float]) -> None:
        """The numbers of one step."""
        self._run.log(dict(numbers), step=step)

    def close(self) -> None:
        """End this part of the run; a later part carries the same id."""
        self._run.finish()


class MLflow:
    """A database `mlflow.db`: mlflow ui --backend-store-uri sqlite:///runs/NAME/mlflow.db."""

    def __init__(self, folder: Path, mark: Mark, settings: Mapping[str, Any]) -> None:
        try:
            import sqlalchemy  # noqa: F401, what it keeps its database with
            from mlflow.entities import Metric, Param
            from mlflow.tracking import MlflowClient
        except ImportError:
            raise MissingExtra("the logger mlflow", "mlflow", "mlflow") from None
        self._metric = Metric
        self._client: Any = MlflowClient(tracking_uri=f"sqlite:///{(folder / 'mlflow.db').absolute()}")
        known = self._client.get_experiment_by_name(PROJECT)
        place = (folder / "mlflow").absolute().as_uri()
        experiment = known.experiment_id if known else self._client.create_experiment(PROJECT, artifact_location=place)
        found = self._client.search_runs([experiment], f"tags.rewardrate = '{mark.run}'")
        if found:
            self._run = found[0].info.run_id
            return
        made = self._client.create_run(experiment, run_name=title(folder), tags={"rewardrate": mark.run})
        self._run = made.info.run_id
        params = [Param(name, str(value)[:500]) for name, value in settings.items()]
        for at in range(0, len(params), 100):  # the most it takes at once
            self._client.log_batch(self._run, params=params[at : at + 100])

    def write(self, step: int, numbers: Mapping[str, float]) -> None:
        """The numbers of one step."""
        now = int(time.time() * 1000)
        self._client.log_batch(self._run, metrics=[self._metric(k, v, now, step) for k, v in numbers.items()])

    def close(self) -> None:
        """Nothing is open: every batch was a transaction."""


KINDS: dict[Name, type[TensorBoard] | type[WeightsAndBiases] | type[MLflow]] = {
    "tensorboard": TensorBoard,
    "wandb": WeightsAndBiases,
    "mlflow": MLflow,
}


def absent(names: Iterable[Name]) -> list[str]:
    """A line for each of these loggers that is not installed: a run would go on without it."""
    found = {name: importlib.util.find_spec(name) for name in names}
    here = {name: spec is not None and spec.origin is not None for name, spec in found.items()}
    return [str(MissingExtra(f"the logger {name}", name, name)) for name in here if not here[name]]


class LoggerThread(threading.Thread):
    """Copies rows to one logger as they come; after its first failure it stops and `failure` says why."""

    def __init__(self, name: Name, folder: Path, settings: Mapping[str, Any]) -> None:
        super().__init__(name=f"logger {name}", daemon=True)
        self.kind, self.folder, self.settings = name, folder, settings
        self.failure = ""
        self.reported = False
        self._rows: queue.SimpleQueue[tuple[int, Mapping[str, float]] | None] = queue.SimpleQueue()
        try:
            self.mark = Mark.read(folder / "loggers" / f"{name}.json")
        except (OSError, ValueError, KeyError, TypeError) as error:
            self.failure = f"loggers/{name}.json cannot be read: {error}"
            self.mark = Mark(folder, "")
        self.handed = self.mark.step

    def hand(self, step: int, numbers: Mapping[str, float]) -> None:
        """Take a step to copy; returns at once."""
        self.handed = step
        self._rows.put((step, numbers))

    def finish(self) -> None:
        """Say that nothing more will come."""
        self._rows.put(None)

    def run(self) -> None:
        """Until `finish`, or a failure."""
        logger: Logger | None = None
        try:
            while not self.failure and (row := self._rows.get()) is not None:
                logger = logger or KINDS[self.kind](self.folder, self.mark, self.settings)
                self.mark = self.mark.moved(row[0])
                logger.write(*row)
        except (Exception, SystemExit) as error:  # others' code: whatever it does, the run is not its concern
            self.failure = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        if logger is not None:
            with contextlib.suppress(Exception):
                logger.close()


class Loggers:
    """All loggers of a run. `follow` hands on what is new in the record; leaving the `with` gives them a while to end.

    A logger that fails is named once, in a warning and among the run's events; one that was added later, or was off
    for a while, is handed all that it lacks.
    """

    def __init__(
        self, names: Iterable[Name], record: RunLog, settings: Mapping[str, Any], patience: float = 30.0
    ) -> None:
        self.record, self.patience = record, patience
        self.threads = [LoggerThread(name, record.folder, settings) for name in dict.fromkeys(names)]

    def __enter__(self) -> Self:
        for thread in self.threads:
            thread.start()
        self.follow()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(Exception):
            self.follow()
        for thread in self.threads:
            thread.finish()
        end = time.monotonic() + self.patience
        for thread in self.threads:
            thread.join(max(0.0, end - time.monotonic()))
            if thread.is_alive():
                thread.failure = f"it did not finish within {self.patience:g} seconds"
        self._report_failures()

    def follow(self) -> None:
        """Hand every logger the steps it has not been handed yet."""
        self._report_failures()
        working = [thread for thread in self.threads if not thread.failure]
        if not working:
            return
        for row in self.record.steps():
            behind = [thread for thread in working if thread.handed < row.step]
            if behind:
                numbers = curves(row, self.record.attempts(row.step))
                for thread in behind:
                    thread.hand(row.step, numbers)

    def _report_failures(self) -> None:
        for thread in self.threads:
            if thread.failure and not thread.reported:
                thread.reported = True
                log.warning("the logger %s is off: %s", thread.kind, thread.failure)
                with contextlib.suppress(Exception):
                    self.record.note("logger", f"{thread.kind} is off: {thread.failure}")


def curves(row: StepRow, attempts: Sequence[AttemptRow]) -> dict[str, float]:
    """The numbers of one step, by the name of their curve."""
    charged = [attempt for attempt in attempts if attempt.relative_reward is not None]
    valid = [attempt for attempt in charged if attempt.valid]
    numbers = {f"rate/{name}": float(value) for name, value in asdict(row.rate).items() if name != "count"}
    numbers["budget/script_seconds"] = row.script_seconds
    numbers["attempts/valid_share"] = len(valid) / len(attempts) if attempts else 0.0
    if valid:
        numbers["attempts/best_reward"] = max(attempt.reward for attempt in valid)
    if charged:  # one set of attempts for all means: a failure has reward 0 and its seconds
        numbers["attempts/reward"] = fmean(attempt.reward if attempt.valid else 0.0 for attempt in charged)
        numbers["attempts/seconds"] = fmean(attempt.seconds for attempt in charged)
        numbers["attempts/relative_reward"] = fmean(attempt.relative_reward or 0.0 for attempt in charged)
    numbers |= {f"learner/{name}": float(value) for name, value in row.metrics.items() if value is not None}
    return numbers | {f"phases/{name}": float(value) for name, value in row.phases.items()}


def title(folder: Path) -> str:
    """A run's name: its folder's, behind that of the experiment it stands in (demo/rpg)."""
    place = folder.absolute()
    return f"{place.parent.name}/{place.name}"
