"""Everything that is measured on one GPU, phase by phase, in one command; what is done is not done again.

    python benchmarks/one_gpu.py --model runs/warm --out runs/one-gpu                 # all phases, about 45 minutes
    python benchmarks/one_gpu.py --model runs/warm --out runs/one-gpu contract verl-ppo --seconds 600

The phases, each with its log OUT/PHASE.txt and its results in OUT/PHASE/ where it has any:

  contract      the samplers' contract on real vLLM (tests/policies/test_vllm.py)
  tests         every test marked `gpu`
  engines       tokens per second of our kernels, vLLM and `generate` (bench_engines.py)
  train-vllm    ten steps of the recipe `gpu` with vLLM; train-own: with our kernels
  serving       a frozen policy behind vLLM's OpenAI server (bench_serving.py)
  verl-ppo      PPO with a critic on stock verl: killed after step 6, resumed, 15 steps of 32 (verl_one_gpu.py)
  verl-vanilla  the same for the arm vanilla, in one go; verl-grpo, verl-grpo-vanilla: GRPO
  phases        seconds of a step by phase, of the trainings above side by side (step_phases.py)

summary.json says of each phase whether it ended well, and how long it took. With --seconds no phase begins later than
that, and none goes on longer.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parents[1]
BENCHMARKS = ROOT / "benchmarks"
TRAIN = ("batch=32", "budget.steps=10", "environment.time_limit=8", "sandbox.repeats=0", "checkpoint_every=5")


def commands(model: Path, out: Path, slots: int) -> dict[str, list[str]]:
    """Phase -> its command."""
    sets = [*TRAIN, f"sandbox.slots={slots}", f"policy.name={model}"]
    train = ["-m", "rewardrate", "train", "gpu", "--arm", "rpg", *(word for one in sets for word in ("--set", one))]
    engine = ["--set", "policy.sampling.engine=vllm", "--set", "policy.sampling.memory_share=0.3"]
    pytest = ["-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "--continue-on-collection-errors"]
    limits = ["--set", "environment.time_limit=8", "--set", f"sandbox.slots={slots}"]

    def bench(name: str, *words: str, model: str = str(model)) -> list[str]:
        return [str(BENCHMARKS / name), *words, "--model", model]

    def verl(algorithm: str, name: str, *words: str) -> list[str]:
        return bench("verl_one_gpu.py", algorithm, "--out", str(out / name), *limits[:2], *words)

    runs = [str(out / name) for name in ("train-vllm/rpg", "train-own/rpg", "verl-ppo", "verl-grpo")]
    return {
        "contract": [*pytest, "tests/policies/test_vllm.py"],
        "tests": [*pytest, "tests", "-m", "gpu"],
        "engines": bench("bench_engines.py", "--memory-share", "0.3", "--out", str(out / "engines.csv")),
        "train-vllm": [*train, *engine, "--out", str(out / "train-vllm")],
        "train-own": [*train, "--out", str(out / "train-own")],
        "serving": bench("bench_serving.py", "--out", str(out / "serving"), *limits),
        "verl-ppo": verl("ppo", "verl-ppo", "--kill-after", "5"),
        "verl-grpo": verl("grpo", "verl-grpo", "--kill-after", "5"),
        "verl-vanilla": verl("ppo", "verl-vanilla", "--arm", "vanilla"),
        "verl-grpo-vanilla": verl("grpo", "verl-grpo-vanilla", "--arm", "vanilla"),
        "phases": [str(BENCHMARKS / "step_phases.py"), *runs, "--out", str(out / "phases.csv")],
    }


def ended(words: list[str], log: IO[bytes], seconds: float) -> int:
    """Run a command, at most so long: then it is interrupted, so that it ends what it has started; its exit status."""
    with subprocess.Popen(words, cwd=ROOT, stdout=log, stderr=log) as process:
        for patience, signum in ((seconds, signal.SIGINT), (30.0, signal.SIGKILL)):
            try:
                return process.wait(patience)
            except subprocess.TimeoutExpired:
                process.send_signal(signum)
        return process.wait()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = list(commands(Path("x"), Path("x"), 1))
    parser.add_argument("phases", nargs="*", metavar="PHASE", help=f"of {', '.join(names)} (default: all)")
    parser.add_argument("--model", type=Path, required=True, help="a folder in safetensors: the warm start")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--slots", type=int, default=6, help="scripts side by side")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="for all of it")
    args = parser.parse_args()
    if unknown := set(args.phases) - set(names):
        parser.error(f"no phase {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    out, ends = args.out.absolute(), time.monotonic() + args.seconds
    out.mkdir(parents=True, exist_ok=True)
    path = out / "summary.json"
    done: dict[str, dict[str, float]] = json.loads(path.read_text()) if path.exists() else {}
    todo = commands(args.model.absolute(), out, args.slots)
    for name in args.phases or names:
        if done.get(name, {}).get("code") == 0:
            continue
        begun = time.monotonic()
        if begun > ends:
            break
        with (out / f"{name}.txt").open("ab") as log:
            code = ended([sys.executable, *todo[name]], log, ends - begun)
        done[name] = {"code": code, "seconds": round(time.monotonic() - begun, 1)}
        path.write_text(json.dumps(done, indent=1) + "\n")
        how = "done" if code == 0 else f"ended with {code}"
        print(f"{name}: {how} after {done[name]['seconds']:.0f} s", flush=True)
    return 0 if all(done.get(name, {}).get("code") == 0 for name in args.phases or names) else 1


if __name__ == "__main__":
    sys.exit(main())
