"""The engines that draw replies, side by side in one run: ours, vLLM and the library's `generate`.

    python benchmarks/bench_engines.py --model Qwen/Qwen2.5-Coder-1.5B-Instruct --out results/DATE-NAME/engines.csv

Every engine replies to the same prompts (one task's, as in a step of training: `--distinct` makes them differ at their
ends), at temperature 0.8 with nothing cut; no reply may end early, so all write the same number of tokens. Columns:

  start      seconds until the engine can draw: vLLM starts a process, ours records at the first batch (`first`)
  seconds    of a whole batch as the training loop sees it, the best of --rounds
  weights    the part of it that moves weights to the engine and wakes it (a batch of one token each)
  tokens/s   rows * new tokens / seconds; drawing alone: the same without `weights`
  gap        |log-probability reported - the network's own in float32|, of 16 replies: mean, and 99th percentile
  asleep     GiB of the GPU that are taken while the learner works, more than before the engine was made

On a CPU only the eager engine and `generate` run (--model tiny --rows 2 --new 16 tries the script). Set
VLLM_USE_V2_MODEL_RUNNER=1 to measure vLLM's newer runner on models for which it is not yet the default.
"""

from __future__ import annotations

import argparse
import csv
import gc
import importlib.metadata
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from bench_policies import DEVICE, now, theirs

from rewardrate.errors import InputError, MissingExtra
from rewardrate.policies import Sampler, SamplingSettings, load_model
from rewardrate.policies.network import half_copy
from rewardrate.policies.sampling import Sample
from rewardrate.policies.vllm import VllmSampler

OURS = ("fused", "graph", "eager")
LIBRARY = {"generate": None, "generate-static": "static"}
COLUMNS = ("engine", "version", "rows", "start", "first", "seconds", "weights", "tokens_per_second", "drawing_alone")
COLUMNS += ("gap_mean", "gap_p99", "asleep_gib")
CHECKED = 16  # replies whose log-probabilities are computed again


def prompts(language: Any, rows: int, distinct: bool) -> list[tuple[int, ...]]:
    """A task's first prompt, tokenised; about as long as in training."""
    text = "Write a Python script that trains a classifier on train.csv and writes submission.csv.\n" * 18
    tails = [f"Attempt {row if distinct else 0}." for row in range(rows)]
    return [tuple(language.encode([{"role": "user", "content": text + tail}])) for tail in tails]


def held() -> float:
    """GiB of the GPU that any process has taken."""
    if DEVICE.type != "cuda":
        return 0.0
    torch.cuda.empty_cache()
    free, total = torch.cuda.mem_get_info()
    return (total - free) / 2**30


@torch.no_grad()
def gaps(model: Any, asked: Sequence[Sequence[int]], samples: Sequence[Sample], temperature: float) -> torch.Tensor:
    """Distance of every reported log-probability to that of the network in its own precision."""
    found = []
    for prompt, sample in list(zip(asked, samples, strict=True))[:CHECKED]:
        ids = torch.tensor([[*prompt, *sample.tokens]], device=DEVICE)
        logits = model(ids).logits[0, len(prompt) - 1 : -1].float() / temperature
        own = logits.log_softmax(-1).gather(1, ids[0, len(prompt) :].unsqueeze(1)).squeeze(1)
        found.append((own - torch.tensor(sample.drawn_logprobs, device=DEVICE)).abs().cpu())
    return torch.cat(found)


def best(call: Callable[[], Any], rounds: int) -> tuple[float, float, Any]:
    """Seconds of the first call, the least of the following, and what the last one returned."""
    times, result = [], None
    for _ in range(rounds + 1):
        start = now()
        result = call()
        times.append(now() - start)
    return times[0], min(times[1:] or times), result


