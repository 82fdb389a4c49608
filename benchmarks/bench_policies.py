"""The sampler against the library's `generate`, side by side in one run (the learner: bench_ppo.py).

    python benchmarks/bench_policies.py [--shape 135M] [--rows 128] [--engines graph fused]

Weights are random, of a known model's shape: speed does not depend on what they say, and nothing is downloaded. All
ways draw the same number of tokens with the same temperature, top-p and top-k; none may end early. Every way is run
once unmeasured (`first` is that run: compilation, recording), then the best of `--rounds` counts. Seconds are wall time
on a GPU and time of our own process on a CPU.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM

from rewardrate.policies.sampling import Sampler, SamplingSettings

SHAPES = {  # vocabulary, width, inner width, layers, heads, key heads
    "5M": (2048, 256, 704, 6, 4, 4),
    "30M": (16384, 384, 1024, 8, 6, 2),
    "135M": (49152, 576, 1536, 30, 9, 3),  # SmolLM2-135M
    "0.5B": (151936, 896, 4864, 24, 14, 2),  # Qwen2.5-Coder-0.5B
    "1.5B": (151936, 1536, 8960, 28, 12, 2),  # Qwen2.5-Coder-1.5B
}
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def network(shape: str, dtype: torch.dtype) -> Any:
    vocabulary, width, inner, layers, heads, key_heads = SHAPES[shape]
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=width,
        intermediate_size=inner,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=key_heads,
        tie_word_embeddings=True,
        max_position_embeddings=8192,
        attn_implementation="sdpa",
    )
    torch.manual_seed(0)
    with torch.device(DEVICE):
        return LlamaForCausalLM(config).to(dtype).eval()


def now() -> float:
    """Wall time of a GPU with nothing under way; on a CPU the time of our own process, whatever else runs there."""
    if DEVICE.type == "cuda":
        torch.cuda.synchronize()
        return time.perf_counter()
    return time.process_time()


def timed(call: Callable[[], object], rounds: int) -> tuple[float, float]:
    """Seconds of the first run, and of the best of the following."""
    times = []
    for _ in range(rounds + 1):
        start = now()
        call()
        times.append(now() - start)
    return times[0], min(times[1:])


def prompts(rows: int, length: int, distinct: bool) -> list[tuple[int, ...]]:
    generator = torch.Generator().manual_seed(1)
    table = torch.randint(5, 2000, (rows, length), generator=generator).tolist()
    return [tuple(table[row if distinct else 0]) for row in range(rows)]


def theirs(
    model: Any, asked: list[tuple[int, ...]], settings: SamplingSettings, cache: str | None
) -> Callable[[], object]:
    tokens = torch.tensor(asked, device=DEVICE)
    config = GenerationConfig(
        do_sample=True,
        temperature=settings.temperature,
        top_p=settings.top_p,
        top_k=settings.top_k,
        max_new_tokens=settings.new_tokens,
        pad_token_id=0,
        cache_implementation=cache,
    )
    model.generation_config.eos_token_id = None
    return lambda: model.generate(tokens, attention_mask=torch.ones_like(tokens), generation_config=config)


def compare_samplers(arguments: argparse.Namespace) -> None:
    dtype = torch.bfloat16 if DEVICE.type == "cuda" else torch.float32
    settings = SamplingSettings(presence_penalty=0.0, new_tokens=arguments.new)
    drawn = arguments.rows * arguments.new
    print(
        f"\n{arguments.shape}, {arguments.rows} rows, prompts of {arguments.prompt}, {arguments.new} new tokens each\n"
    )
    print("| prompts | way | first | seconds | tokens/s | ratio |\n|---|---|---|---|---|---|")
    engines = ["eager", "graph", "fused"] if DEVICE.type == "cuda" else ["eager"]
    engines = [engine for engine in engines if engine in (arguments.engines or engines)]
    for distinct in {"equal": [False], "distinct": [True], "both": [False, True]}[arguments.prompts]:
        asked = prompts(arguments.rows, arguments.prompt, distinct)
        model = network(arguments.shape, dtype)
        ways: dict[str, Callable[[], object]] = {"generate": theirs(model, asked, settings, None)}
        if DEVICE.type == "cuda" and not arguments.engines:
            ways["generate, static cache"] = theirs(model, asked, settings, "static")
        slowest = None
        for way, call in ways.items():
            slowest = show(distinct, way, call, drawn, arguments.rounds, slowest)
        for engine in engines:
            sampler = Sampler(model, replace(settings, engine=engine), [])
            show(
                distinct, f"ours, {engine}", lambda s=sampler, a=asked: s.sample(a, 0), drawn, arguments.rounds, slowest
            )
            del sampler
            gc.collect()
        del model


def show(distinct: bool, way: str, call: Callable[[], object], drawn: int, rounds: int, slowest: float | None) -> float:
    kind = "distinct" if distinct else "equal"
    try:
        first, seconds = timed(call, rounds)
    except Exception as error:  # one way that fails should not hide the others
        print(f"| {kind} | {way} | failed: {' '.join(str(error).split())[:200]} | | | |", flush=True)
        return slowest or float("nan")
    slowest = slowest or seconds
    line = (
        f"| {kind} | {way} | {first:.1f} s | {seconds:.2f} s | {drawn / seconds:,.0f} | **{slowest / seconds:.1f}x** |"
    )
    print(line, flush=True)
    return slowest


def main() -> None:
    gpu = DEVICE.type == "cuda"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=list(SHAPES), default="135M" if gpu else "5M")
    parser.add_argument("--rows", type=int, default=128 if gpu else 16)
    parser.add_argument("--prompt", type=int, default=336)
    parser.add_argument("--prompts", choices=["equal", "distinct", "both"], default="both")
    parser.add_argument("--engines", nargs="+", help="only these of ours, beside the library's default (default: all)")
    parser.add_argument("--new", type=int, default=512 if gpu else 128)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1, help="torch threads on a CPU (default 1)")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    name = torch.cuda.get_device_name() if gpu else f"CPU, {arguments.threads} thread(s)"
    print(f"{name}, torch {torch.__version__}")
    compare_samplers(arguments)


if __name__ == "__main__":
    main()
