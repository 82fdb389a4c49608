"""A run's curves in TensorBoard, Weights & Biases (offline) and MLflow: the lines that do it are marked with `# +`.

In a recipe one line does all of it: loggers = ["tensorboard", "wandb", "mlflow"]. Each is an extra of the same name.
"""

import tempfile
import warnings
from importlib.util import find_spec
from pathlib import Path

from rewardrate.attempt import Outcome, Proposal, RateEstimate
from rewardrate.runlog import RunLog

NEEDS = {"tensorboard": ("tensorboard", "torch"), "wandb": ("wandb",), "mlflow": ("mlflow", "sqlalchemy", "alembic")}
WRITES = {"tensorboard": "tensorboard/events*", "wandb": "wandb/offline-run-*", "mlflow": "mlflow.db"}
SHOWS = {
    "tensorboard": "tensorboard --logdir {}",
    "wandb": "wandb sync {}/wandb/offline-run-*",
    "mlflow": "mlflow ui --backend-store-uri sqlite:///{}/mlflow.db",
}


def small_run(folder):
    """Three steps of two attempts, as a run would have left them."""
    log = RunLog.create(folder, "", {"task": "an example"})
    for step in (1, 2, 3):
        log.begin_step(step, [Proposal(f"print({row})") for row in (0, 1)])
        for row in (0, 1):
            log.outcome(step, row, Outcome(True, 0.1 * step, 0.1 * step, 1.0 / step, "fine", "ok", f"print({row})"))
        log.commit_step(step, RateEstimate(0.1 * step, 0.1 * step, 0.0, 1.0, 2 * step), [0.0, 0.1], [0.0, 0.0])
    return log


def main(names):
    from rewardrate.training.loggers import Loggers  # +

    warnings.simplefilter("ignore")  # what these programs tell each other is not ours to read
    folder = Path(tempfile.mkdtemp(prefix="rewardrate-loggers-")) / "run"
    with small_run(folder) as log, Loggers(names, log, {"task": "an example"}, patience=120) as loggers:  # +
        loggers.follow()  # + after every step: hands on what is new
    for name in names:
        assert list(folder.glob(WRITES[name])), f"{name} wrote nothing"
        print(f"{name:12} has the curves; look at them with: {SHOWS[name].format(folder)}")


there = [name for name, packages in NEEDS.items() if all(map(find_spec, packages))]
for missing in NEEDS.keys() - set(there):
    print(f"SKIPPED: {missing} is not installed; add it with: pip install 'rewardrate[{missing}]'")
if there:
    main(there)
