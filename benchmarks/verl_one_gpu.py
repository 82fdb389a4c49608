"""Stock verl on one GPU: a run that is killed after a checkpoint and resumed, and what came of it.

    python benchmarks/verl_one_gpu.py ppo --model runs/warm --out runs/verl/ppo --kill-after 5
    python benchmarks/verl_one_gpu.py grpo --model runs/warm --out runs/verl/grpo --arm vanilla

`recipes/verl/ppo_gpu.yaml` or `grpo_gpu.yaml` on stock verl 0.9.1 with vLLM below it; the critic has sdpa
(docs/verl.md). Into --out go

  run/                the run folder, with its page
  steps.csv           what verl said of every step: seconds by phase, rewards, losses
  summary.json        versions, attempts, the largest difference between a reward of the run folder and the one that
                      verl says it trained on, seconds of a step by phase (steps after the first), resumed at which step
  log.txt             of verl

`--cpu` runs the platform for tests instead (tests/scale/verl_cpu: `tiny`, batches of three or four), to try this.
More settings of verl go at the end: ... -- trainer.total_training_steps=3
"""

from __future__ import annotations

import argparse
import csv
import importlib.metadata
import importlib.util
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PRICES = {"rpg": "rate", "vanilla": "none"}
STEP = re.compile(r"step:(\d+) - (.*)")
NUMBER = re.compile(r"^(?:np\.\w+\()?([-+0-9.einfa]+)\)?$")


def command(args: argparse.Namespace, out: Path, saves: int) -> tuple[list[str], dict[str, str]]:
    """Stock verl's own entry point, and its environment."""
    if args.cpu:
        spec = importlib.util.spec_from_file_location("verl_ppo", ROOT / "examples" / "verl_ppo.py")
        example: Any = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
        spec.loader.exec_module(example)  # type: ignore[union-attr]
        words, place = example.command(f"{args.algorithm}_cpu", out, []), example.environment()
    else:
        recipe = ["environment.prompt_tokens=1400", f"task={args.task}", f"price={PRICES[args.arm]}", *args.set]
        words = [sys.executable, "-m", "verl.trainer.main_ppo", "--config-dir", str(ROOT / "recipes" / "verl")]
        words += ["--config-name", f"{args.algorithm}_gpu", f"hydra.run.dir={out}", f"data.rewardrate.run={out}/run"]
        words += [f"data.rewardrate.set={json.dumps(recipe)}", "+ray_kwargs.ray_init.include_dashboard=false"]
        words += [f"actor_rollout_ref.model.path={Path(args.model).absolute()}"]
        words += [f"trainer.default_local_dir={args.checkpoints or out / 'checkpoints'}"]
        words += [f"+trainer.rollout_data_dir={out}/rollouts"]
        place = {**os.environ, "VERL_USE_EXTERNAL_MODULES": "rewardrate.scale.verl_critic"}
        place |= {"VLLM_USE_FLASHINFER_SAMPLER": "0", "TOKENIZERS_PARALLELISM": "false", "RAY_USAGE_STATS_ENABLED": "0"}
        place |= {"RAY_worker_niceness": "0", "HF_HUB_OFFLINE": "1", "RAY_ADDRESS": "local"}
    words += [f"trainer.total_training_steps={args.steps}", f"trainer.save_freq={saves}", *args.more]
    return words, place


def descendants(parent: int) -> list[int]:
    """Processes below one, those that it has left to themselves since included as long as its session names them."""
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(folder.name)] = int(fields[1])
    found, front = [], [parent]
    while front:
        front = [pid for pid, above in parents.items() if above in front]
        found += front
    return found


def kill(process: subprocess.Popen[bytes]) -> None:
    """End verl as a lost machine would: no signal that it could answer, and nothing of it left."""
    below = descendants(process.pid)
    for pid in [process.pid, *below]:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    process.wait()


def said(log: Path) -> dict[int, dict[str, float]]:
    """{step: what verl said of it}; a step that was done again counts as it was done last."""
    found: dict[int, dict[str, float]] = {}
    for line in log.read_text(errors="replace").splitlines():
        if match := STEP.search(line):
            pairs = (part.rpartition(":")[::2] for part in match[2].split(" - "))
            numbers = {name: NUMBER.match(value.strip()) for name, value in pairs}
            found[int(match[1])] = {name: float(value[1]) for name, value in numbers.items() if value}
    return found


