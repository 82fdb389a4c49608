"""What a recipe says of a policy: settings alone, without torch, which takes seconds to import."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from rewardrate.config import AtLeast, Between, Registered
from rewardrate.policies import algorithms
from rewardrate.policies.algorithms import Algorithm

SHIPPED = {"tiny": Path(__file__).parent / "tiny", "tiny-race": Path(__file__).parent / "tiny_race"}
"Ours: one writes scripts for tasks, the other changes of the race's script."
Decay = Annotated[float, Between(0, 0.999999)]


@dataclass(frozen=True)
class SamplingSettings:
    """How replies are drawn. Defaults: the paper's table."""

    temperature: Annotated[float, AtLeast(1e-3)] = 0.7
    "Logits are divided by it. For the likeliest token always, set top_k = 1."
    top_p: Annotated[float, Between(1e-3, 1)] = 0.8
    "Only the likeliest tokens that together reach this share can be drawn. 1: all."
    top_k: Annotated[int, AtLeast(0)] = 20
    "Only this many likeliest tokens can be drawn. 0: all."
    presence_penalty: float = 1.5
    "Subtracted from the logit of every token that the reply already has."
    new_tokens: Annotated[int, AtLeast(1)] = 2500
    "The longest reply."
    rows_at_once: Annotated[int, AtLeast(1)] | None = None
    "Rows per batch; nothing: all. Changes time and memory, not the replies."
    engine: Literal["auto", "eager", "graph", "fused", "vllm"] = "auto"
    """eager: step by step. graph: a step is recorded as a CUDA graph and replayed. fused: the same with kernels of our
    own, for Llama and Qwen2. auto: eager on a CPU; on a GPU fused where it can be used, else graph. vllm: the library
    of that name (docs/vllm.md)."""
    memory_share: Annotated[float, Between(0.05, 0.95)] = 0.4
    "Share of the GPU's memory that vLLM may fill while it samples; the learner needs the rest."

    @property
    def unmodified(self) -> bool:
        """Whether replies are drawn from the policy's distribution as it is: nothing cut, nothing penalised."""
        return self.top_p == 1 and self.top_k == 0 and self.presence_penalty == 0


@dataclass(frozen=True)
class LearnerSettings:
    """How a batch of rewards becomes a change of weights. Defaults: the paper's table, as its code runs it."""

    MOVED: ClassVar[dict[str, str]] = dict.fromkeys(
        ("clip", "value_clip", "discount", "trace", "whiten", "spread_floor"), "algorithm"
    )
    "Keys of recipes from before there was a choice of algorithm, and the table they are in now."

    learning_rate: Annotated[float, AtLeast(0)] = 1e-6
    "AdamW step of the policy; constant, no warm-up."
    critic_learning_rate: Annotated[float, AtLeast(0)] = 1e-5
    "AdamW step of the critic, where the algorithm has one."
    betas: tuple[Decay, Decay] = (0.9, 0.999)
    "AdamW's two decay rates."
    weight_decay: Annotated[float, AtLeast(0)] = 0.01
    "AdamW's decoupled decay."
    gradient_clip: Annotated[float, AtLeast(0)] = 1.0
    "Largest norm of a gradient, policy and critic each on its own."
    entropy_coefficient: float = 0.001
    "Weight of the entropy bonus."
    kl_coefficient: Annotated[float, AtLeast(0)] = 0.001
    "Price of the distance to the reference: in the reward, or where the algorithm has it. 0 keeps no reference at all."
    epochs: Annotated[int, AtLeast(1)] = 1
    "Passes over a batch."
    mini_batch: Annotated[int, AtLeast(1)] | None = None
    "Rows per optimiser step; nothing: the whole batch."
    micro_batch: Annotated[int, AtLeast(1)] = 4
    "Rows in memory at once. Changes time and memory, not the gradient."
    prompts: Literal["auto", "apart", "shared"] = "auto"
    "Whether what prompts of a micro-batch have in common is computed once. auto: shared on a CPU."
    old_logprobs: Literal["recomputed", "sampled", "decoupled"] = "recomputed"
    """Where the ratio's denominator comes from. recomputed: a pass of this network (paper's code). sampled: the
    sampler, one pass less. decoupled: recomputed, and the loss is weighted by recomputed over sampled probability,
    for attempts that older weights wrote; with schedule = "stream" recomputed means this (docs/policies.md)."""
    weight_limit: Annotated[float, AtLeast(1)] = 2.0
    "decoupled: a larger weight is cut to this."
    critic: Literal["own", "shared"] = "own"
    "A second network from the same weights, or a value head on the policy's trunk, through which no gradient flows."
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    "Of the arithmetic; weights are fp32 always. auto: bf16 on a GPU, fp32 on a CPU."
    gradient_checkpointing: bool = False
    "Whether layers are computed again in the backward pass: a third more time, far less memory."
    algorithm: Annotated[Algorithm, Registered(algorithms.GROUP, algorithms.DEFAULT.kind)] = field(
        default_factory=algorithms.DEFAULT
    )
    "Which one, by name; packages can add more (docs/policies.md)."


@dataclass(frozen=True)
class LoraSettings:
    """Train small matrices beside the frozen weights instead of the weights."""

    rank: Annotated[int, AtLeast(1)] = 16
    "Width of the small matrices."
    alpha: Annotated[int, AtLeast(0)] = 32
    "Their output is scaled by alpha / rank."
