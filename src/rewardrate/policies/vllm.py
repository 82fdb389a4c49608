"""Sampling by vLLM, on the GPU that also learns: the same interface as the built-in sampler.

Weights reach it through a folder: they are written as bf16 safetensors before every batch and reloaded in place. vLLM
sleeps except while it samples, so the learner has the memory. docs/vllm.md lists every name of vLLM that is used, and
the versions that they were checked against.
"""

from __future__ import annotations

import math
import os
import shutil
import tempfile
import weakref
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rewardrate.config import build
from rewardrate.errors import InfrastructureError, InputError, MissingExtra
from rewardrate.policies.models import quiet
from rewardrate.policies.network import causal
from rewardrate.policies.sampling import Sample, reply_limit
from rewardrate.policies.settings import SamplingSettings

MEMORY = Path("/dev/shm")  # files there never touch a disk
COLDEST = 0.01  # vLLM raises a lower temperature to this, and says so in its log alone


class VllmSampler:
    """Draws replies with vLLM. A reply depends on weights, prompt, seed and the row's number, as far as vLLM keeps it.

    The log-probabilities it can report are those of the distribution that was drawn from. They are what PPO uses only
    when nothing is cut and nothing is penalised; otherwise `logprobs` stays empty.
    """

    engine, why = "vllm", "the recipe asks for it"

    def __init__(self, model: Any, settings: SamplingSettings, stops: Sequence[int]) -> None:
        self.model = model
        self.settings = build(SamplingSettings, asdict(settings), "sampling.")
        self.stops = sorted(set(stops))
        if hasattr(model, "get_base_model"):
            rule = "vLLM would have to be given merged weights"
            raise InputError("sampling.engine", "vllm", f"it does not sample from LoRA here: {rule}", 'use "auto"')
        if self.settings.temperature < COLDEST:
            rule = f"vLLM draws at no temperature below {COLDEST:g}"
            raise InputError("sampling.temperature", self.settings.temperature, rule, "for the likeliest, top_k = 1")
        library = _library()
        size = 2 * sum(parameter.numel() for parameter in model.parameters())
        fits = MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > 2 * size
        self._folder = tempfile.mkdtemp(prefix="rewardrate-", dir=MEMORY if fits else None)
        weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        self._parameters = library.SamplingParams
        self._write()
        self._give_back()
        try:
            self._one(1, 0, 0)  # vLLM has bounds of its own, on penalties for one
            self._engine: Any = library.LLM(
                model=self._folder,
                skip_tokenizer_init=True,
                dtype="bfloat16",
                max_model_len=_context(model),
                gpu_memory_utilization=self.settings.memory_share,
                logprobs_mode="processed_logprobs",
                generation_config="vllm",
                enable_sleep_mode=True,
            )
        except Exception as error:  # its own errors for what it refuses have no common kind outside of it
            told = " ".join(str(error).split())
            memory = 'change sampling.memory_share, or use "auto"' if "memory" in told.lower() else 'use "auto"'
            raise InputError("sampling.engine", "vllm", f"vLLM did not start ({told[:300]})", memory) from error
        self._end = weakref.finalize(self, self._engine.llm_engine.engine_core.shutdown)
        self._engine.sleep(level=2)  # until the first batch: a checkpoint may be loaded, and the learner wants memory

    def close(self) -> None:
        """End the engine's process; a sampler that is dropped does so too. A process can hold one engine at a time."""
        self._end()

    @property
    def open(self) -> bool:
        """Whether replies are drawn from softmax(logits / temperature) as it is."""
        return self.settings.unmodified

    def sample(self, prompts: Sequence[Sequence[int]], seed: int, first: int = 0) -> list[Sample]:
        """One reply to each prompt (token ids), whose rows count from `first`.

        Raises InputError for an empty prompt or when logits are not finite.
        """
        for i, prompt in enumerate(prompts):
            if not prompt:
                raise InputError(f"prompts[{i}]", prompt, "it must have at least one token")
        if seed < 0:
            raise InputError("seed", seed, "it must not be negative")
        if not prompts:
            return []
        asked = [{"prompt_token_ids": list(prompt)} for prompt in prompts]
        parameters = [self._one(len(prompt), seed, row) for row, prompt in enumerate(prompts, first)]
        try:
            self._wake()
            replies = self._engine.generate(asked, parameters, use_tqdm=False)
            self._engine.sleep(level=2)  # weights and cache are both given up
        except Exception as error:
            told = " ".join(str(error).split())[:300]
            raise InfrastructureError(
                f"vLLM failed ({type(error).__name__}: {told}); the same command resumes"
            ) from error
        samples = [self._sample(reply.outputs[0]) for reply in replies]
        if any(math.isnan(logprob) for sample in samples for logprob in sample.drawn_logprobs):
            raise InputError("model", self.settings, "its logits are not finite", "go back to an earlier checkpoint")
        return samples

    def _one(self, length: int, seed: int, row: int) -> Any:
        settings = self.settings
        return self._parameters(
            temperature=settings.temperature,
            top_p=settings.top_p,
            top_k=settings.top_k,
            presence_penalty=settings.presence_penalty,
            max_tokens=reply_limit(self.model, length, settings.new_tokens),
            stop_token_ids=self.stops,
            seed=int(np.random.SeedSequence([seed, row]).generate_state(1)[0] >> 1),
            logprobs=0,  # of the token that was drawn, and of no other
            detokenize=False,
        )

    def _sample(self, output: Any) -> Sample:
        tokens = tuple(int(token) for token in output.token_ids)
        drawn = tuple(float(table[token].logprob) for table, token in zip(output.logprobs, tokens, strict=True))
        ended = bool(tokens) and tokens[-1] in self.stops
        return Sample(tokens, drawn if self.open else (), drawn, ended)

    def _wake(self) -> None:
        """Bring the engine back with the weights as they are now."""
        self._write()
        self._give_back()
        self._engine.wake_up(tags=["weights"])
        self._engine.collective_rpc("reload_weights")
        self._engine.wake_up(tags=["kv_cache"])
        self._engine.reset_prefix_cache()  # what it remembers was computed with other weights

    def _give_back(self) -> None:
        """Return what torch keeps of the GPU for later: the engine has a process, and so an allocator, of its own."""
        if next(self.model.parameters()).is_cuda:
            torch.cuda.empty_cache()

    @torch.no_grad()
    def _write(self) -> None:
        """The model as it is now, in bf16, in the folder that the engine reads."""
        model = causal(self.model)
        ours = model.config._attn_implementation
        state = model.state_dict()
        places = {tensor.data_ptr(): tensor.to(torch.bfloat16).cpu() for tensor in state.values()}
        half = {name: places[tensor.data_ptr()] for name, tensor in state.items()}  # what is tied stays tied
        try:
            model.set_attn_implementation("sdpa")  # the name of ours is known nowhere else
            with quiet():
                model.save_pretrained(self._folder, state_dict=half)
        finally:
            model.set_attn_implementation(ours)


DEFAULTS = {"VLLM_USE_FLASHINFER_SAMPLER": "0", "VLLM_LOGGING_LEVEL": "WARNING"}
"Of vLLM's environment, where the user has not said otherwise."


def _library() -> Any:
    """vLLM, without the sampler of FlashInfer: it takes neither seeds nor log-probabilities of what was drawn, so it
    would never run here, but vLLM compiles its kernels at every first start, for minutes. And without the eight lines
    that it would say at every step.
    """
    for name, value in DEFAULTS.items():
        os.environ.setdefault(name, value)
    try:
        import vllm
    except ImportError:
        raise MissingExtra('sampling.engine = "vllm"', "vllm", "vllm") from None
    return vllm


def _context(model: Any) -> int | None:
    return getattr(causal(model).config.get_text_config(), "max_position_embeddings", None)