def start(args: argparse.Namespace, out: Path, *, until: int | None = None) -> float:
    """Run verl to its end, or let it save at step `until` and kill it after the next one; seconds."""
    words, place = command(args, out, until or -1)
    begun = time.monotonic()
    with (out / "log.txt").open("ab") as log:
        process = subprocess.Popen(words, env=place, cwd=out, stdout=log, stderr=log, start_new_session=True)
        try:
            while process.poll() is None:
                time.sleep(0.5)
                if until is not None and until + 1 in said(out / "log.txt"):
                    return time.monotonic() - begun
                if time.monotonic() - begun > args.limit:
                    sys.exit(f"verl was not done after {args.limit} s: {out}/log.txt")
        finally:
            if process.poll() is None:
                kill(process)
    if process.returncode:
        sys.exit(f"verl failed; the end of {out}/log.txt says why:\n{(out / 'log.txt').read_text()[-3000:]}")
    return time.monotonic() - begun


def phases(steps: dict[int, dict[str, float]], first: int) -> dict[str, float]:
    """Seconds of a step by phase: medians over the steps that no start-up is in."""
    later = [numbers for step, numbers in steps.items() if step not in (1, first)]
    names = sorted({name for numbers in later for name in numbers if name.startswith("timing_s/")})
    return {
        name.removeprefix("timing_s/"): statistics.median(one[name] for one in later if name in one) for name in names
    }


def summary(args: argparse.Namespace, out: Path, seconds: Sequence[float]) -> dict[str, Any]:
    """What the run came to."""
    from rewardrate.runlog import RunLog
    from rewardrate.scale.verl_dump import agreement

    found, steps = agreement(out / "run", out / "rollouts"), said(out / "log.txt")
    with RunLog.open(out / "run", read_only=True) as log:
        rows, events = list(log.attempts()), [event.kind for event in log.events()]
    packages = ("verl", "vllm", "torch", "transformers", "ray")
    versions = {name: _version(name) for name in packages}
    names = sorted({name for numbers in steps.values() for name in numbers})
    with (out / "steps.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, ["step", *names])
        writer.writeheader()
        writer.writerows({"step": step, **steps[step]} for step in sorted(steps))
    resumed = args.kill_after + 1 if args.kill_after else 0
    last = [row for row in rows if row.step > found.steps - 5]
    return {
        "algorithm": args.algorithm,
        "arm": args.arm,
        "versions": versions,
        "steps": found.steps,
        "attempts": len(rows),
        "charged": found.attempts,
        "largest_difference": found.difference,
        "resumed_at_step": resumed,
        "rewound": events.count("rewound"),
        "seconds_of_each_start": [round(one, 1) for one in seconds],
        "valid_share_step_1": statistics.mean(row.valid for row in rows if row.step == 1),
        "valid_share_last_5": statistics.mean(row.valid for row in last),
        "tokens_step_median": statistics.median(
            sum(row.tokens for row in rows if row.step == step) for step in range(1, found.steps + 1)
        ),
        "seconds_by_phase": {name: round(value, 2) for name, value in phases(steps, resumed).items()},
    }


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("algorithm", choices=("ppo", "grpo"))
    parser.add_argument("--model", default="Qwen/Qwen2.5-Coder-1.5B-Instruct", help="a folder in safetensors")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--checkpoints", type=Path, help="a folder for them (default: below --out)")
    parser.add_argument("--arm", choices=("rpg", "vanilla"), default="rpg")
    parser.add_argument("--task", default="digits8x8")
    parser.add_argument("--steps", type=int, default=15)
    parser.add_argument("--kill-after", type=int, default=0, metavar="K", help="save every K steps, kill after K + 1")
    parser.add_argument("--kill-only", action="store_true", help="end there; the same command without it resumes")
    parser.add_argument("--limit", type=float, default=580.0, help="seconds of one start of verl")
    parser.add_argument("--set", action="append", default=[], metavar="a.b=c", help="of our recipe")
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("more", nargs="*", help="settings of verl, after --")
    args = parser.parse_args()
    out = args.out.absolute()
    out.mkdir(parents=True, exist_ok=True)
    saved = (args.checkpoints or out / "checkpoints").exists()  # killed before: by us, or by what ended this command
    seconds = [start(args, out, until=args.kill_after)] if args.kill_after and not saved else []
    if args.kill_only:
        return
    seconds.append(start(args, out))
    found = summary(args, out, seconds)
    (out / "summary.json").write_text(json.dumps(found, indent=1) + "\n")
    report = [sys.executable, "-m", "rewardrate", "report", str(out / "run")]
    subprocess.run(report, check=True, stdout=subprocess.DEVNULL)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
