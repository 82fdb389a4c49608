"""A language model that proposes and learns: sampler and learner behind the one protocol."""

from __future__ import annotations

import copy
import json
import logging
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from rewardrate.attempt import Message, Proposal
from rewardrate.errors import InputError
from rewardrate.policies.checkpoint import FORMAT, STATE, fingerprint, load_learner, read_state, save_learner
from rewardrate.policies.learner import Experience, Learner
from rewardrate.policies.models import LanguageModel, load_model
from rewardrate.policies.network import causal, half_copy
from rewardrate.policies.policy import Policy
from rewardrate.policies.sampling import Sampler
from rewardrate.policies.settings import LearnerSettings, SamplingSettings
from rewardrate.policies.vllm import VllmSampler

log = logging.getLogger(__name__)


class LanguageModelPolicy(Policy):
    """Replies drawn by `sampling`, weights moved as `learner` says; without a learner it stays as it is.

    `prompt_tokens` bounds a prompt: a longer one loses its middle, so that the task at its beginning and the question
    at its end remain. Unless given, it leaves the reply its `new_tokens`, or half of the model's context.
    On a GPU replies are drawn from a bf16 copy of the weights, renewed after every update.
    """

    def __init__(
        self,
        model: LanguageModel | str,
        sampling: SamplingSettings | None = None,
        learner: LearnerSettings | None = None,
        *,
        prompt_tokens: int | None = None,
        seed: int = 0,
    ) -> None:
        self.language = load_model(model) if isinstance(model, str) else model
        self.sampling = sampling or SamplingSettings()
        self.base = fingerprint(self.language.model)
        self.prompt_tokens = self._prompt_limit(prompt_tokens)
        self.updates = 0
        network = self.language.model
        foreign = self.sampling.engine == "vllm"  # has a copy of its own
        weight = next(network.parameters())
        half = weight.device.type == "cuda" and weight.dtype == torch.float32 and not foreign
        self._copy = half_copy(network) if half else None
        kind = VllmSampler if foreign else Sampler
        self.sampler = kind(self._copy if half else network, self.sampling, self.language.stops)
        self.learner = Learner(network, learner, self.sampling.temperature, seed) if learner else None

    @property
    def name(self) -> str:
        """The model's name."""
        return self.language.name

    @property
    def engine(self) -> str:
        """What draws the replies, and why."""
        return f"{self.sampler.engine}: {self.sampler.why}"

    @property
    def trainable(self) -> bool:
        """Whether there is a learner."""
        return self.learner is not None

    def take_cores(self, usable: int) -> int:
        """Half of them, where it has no GPU: a script is timed on cores that nothing else uses."""
        if self.language.model.device.type != "cpu":
            return 0
        count = max(1, usable // 2)
        torch.set_num_threads(min(count, torch.get_num_threads()))
        return count

    def propose(self, prompts: Sequence[list[Message]], seed: int, first: int = 0) -> list[Proposal]:
        """One proposal a prompt; same weights, prompt, seed and row (from `first` on) give the same proposal."""
        start = time.perf_counter()
        tokens = [self._fit(self.language.encode(prompt)) for prompt in prompts]
        samples = self.sampler.sample(tokens, seed, first)
        seconds = time.perf_counter() - start
        drawn = max(1, sum(len(sample.tokens) for sample in samples))
        return [
            Proposal(
                text=self.language.decode(sample.tokens),
                prompt_tokens=tuple(prompt),
                reply_tokens=sample.tokens,
                logprobs=sample.logprobs,
                finished=sample.finished,
                seconds=seconds * len(sample.tokens) / drawn,
            )
            for prompt, sample in zip(tokens, samples, strict=True)
        ]

    def learn(self, proposals: Sequence[Proposal], rewards: Sequence[float | None]) -> dict[str, float]:
        """One update; rows whose reward is None are left out. Metrics as `Learner.update` names them.

        Where the algorithm compares attempts at one prompt, they stand side by side (`attempts_per_prompt`).
        """
        if len(proposals) != len(rewards):
            raise InputError("rewards", len(rewards), f"there must be one for each of the {len(proposals)} proposals")
        if self.learner is None:
            return {}
        attempts = self.learner.algorithm.attempts_per_prompt
        rows = [
            Experience(
                proposal.prompt_tokens, proposal.reply_tokens, float(reward), proposal.logprobs, place // attempts
            )
            for place, (proposal, reward) in enumerate(zip(proposals, rewards, strict=True))
            if reward is not None
        ]
        metrics = self.learner.update(rows)
        self.updates += bool(rows)
        self._renew()
        return metrics

    def count(self, text: str) -> int:
        """How many tokens `text` has."""
        return self.language.count(text)

    def save(self, folder: Path) -> None:
        """Write everything that is needed to resume bit for bit: weights, critic, optimisers, random state."""
        document = {**self._identity(), "updates": self.updates}
        if self.learner is not None:
            save_learner(self.learner, folder, document)
            return
        folder.mkdir(parents=True, exist_ok=True)
        (folder / STATE).write_text(json.dumps({"format": FORMAT, **document}, indent=1) + "\n", encoding="utf-8")

    def load(self, folder: Path) -> None:
        """Continue from what `save` wrote. Raises InputError, with nothing changed, if it does not fit."""
        expected = self._identity()
        if self.learner is not None:
            document = load_learner(self.learner, folder, expected)
        else:
            document = read_state(folder, expected)
        self.updates = int(document["updates"])
        self._renew()

    def export(self, folder: Path) -> None:
        """Write the model as it is now (LoRA merged in) in Hugging Face's layout, for use elsewhere."""
        model = self.language.model
        if hasattr(model, "merge_and_unload"):
            model = copy.deepcopy(model).merge_and_unload()
        ours = causal(model).config._attn_implementation
        causal(model).set_attn_implementation("sdpa")  # others do not know the name of ours
        model.save_pretrained(folder)
        causal(model).set_attn_implementation(ours)
        self.language.tokenizer.save_pretrained(folder)

    def _identity(self) -> dict[str, Any]:
        return {"base": self.base, "trainable": self.trainable}

    def _prompt_limit(self, asked: int | None) -> int | None:
        context: int | None = getattr(
            causal(self.language.model).config.get_text_config(), "max_position_embeddings", None
        )
        if asked is not None and asked < 1:
            raise InputError("prompt_tokens", asked, "it must be at least 1")
        if context is None:
            return asked
        return min(asked or context, max(context - self.sampling.new_tokens, context // 2))

    def _fit(self, tokens: list[int]) -> list[int]:
        limit = self.prompt_tokens
        if limit is None or len(tokens) <= limit:
            return tokens
        log.warning("a prompt of %d tokens loses its middle: %d are allowed", len(tokens), limit)
        head = (limit + 1) // 2
        return tokens[:head] + tokens[len(tokens) - (limit - head) :]

    @torch.no_grad()
    def _renew(self) -> None:
        """Bring the sampling copy up to date, in place: recordings on the GPU read the same arrays."""
        if self._copy is not None:
            for mine, theirs in zip(self._copy.parameters(), self.language.model.parameters(), strict=True):
                mine.copy_(theirs)
