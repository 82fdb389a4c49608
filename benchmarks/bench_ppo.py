"""One PPO update of ours against verl's own functions, same model and batch, and its speed on a GPU.

    python benchmarks/bench_ppo.py [--verl-python PATH]                       # numbers equal to 1e-5, ratio of times
    python benchmarks/bench_ppo.py --device cuda --parameters 1.5b            # tokens/s and TFLOP/s

The peer is verl's GAE, whitening, losses and log-probabilities, driven as verl drives them without removing padding:
prompts padded on the left, replies on the right, logits of whole rows, one pass to look and one to learn, AdamW. It
runs in the interpreter that `--verl-python` names (verl pins versions that ours does not meet), or here if verl can be
imported, or else a plain reference in this file takes its place, and the table says so. Prompts are those of a loop:
every row has the task's text in common and a script of its own. Weights are random, nothing is downloaded.

On a GPU: rows of one length. Model FLOPs are 2 per weight and token for a pass and 4 for its way back, weights of the
body for all tokens, of the output layer for reply tokens only (no more are computed), attention added (half of a
square); a token that several rows share counts in each. `hardware` adds what recomputation does again. Seconds are
wall time on a GPU, and on a CPU the time of our own process on one thread; the best of `--rounds` after one that does
not count.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from transformers import Qwen2Config, Qwen2ForCausalLM

SHAPES = {  # vocabulary, width, inner width, layers, heads, key heads, one matrix for both ends
    "5m": (2048, 256, 704, 6, 8, 4, True),
    "0.5b": (151936, 896, 4864, 24, 14, 2, True),
    "1.5b": (151936, 1536, 8960, 28, 12, 2, True),
}
TEMPERATURE, KL, CLIP, VALUE_CLIP, ENTROPY = 0.7, 0.01, 0.2, 0.5, 0.001
RATE, CRITIC_RATE = 1e-4, 1e-3
TOLERANCE = 1e-5
COMPARED = ("advantages", "returns", "policy_loss", "value_loss", "entropy", "kl")


def network(shape: str, device: str) -> Any:
    vocabulary, width, inner, layers, heads, key_heads, tied = SHAPES[shape]
    config = Qwen2Config(
        vocab_size=vocabulary,
        hidden_size=width,
        intermediate_size=inner,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=key_heads,
        tie_word_embeddings=tied,
        max_position_embeddings=8192,
        attn_implementation="sdpa",
        initializer_range=0.05 if shape == "5m" else 0.02,
    )
    torch.manual_seed(0)
    with torch.device(device):
        return Qwen2ForCausalLM(config).float().eval()


def loop_rows(rows: int, prompt: int, new: int, spread: float) -> list[dict[str, Any]]:
    """Prompts with a third in common, the rest and the replies of lengths that differ by up to `spread`."""
    dice = torch.Generator().manual_seed(1)

    def some(most: int) -> list[int]:
        length = most - int(torch.randint(0, int(spread * most) + 1, (), generator=dice))
        return torch.randint(5, 2000, (length,), generator=dice).tolist()  # type: ignore[no-any-return]

    task = torch.randint(5, 2000, (prompt // 3,), generator=dice).tolist()
    rewards = torch.randn(rows, generator=dice).tolist()
    return [{"prompt": task + some(prompt - len(task)), "reply": some(new), "reward": reward} for reward in rewards]


# ---- the peer: nothing of ours below, so that it can run in an environment of its own


def plain_functions() -> SimpleNamespace:
    """The formulas in their plainest form, where there is no verl."""

    def mean(values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return (values * mask).sum() / mask.sum()

    def advantages(
        rewards: torch.Tensor, values: torch.Tensor, mask: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        returns = (rewards * mask).flip(1).cumsum(1).flip(1)  # discount 1, trace 1
        raw = (returns - values) * mask
        kept = raw[mask.bool()]
        return (raw - kept.mean()) * torch.rsqrt(kept.var() + 1e-8) * mask, returns

    def policy(old: torch.Tensor, now: torch.Tensor, gain: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        ratio = (now - old).clamp(-20, 20).exp()
        return mean(torch.maximum(-gain * ratio, -gain * ratio.clamp(1 - CLIP, 1 + CLIP)), mask)

    def value(now: torch.Tensor, returns: torch.Tensor, old: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        near = now.clamp(old - VALUE_CLIP, old + VALUE_CLIP)
        return 0.5 * mean(torch.maximum((now - returns) ** 2, (near - returns) ** 2), mask)

    def logprobs(logits: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        return logits.log_softmax(-1).gather(-1, tokens.unsqueeze(-1)).squeeze(-1)

    def entropy(logits: torch.Tensor) -> torch.Tensor:
        return logits.logsumexp(-1) - (logits.softmax(-1) * logits).sum(-1)

    return SimpleNamespace(
        name="a plain reference", advantages=advantages, policy=policy, value=value, logprobs=logprobs, entropy=entropy
    )


def verl_functions() -> SimpleNamespace:
    """The same from verl, under the same names."""
    import verl
    from verl.trainer.ppo import core_algos
    from verl.utils import torch_functional as tools

    class Settings(dict):  # type: ignore[type-arg]
        clip_ratio, clip_ratio_low, clip_ratio_high, global_batch_info = CLIP, None, None, {}

    settings = Settings(clip_ratio_c=1e6)  # no bound on the loss of large ratios: PPO as published

    def advantages(
        rewards: torch.Tensor, values: torch.Tensor, mask: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        return core_algos.compute_gae_advantage_return(rewards, values, mask, 1.0, 1.0)  # type: ignore[no-any-return]

    def policy(old: torch.Tensor, now: torch.Tensor, gain: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return core_algos.compute_policy_loss_vanilla(old, now, gain, mask, "token-mean", settings)[0]  # type: ignore[no-any-return]

    def value(now: torch.Tensor, returns: torch.Tensor, old: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return core_algos.compute_value_loss(now, returns, old, mask, VALUE_CLIP)[0]  # type: ignore[no-any-return]

    return SimpleNamespace(
        name=f"verl {verl.__version__}",
        advantages=advantages,
        policy=policy,
        value=value,
        logprobs=tools.logprobs_from_logits,
        entropy=tools.entropy_from_logits,
    )


@dataclass
class Peer:
    """Actor, critic and reference on padded rows, stepped as a plain trainer does it."""

    functions: SimpleNamespace
    model: Any
    critic: Any
    head: Any
    reference: Any
    rows: list[dict[str, Any]]
    micro: int

    def __post_init__(self) -> None:
        left, right = (max(len(row[key]) for row in self.rows) for key in ("prompt", "reply"))
        pad = [([0] * (left - len(r["prompt"])), [0] * (right - len(r["reply"]))) for r in self.rows]
        self.tokens = torch.tensor([a + r["prompt"] + r["reply"] + b for r, (a, b) in zip(self.rows, pad, strict=True)])
        self.seen = torch.tensor([[0] * len(a) + [1] * (left + right - len(a) - len(b)) + [0] * len(b) for a, b in pad])
        self.mask, self.replies, self.count = self.seen[:, left:].float(), self.tokens[:, left:], right
        self.reward = torch.tensor([row["reward"] for row in self.rows])
        self.actor_steps = torch.optim.AdamW(self.model.parameters(), RATE, weight_decay=0.01)
        both = [*self.critic.parameters(), *self.head.parameters()]
        self.critic_steps = torch.optim.AdamW(both, CRITIC_RATE, weight_decay=0.01)

    def whole(self, network: Any, rows: slice) -> Any:
        """A pass over padded rows."""
        seen = self.seen[rows]
        places = (seen.cumsum(1) - 1).clamp(min=0)
        return network(input_ids=self.tokens[rows], attention_mask=seen, position_ids=places, use_cache=False)

    def scores(self, network: Any, rows: slice) -> tuple[torch.Tensor, torch.Tensor]:
        """Log-probabilities and entropies, from logits of whole rows."""
        logits = self.whole(network, rows).logits.div_(TEMPERATURE)[:, -self.count - 1 : -1]
        return self.functions.logprobs(logits, self.replies[rows]), self.functions.entropy(logits)

    def values(self, rows: slice) -> torch.Tensor:
        """What the critic says of every reply token."""
        hidden = self.whole(self.critic, rows).last_hidden_state[:, -self.count - 1 : -1]
        return self.head(hidden).squeeze(-1)  # type: ignore[no-any-return]

    def cuts(self) -> list[slice]:
        """The micro-batches."""
        return [slice(at, at + self.micro) for at in range(0, len(self.rows), self.micro)]

    def update(self, epochs: int = 1) -> dict[str, Any]:
        """One batch; every number that is compared."""
        with torch.no_grad():
            old, reference = (
                torch.cat([self.scores(net, cut)[0] for cut in self.cuts()]) for net in (self.model, self.reference)
            )
            old_values = torch.cat([self.values(cut) for cut in self.cuts()])
            last = self.mask.cumsum(1).argmax(1)
            rewards = -KL * (old - reference) * self.mask
            rewards[torch.arange(len(self.rows)), last] += self.reward
            gain, returns = self.functions.advantages(rewards, old_values * self.mask, self.mask)
        found: dict[str, Any] = {"advantages": gain * self.mask, "returns": returns * self.mask, "mask": self.mask}
        found["kl"] = ((old - reference) * self.mask).sum() / self.mask.sum()
        totals = {"policy_loss": 0.0, "value_loss": 0.0, "entropy": 0.0}
        for _ in range(epochs):
            for key, part in self.step(old, old_values, gain, returns).items():
                totals[key] += part / epochs
        return found | {key: torch.tensor(total) for key, total in totals.items()}

    def step(
        self, old: torch.Tensor, old_values: torch.Tensor, gain: torch.Tensor, returns: torch.Tensor
    ) -> dict[str, float]:
        """One step of both optimisers on the whole batch."""
        totals = {"policy_loss": 0.0, "value_loss": 0.0, "entropy": 0.0}
        for optimiser in (self.actor_steps, self.critic_steps):
            optimiser.zero_grad()
        for cut in self.cuts():
            mask = self.mask[cut]
            share = mask.sum() / self.mask.sum()  # so that the mean is over the tokens of the whole batch
            now, uncertainty = self.scores(self.model, cut)
            loss = self.functions.policy(old[cut], now, gain[cut], mask) * share
            spread = (uncertainty * mask).sum() / self.mask.sum()
            error = self.functions.value(self.values(cut), returns[cut], old_values[cut], mask) * share
            (loss - ENTROPY * spread).backward()
            error.backward()
            for key, part in (("policy_loss", loss), ("value_loss", error), ("entropy", spread)):
                totals[key] += float(part.detach())
        for network, optimiser in ((self.model, self.actor_steps), (self.critic, self.critic_steps)):
            parameters = [*network.parameters(), *(self.head.parameters() if network is self.critic else ())]
            torch.nn.utils.clip_grad_norm_(parameters, 1.0)
            optimiser.step()
        return totals


def make_peer(task: dict[str, Any]) -> Peer:
    """The peer of a task that `compare` wrote down: same weights, same rows."""
    functions = plain_functions() if not task["verl"] else verl_functions()
    model, critic, reference = (network(task["shape"], "cpu") for _ in range(3))
    weights = load_file(task["weights"])
    for net in (model, reference):
        net.load_state_dict(weights, strict=False)  # a tied matrix is stored once
        net.tie_weights()
    trunk = critic.base_model
    trunk.load_state_dict(model.base_model.state_dict())
    head = torch.nn.Linear(SHAPES[task["shape"]][1], 1)
    for part in head.parameters():
        torch.nn.init.zeros_(part)
    return Peer(functions, model, trunk, head, reference.requires_grad_(False), task["rows"], task["micro"])


def peer_report(task: dict[str, Any]) -> dict[str, Any]:
    """Numbers of the second batch, two epochs each; then seconds of an update of one epoch."""
    torch.set_num_threads(1)
    peer = make_peer(task)
    peer.update(epochs=2)
    numbers = peer.update(epochs=2)
    seconds = best(peer.update, task["rounds"])
    return {"name": peer.functions.name, "seconds": seconds, "numbers": numbers}


def run_peer(task: dict[str, Any], python: str | None) -> dict[str, Any]:
    """In this process, or in another interpreter that has verl."""
    if python is None:
        return peer_report(task)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "task.json").write_text(json.dumps(task))
        command = [python, str(Path(__file__).resolve()), "--peer", str(place)]
        subprocess.run(command, check=True, stdout=sys.stderr)
        told = json.loads((place / "report.json").read_text())
        return {**told, "numbers": load_file(place / "numbers.safetensors")}


def answer(place: Path) -> None:
    """What the other interpreter does."""
    report = peer_report(json.loads((place / "task.json").read_text()))
    save_file({name: part.contiguous() for name, part in report.pop("numbers").items()}, place / "numbers.safetensors")
    (place / "report.json").write_text(json.dumps(report))


# ---- ours


def learner(model: Any, micro: int, **changes: Any) -> Any:
    from rewardrate.policies.learner import Learner, LearnerSettings

    usual = {"learning_rate": RATE, "critic_learning_rate": CRITIC_RATE, "kl_coefficient": KL, "micro_batch": micro}
    return Learner(model, LearnerSettings(**(usual | changes)), TEMPERATURE)


def experiences(rows: list[dict[str, Any]]) -> list[Any]:
    from rewardrate.policies.learner import Experience

    return [Experience(tuple(row["prompt"]), tuple(row["reply"]), row["reward"]) for row in rows]


def our_numbers(shape: str, rows: list[Any], micro: int) -> dict[str, torch.Tensor]:
    """Those of the second batch: by then values, ratios and the distance to the reference have moved."""
    ours = learner(network(shape, "cpu"), micro, epochs=2)
    ours.update(rows)
    batch, _ = ours.prepare(rows)
    metrics = ours.update(rows)
    told = {key: torch.tensor(metrics[key]) for key in ("policy_loss", "value_loss", "entropy", "kl")}
    return {"advantages": batch.advantages, "returns": batch.returns, "mask": batch.mask.float(), **told}


def compare(arguments: argparse.Namespace) -> bool:
    """The table of differences and the ratio; whether all numbers agree."""
    shape, micro = arguments.parameters, arguments.micro_batch
    rows = loop_rows(arguments.rows, arguments.prompt, arguments.new, arguments.spread)
    python = arguments.verl_python
    found = python is not None or importlib.util.find_spec("verl") is not None
    with tempfile.TemporaryDirectory() as folder:
        weights = str(Path(folder) / "weights.safetensors")
        state = {k: v for k, v in network(shape, "cpu").state_dict().items() if k != "lm_head.weight"}
        save_file({name: part.clone() for name, part in state.items()}, weights)
        task = {"shape": shape, "rows": rows, "micro": micro, "weights": weights, "verl": found}
        theirs = run_peer(task | {"rounds": arguments.rounds}, python)
    batch = experiences(rows)
    ours = our_numbers(shape, batch, micro)
    tokens = sum(len(row["prompt"]) + len(row["reply"]) for row in rows)
    print(f"{shape} on a CPU, {len(rows)} rows, {tokens} tokens, micro-batches of {micro}; against {theirs['name']}\n")
    print("| number | largest difference |\n|---|---|")
    fine = True
    for key in COMPARED:
        gap = float((ours[key] - theirs["numbers"][key]).abs().max())
        fine &= gap <= TOLERANCE * max(1.0, float(theirs["numbers"][key].abs().max()))
        print(f"| {key} | {gap:.1e} |")
    print(f"\n| way | seconds | ratio |\n|---|---|---|\n| {theirs['name']} | {theirs['seconds']:.2f} | 1.0 |")
    for critic in ("own", "shared"):
        mine = learner(network(shape, "cpu"), micro, critic=critic)
        seconds = best(lambda mine=mine: mine.update(batch), arguments.rounds)
        note = "" if critic == "own" else ", critic on the policy's trunk (less work: not the same update)"
        print(f"| ours{note} | {seconds:.2f} | **{theirs['seconds'] / seconds:.1f}x** |", flush=True)
    return fine


def work(shape: str, rows: list[dict[str, Any]]) -> tuple[float, float]:
    """Model FLOPs of one forward pass over a batch: of the body with attention, and of the output layer."""
    vocabulary, width, inner, layers, heads, key_heads, _ = SHAPES[shape]
    side = width // heads
    layer = width * (2 * width + 2 * key_heads * side) + 3 * width * inner
    lengths = [len(row["prompt"]) + len(row["reply"]) for row in rows]
    body = sum(2 * layers * layer * n + 2 * layers * width * n * n for n in lengths)
    return float(body), float(2 * vocabulary * width * sum(len(row["reply"]) for row in rows))


def chunked(shape: str, rows: list[dict[str, Any]], micro: int) -> bool:
    """Whether logits of a micro-batch are made in chunks, and so again in the backward pass."""
    from rewardrate.policies.network import HEAD_ELEMENTS

    return sum(len(row["reply"]) for row in rows[:micro]) * SHAPES[shape][0] > HEAD_ELEMENTS


def measure(arguments: argparse.Namespace) -> None:
    """Tokens and FLOPs a second of the learning pass alone and of the whole update."""
    shape, device = arguments.parameters, arguments.device
    rows = loop_rows(arguments.rows, arguments.prompt, arguments.new, arguments.spread)
    batch, (body, head) = experiences(rows), work(shape, rows)
    tokens = sum(len(row["prompt"]) + len(row["reply"]) for row in rows)
    print(f"{shape}, {len(rows)} rows of {arguments.prompt} + {arguments.new} tokens, {tokens:,} in all\n")
    print("| critic | layers | micro-batch | part | seconds | tokens/s | TFLOP/s model | hardware | peak |")
    print("|---|---|---|---|---|---|---|---|---|")
    for critic, again in [(c, a) for c in arguments.critics for a in arguments.layers]:
        ours: Any = None
        name = f"| {critic} | {again} | {arguments.micro_batch} |"
        try:
            choice = {"critic": critic, "gradient_checkpointing": again == "recomputed", "prompts": arguments.prompts}
            ours = learner(network(shape, device), arguments.micro_batch, **choice)
            networks = 2 if critic == "own" else 1
            learning = 3 * (networks * body + head)
            extra = networks * body * (again == "recomputed") + head * chunked(shape, rows, arguments.micro_batch)
            once = len(rows) <= arguments.micro_batch  # the first pass serves the look before it too
            looking = body + head if once else (networks + 1) * body + 2 * head
            prepared, _ = ours.prepare(batch)
            parts: list[tuple[str, Callable[[], object], float, float]] = [
                (
                    "learning pass",
                    lambda o=ours, p=prepared: o.accumulate(batch, p, range(len(batch))),
                    learning,
                    extra,
                ),
                ("whole update", lambda o=ours: o.update(batch), learning + looking, extra),
            ]
            for part, call, flops, repeated in parts:
                if device == "cuda":
                    torch.cuda.reset_peak_memory_stats()
                seconds = best(call, arguments.rounds)
                peak = f"{torch.cuda.max_memory_allocated() / 2**30:.0f} GiB" if device == "cuda" else "-"
                speed = f"{flops / seconds / 1e12:.2f} | {(flops + repeated) / seconds / 1e12:.2f}"
                print(f"{name} {part} | {seconds:.2f} | {tokens / seconds:,.0f} | {speed} | {peak} |", flush=True)
                for net in (ours.model, ours.critic):
                    net.zero_grad(set_to_none=True)
        except torch.OutOfMemoryError:
            print(f"{name} out of memory | | | | | |", flush=True)
        del ours
        gc.collect()
        if device == "cuda":
            torch.cuda.empty_cache()


def best(call: Callable[[], object], rounds: int) -> float:
    """Seconds of the quickest of `rounds` calls after one that does not count."""
    times = []
    for _ in range(rounds + 1):
        start = now()
        call()
        times.append(now() - start)
    return min(times[1:])


def now() -> float:
    """Wall time of a GPU with nothing under way; on a CPU the time of our own process, whatever else runs there."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
        return time.perf_counter()
    return time.process_time()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--parameters", choices=list(SHAPES), default="5m")
    parser.add_argument("--verl-python", metavar="PATH", help="an interpreter that can import verl")
    parser.add_argument("--rows", type=int, help="default: 16, on a GPU 64")
    parser.add_argument("--prompt", type=int, help="tokens of a prompt (340, on a GPU 336)")
    parser.add_argument("--new", type=int, help="tokens of a reply (200, on a GPU 512)")
    parser.add_argument("--spread", type=float, help="share by which lengths differ (0.4, on a GPU 0)")
    parser.add_argument("--micro-batch", type=int, help="16, on a GPU 32")
    parser.add_argument("--critics", nargs="+", choices=("own", "shared"), default=["shared", "own"])
    parser.add_argument("--layers", nargs="+", choices=("kept", "recomputed"), default=["recomputed", "kept"])
    parser.add_argument("--prompts", choices=("auto", "apart", "shared"), default="auto", help="as in a recipe")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--peer", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peer:
        answer(arguments.peer)
        return 0
    gpu = arguments.device == "cuda"
    usual = {"rows": (16, 64), "prompt": (340, 336), "new": (200, 512), "spread": (0.4, 0.0), "micro_batch": (16, 32)}
    for name, choice in usual.items():
        if getattr(arguments, name) is None:
            setattr(arguments, name, choice[gpu])
    torch.set_num_threads(1)
    name = torch.cuda.get_device_name() if gpu else "CPU, one thread"
    print(f"{name}, torch {torch.__version__}")
    if gpu:
        measure(arguments)
        return 0
    return 0 if compare(arguments) else 1


if __name__ == "__main__":
    sys.exit(main())
