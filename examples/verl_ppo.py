"""PPO of stock verl with time charged: prompts from the solution buffer, scripts in the sandbox, a price for a second.

Nothing of verl is changed: recipes/verl/ppo.yaml names three classes (docs/verl.md). This runs two steps of it with
our tiny model on a CPU, by means of a platform for tests; on GPUs leave `CPU` out and name your own model.
Arguments are settings of verl's: python examples/verl_ppo.py trainer.total_training_steps=5
"""

import os
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parent.parent
CPU = ROOT / "tests" / "scale" / "verl_cpu"  # the platform for tests, and sizes for two cores
TINY = ROOT / "src" / "rewardrate" / "policies" / "tiny"


def command(config, out, settings):
    """Stock verl's own entry point with our config."""
    return [
        *(sys.executable, "-m", "verl.trainer.main_ppo", "--config-dir", str(CPU), "--config-name", config),
        f"hydra.searchpath=[file://{ROOT / 'recipes' / 'verl'}]",
        f"hydra.run.dir={out}",
        f"actor_rollout_ref.model.path={TINY}",
        f"critic.model.path={TINY}",
        f"trainer.default_local_dir={out}/checkpoints",
        f"+trainer.rollout_data_dir={out}/rollouts",
        f"data.rewardrate.run={out}/run",
        *settings,
    ]


def environment():
    """What verl needs to know to run without a GPU."""
    words = "VERL_PLATFORM=cpu VERL_ENGINE_DEVICE=cuda TORCH_COMPILE_DISABLE=1"
    words += (
        " VERL_USE_EXTERNAL_MODULES=cpu_platform,rewardrate.scale.verl_critic"  # the second without flash-attn alone
    )
    words += " HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false OMP_NUM_THREADS=1"
    words += " RAY_ADDRESS=local"  # a cluster of its own, whatever runs on this machine
    words += " RAY_USAGE_STATS_ENABLED=0 RAY_worker_niceness=0 RAY_prestart_worker_first_driver=0"
    path = os.pathsep.join([str(CPU), *os.environ.get("PYTHONPATH", "").split(os.pathsep)])
    return {**os.environ, "PYTHONPATH": path, **dict(word.split("=") for word in words.split())}


def main(config="ppo_cpu", out=None, settings=()):
    out = Path(out or tempfile.mkdtemp(prefix="rewardrate-verl-")).absolute()
    out.mkdir(parents=True, exist_ok=True)
    with open(out / "log.txt", "a") as log:
        words = command(config, out, settings)
        done = subprocess.run(words, env=environment(), cwd=out, stdout=log, stderr=log, check=False, timeout=900)
    if done.returncode:
        sys.exit(f"verl failed; the end of {out}/log.txt says why")
    print(f"verl is done: rewardrate report {out}/run draws it; checkpoints and verl's log are beside it")


if __name__ == "__main__":
    if find_spec("verl") is None:
        print("SKIPPED: verl is not installed here; it has an environment of its own (make test makes .venv-verl)")
    else:
        given = dict(word.split("=", 1) for word in sys.argv[1:] if word.startswith(("--config=", "--out=")))
        main(given.get("--config", "ppo_cpu"), given.get("--out"), [word for word in sys.argv[1:] if word[:2] != "--"])
