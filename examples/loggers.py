"""A run's curves in TensorBoard: the lines that do it are marked with `# +`. The same for wandb and mlflow.

In a recipe one line does all of it: loggers = ["tensorboard"].
"""

import tempfile
from importlib.util import find_spec
from pathlib import Path

from rewardrate.runlog import OutcomeRow, ProposalRow, RateRow, RunLog


def small_run(folder):
    """Three steps of two attempts, as a run would have left them."""
    log = RunLog.create(folder, "", {"task": "an example"})
    for step in (1, 2, 3):
        log.begin_step(step, [ProposalRow(row, f"print({row})") for row in (0, 1)])
        for row in (0, 1):
            log.outcome(step, row, OutcomeRow(True, 0.1 * step, 0.1 * step, 1.0 / step, "ok"))
        log.commit_step(step, RateRow(0.1 * step, 0.1 * step, 0.0, 1.0, 2 * step), [0.0, 0.1], [0.0, 0.0])
    return log


def main():
    from rewardrate.training.loggers import Loggers  # +

    folder = Path(tempfile.mkdtemp(prefix="rewardrate-loggers-")) / "run"
    with small_run(folder) as log, Loggers(["tensorboard"], log, {"task": "an example"}) as loggers:  # +
        loggers.follow()  # + after every step: hands on what is new
    events = list((folder / "tensorboard").glob("events*"))
    print(f"{events[0].stat().st_size} bytes of curves; look at them with: tensorboard --logdir {folder}")


if find_spec("tensorboard") is None or find_spec("torch") is None:
    print("SKIPPED: TensorBoard is not installed")
else:
    main()