class Bench:
    """One model, its prompts, and the rows of the table."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        self.language = load_model(arguments.model)
        self.model = self.language.model
        self.model.config.eos_token_id = self.model.generation_config.eos_token_id = None  # no reply ends early
        self.settings = SamplingSettings(
            temperature=0.8,
            top_p=1.0,
            top_k=0,
            presence_penalty=0.0,
            new_tokens=arguments.new,
            memory_share=arguments.memory_share,
        )
        self.table: list[dict[str, Any]] = []

    def run(self) -> None:
        """All engines, one after the other."""
        for engine in self.arguments.engines:
            try:
                self.vllm() if engine == "vllm" else self.local(engine)
            except (InputError, MissingExtra) as error:  # what this machine cannot do
                print(f"{engine}: NOT measured: {error}", flush=True)
            gc.collect()

    def local(self, engine: str) -> None:
        """An engine in this process, on the copy that training samples from."""
        start = now()
        model = half_copy(self.model) if DEVICE.type == "cuda" else self.model
        begun = now() - start
        for rows in self.arguments.rows:
            asked = prompts(self.language, rows, self.arguments.distinct)
            if engine in LIBRARY:
                if engine == "generate-static" and rows != max(self.arguments.rows):
                    continue  # it compiles anew for every number of rows
                call = theirs(model, list(asked), self.settings, LIBRARY[engine])
            else:
                sampler = Sampler(model, replace(self.settings, engine=engine), [])
                call = lambda s=sampler, a=asked: s.sample(a, 0)  # noqa: E731
            found = best(call, self.arguments.rounds if engine != "generate" else 0)
            version = importlib.metadata.version("transformers" if engine in LIBRARY else "rewardrate")
            self.row(engine, version, rows, begun, found, None if engine in LIBRARY else asked)

    def vllm(self) -> None:
        """The way the training loop uses vLLM: weights are written and reloaded for every batch."""
        before, start = held(), now()
        sampler = VllmSampler(self.model, replace(self.settings, engine="vllm"), [])
        begun, asleep = now() - start, held() - before
        for rows in self.arguments.rows:
            asked = prompts(self.language, rows, self.arguments.distinct)
            sampler.settings = replace(sampler.settings, new_tokens=1)
            _, weights, _ = best(lambda a=asked: sampler.sample(a, 0), 1)
            sampler.settings = replace(sampler.settings, new_tokens=self.arguments.new)
            found = best(lambda a=asked: sampler.sample(a, 0), self.arguments.rounds)
            version = importlib.metadata.version("vllm")
            self.row("vllm", version, rows, begun, found, asked, weights=weights, asleep=asleep)
        sampler.close()

    def row(
        self,
        engine: str,
        version: str,
        rows: int,
        begun: float,
        found: tuple[float, float, Any],
        asked: Sequence[Sequence[int]] | None,
        *,
        weights: float = 0.0,
        asleep: float = 0.0,
    ) -> None:
        """One line of the table, printed as it comes."""
        first, seconds, samples = found
        tokens = rows * self.arguments.new
        line: dict[str, Any] = dict(zip(COLUMNS, (engine, version, rows, begun, first, seconds, weights), strict=False))
        line |= {"tokens_per_second": tokens / seconds, "drawing_alone": tokens / (seconds - weights)}
        line |= {"gap_mean": "", "gap_p99": "", "asleep_gib": asleep if engine == "vllm" else ""}
        if asked is not None:
            assert all(len(sample.tokens) == self.arguments.new for sample in samples), "a reply ended early"
            gap = gaps(self.model, asked, samples, self.settings.temperature)
            line |= {"gap_mean": float(gap.mean()), "gap_p99": float(gap.quantile(0.99))}
        self.table.append(line)
        print(
            f"| {engine} | {version} | {rows} | {begun:.1f} | {first:.1f} | {seconds:.2f} | {weights:.2f} "
            f"| {line['tokens_per_second']:,.0f} | {line['drawing_alone']:,.0f} "
            + (f"| {line['gap_mean']:.4f} | {line['gap_p99']:.4f} " if asked is not None else "| | ")
            + (f"| {asleep:.1f} |" if engine == "vllm" else "| |"),
            flush=True,
        )
        if self.arguments.out is not None:
            self.arguments.out.parent.mkdir(parents=True, exist_ok=True)
            with self.arguments.out.open("w", newline="") as file:
                writer = csv.DictWriter(file, COLUMNS)
                writer.writeheader()
                writer.writerows(self.table)


def main() -> None:
    gpu = DEVICE.type == "cuda"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="as policy.name of a recipe")
    parser.add_argument("--rows", type=int, nargs="+", default=[32, 128, 256])
    parser.add_argument("--new", type=int, default=800)
    parser.add_argument("--rounds", type=int, default=1, help="measured batches after the first")
    parser.add_argument("--distinct", action="store_true")
    parser.add_argument("--memory-share", type=float, default=0.4, help="of the GPU, for vLLM")
    default = ["fused", "vllm", "generate", "generate-static"] if gpu else ["eager", "vllm", "generate"]
    parser.add_argument("--engines", nargs="+", choices=[*OURS, "vllm", *LIBRARY], default=default)
    parser.add_argument("--out", type=Path, help="a CSV file")
    arguments = parser.parse_args()
    torch.set_num_threads(1 if not gpu else torch.get_num_threads())
    begun = time.monotonic()
    bench = Bench(arguments)
    name = torch.cuda.get_device_name() if gpu else "CPU, one thread"
    length = len(prompts(bench.language, 1, False)[0])
    print(f"{name}, torch {torch.__version__}, {arguments.model}, prompts of {length}, {arguments.new} new tokens")
    heads = (
        "engine | version | rows | start | first | seconds | weights | tokens/s | drawing alone | gap | 99 % | asleep"
    )
    print(f"\n| {heads} |\n|" + "---|" * 12)
    bench.run()
    print(f"\n{time.monotonic() - begun:.0f} s in all")


if __name__ == "__main__":
    main()
