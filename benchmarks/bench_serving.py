"""A frozen policy behind vLLM's OpenAI server on this machine: five steps of the loop, seeds, and what its cache saved.

    python benchmarks/bench_serving.py --model runs/warm --out runs/serving

Starts `vllm serve` on loopback, waits until it answers, and asks

  seeds     the same prompts twice with one seed and once with another (`EndpointPolicy.propose`, --rows prompts): the
            share of replies that are equal, letter for letter
  loop      five steps of the recipe `gpu` with this endpoint as its policy; killed after the third has asked for its
            replies, and resumed: none of them is asked for again
  cache     prompt tokens that the server looked up and found (prefix caching), and all that it read, by /metrics

and writes summary.json, the run folder with its page, and the server's log into --out. With --url a server that runs
already is asked, and there is no line on the cache; that tries the script on a machine without a GPU.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rewardrate import train
from rewardrate.policies import EndpointPolicy
from rewardrate.runlog import RunLog

NAME = "policy"
METRIC = re.compile(
    r"^vllm:(prefix_cache_queries|prefix_cache_hits|prompt_tokens|generation_tokens)_total\{[^}]*\} (.+)$"
)


@contextmanager
def serving(args: argparse.Namespace) -> Iterator[tuple[str, float]]:
    """The server's address while it runs, and the seconds until it answered."""
    if args.url:
        yield args.url, 0.0
        return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [
        sys.executable,
        "-m",
        "vllm.entrypoints.cli.main",
        "serve",
        str(args.model),
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
    ]
    words += ["--served-model-name", NAME, "--generation-config", "vllm", "--dtype", "bfloat16"]
    words += ["--gpu-memory-utilization", str(args.memory_share)]
    place = {**os.environ, "VLLM_USE_FLASHINFER_SAMPLER": "0", "HF_HUB_OFFLINE": "1"}
    begun = time.monotonic()
    with (args.out / "server.txt").open("wb") as log:
        process = subprocess.Popen(words, env=place, stdout=log, stderr=log)
        try:
            while not answers(f"http://127.0.0.1:{port}/health"):
                if process.poll() is not None or time.monotonic() - begun > args.patience:
                    sys.exit(f"vllm serve does not answer; the end of {args.out}/server.txt says why")
                time.sleep(0.5)
            yield f"http://127.0.0.1:{port}/v1", time.monotonic() - begun
        finally:
            process.terminate()
            process.wait(30)


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5):
            return True
    except (urllib.error.URLError, OSError):
        return False


def counters(url: str) -> dict[str, float]:
    """What the server counted since it started."""
    with urllib.request.urlopen(url.removesuffix("/v1") + "/metrics", timeout=10) as page:
        lines = page.read().decode().splitlines()
    return {found[1]: float(found[2]) for found in map(METRIC.match, lines) if found}


def seeds(url: str, args: argparse.Namespace) -> dict[str, Any]:
    """Whether replies repeat with their seed, and change with another."""
    policy = EndpointPolicy(url, NAME, temperature=0.8, new_tokens=args.new, parallel=args.rows)
    text = "Write a Python script that fits a ridge regression to train.csv and writes submission.csv."
    asked: list[Any] = [[{"role": "user", "content": f"{text} Attempt {row}."}] for row in range(args.rows)]
    first, again, other = ([one.text for one in policy.propose(asked, seed)] for seed in (1, 1, 10_000))
    share = lambda a, b: sum(x == y for x, y in zip(a, b, strict=True)) / len(a)  # noqa: E731
    alone = EndpointPolicy(url, NAME, temperature=0.8, new_tokens=args.new, parallel=1)
    one, two = ([found.text for found in alone.propose(asked[:4], 1)] for _ in range(2))
    return {
        "rows": args.rows,
        "equal_with_the_same_seed": share(first, again),
        "equal_one_request_at_a_time": share(one, two),
        "equal_with_another_seed": share(first, other),
    }


def loop(url: str, args: argparse.Namespace) -> dict[str, Any]:
    """Five steps; the process is killed in the third, when some replies of it have come."""
    settings = [f"policy.url={url}", f"policy.model={NAME}", f"policy.new_tokens={args.new}", "policy.temperature=0.8"]
    settings += [
        f"policy.parallel={args.rows}",
        f"batch={args.rows}",
        f"budget.steps={args.steps}",
        f"task={args.task}",
    ]
    settings = ["policy.kind=endpoint", *settings, *args.set]
    folder = args.out / "run"
    code = f"import rewardrate\nrewardrate.train('gpu', {str(folder)!r}, settings={settings!r})"
    replies, begun = folder / "replies.jsonl", time.monotonic()
    kept = 0
    with subprocess.Popen([sys.executable, "-c", code]) as child:
        while child.poll() is None:
            time.sleep(0.05)
            kept = len(replies.read_text().splitlines()) if replies.exists() else 0
            if kept and committed(folder) == 2:
                child.kill()
    if child.returncode == 0:
        sys.exit("the run ended before it could be killed: give it more steps")
    kept = len(replies.read_text().splitlines()) if replies.exists() else 0
    train("gpu", folder, settings=settings)
    subprocess.run([sys.executable, "-m", "rewardrate", "report", str(folder)], check=True, stdout=subprocess.DEVNULL)
    with RunLog.open(folder, read_only=True) as log:
        rows, steps = list(log.attempts()), list(log.steps())
    return {
        "steps": len(steps),
        "attempts": len(rows),
        "with_a_reply": sum(bool(row.reply) and not row.reply.startswith("[no reply") for row in rows),
        "valid": sum(row.valid for row in rows),
        "replies_kept_over_the_kill": kept,
        "seconds": round(time.monotonic() - begun, 1),
        "seconds_by_phase": {name: round(value, 2) for name, value in steps[-1].phases.items()},
    }


def committed(folder: Path) -> int:
    """Steps that the run has done so far."""
    if not RunLog.exists(folder):
        return 0
    with RunLog.open(folder, read_only=True) as log:
        return len(list(log.steps()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, help="a folder in safetensors, with its tokenizer")
    parser.add_argument("--url", help="of a server that runs already, up to and with /v1")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--task", default="digits8x8")
    parser.add_argument("--rows", type=int, default=32, help="attempts a step")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--new", type=int, default=800)
    parser.add_argument("--memory-share", type=float, default=0.3)
    parser.add_argument("--patience", type=float, default=300.0, help="seconds until the server must answer")
    parser.add_argument("--set", action="append", default=[], metavar="a.b=c", help="of the recipe")
    args = parser.parse_args()
    if bool(args.model) == bool(args.url):
        parser.error("give --model or --url")
    args.out.mkdir(parents=True, exist_ok=True)
    with serving(args) as (url, started):
        found: dict[str, Any] = {"vllm": "a server at --url" if args.url else importlib.metadata.version("vllm")}
        found |= {"seconds_to_start": round(started, 1), "seeds": seeds(url, args)}
        before = {} if args.url else counters(url)
        found["loop"] = loop(url, args)
        if args.url:
            print("the server is not ours: its cache is NOT looked at", file=sys.stderr)
        else:
            used = {name: value - before.get(name, 0.0) for name, value in counters(url).items()}
            found["cache"] = used | {"hit_share": used["prefix_cache_hits"] / used["prefix_cache_queries"]}
    (args.out / "summary.json").write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
