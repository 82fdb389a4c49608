"""A stand-in for vLLM where it cannot be installed: the documented calls that we use, slowly, and strict about them.

It knows nothing of our sampler: it reads a folder, draws by the definition, forgets its weights when it sleeps, and
refuses what vLLM refuses. That the real one behaves like this is what the same tests say where it is installed.
"""

from dataclasses import dataclass, field

import torch
from transformers import AutoModelForCausalLM


class VLLMValidationError(Exception):
    """What vLLM 0.32 raises for values it refuses: no ValueError."""


@dataclass(kw_only=True)
class SamplingParams:
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    presence_penalty: float = 0.0
    max_tokens: int = 16
    stop_token_ids: list = field(default_factory=list)
    seed: int | None = None
    logprobs: int | None = None
    detokenize: bool = True

    def __post_init__(self):
        for name, least, most in (("presence_penalty", -2.0, 2.0), ("temperature", 0.0, 2.0)):
            if not least <= getattr(self, name) <= most:
                raise VLLMValidationError(f"{name} must be in [{least:g}, {most:g}], got {getattr(self, name)}.")


@dataclass
class Logprob:
    logprob: float


@dataclass
class CompletionOutput:
    token_ids: list
    logprobs: list


@dataclass
class RequestOutput:
    outputs: list


class LLM:
    def __init__(
        self,
        model,
        *,
        skip_tokenizer_init=False,
        dtype="auto",
        max_model_len=None,
        gpu_memory_utilization=0.9,
        logprobs_mode="raw_logprobs",
        generation_config="auto",
        enable_sleep_mode=False,
    ):
        assert skip_tokenizer_init, "there is no tokenizer in the folder"
        assert dtype == "bfloat16"
        assert generation_config == "vllm"
        assert logprobs_mode == "processed_logprobs"
        assert enable_sleep_mode
        assert 0 < gpu_memory_utilization < 1
        self.folder, self.longest = model, max_model_len
        self.asleep, self.calls = set(), []
        self.llm_engine = self.engine_core = self  # one object does the work of three here
        self.network = AutoModelForCausalLM.from_pretrained(model, dtype=torch.bfloat16).float().eval()

    def sleep(self, level=1):
        self.calls.append(f"sleep {level}")
        self.asleep = {"weights", "kv_cache"}
        if level == 2:
            for parameter in self.network.parameters():
                parameter.data.fill_(torch.nan)

    def shutdown(self, timeout=None):
        self.calls.append("shutdown")
        self.asleep = {"weights", "kv_cache"}

    def wake_up(self, tags=None):
        self.calls.append(f"wake {' '.join(tags)}")
        self.asleep -= set(tags)

    def collective_rpc(self, method, timeout=None, args=(), kwargs=None):
        self.calls.append(method)
        assert method == "reload_weights"
        assert "weights" not in self.asleep
        self.network = AutoModelForCausalLM.from_pretrained(self.folder, dtype=torch.bfloat16).float().eval()

    def reset_prefix_cache(self):
        self.calls.append("reset")
        return True

    @torch.no_grad()
    def generate(self, prompts, sampling_params, *, use_tqdm=True):
        if self.asleep:
            raise RuntimeError("the engine sleeps")
        self.calls.append("generate")
        pairs = zip(prompts, sampling_params, strict=True)
        return [RequestOutput([self._reply(prompt["prompt_token_ids"], one)]) for prompt, one in pairs]

    def _reply(self, prompt, one):
        dice = torch.Generator().manual_seed(one.seed)
        tokens, tables = [], []
        assert self.longest is None or len(prompt) + one.max_tokens <= self.longest
        while len(tokens) < one.max_tokens:
            logits = self.network(torch.tensor([[*prompt, *tokens]])).logits[0, -1]
            logits[list(set(tokens))] -= one.presence_penalty
            logits = logits / one.temperature
            if one.top_k > 0:
                logits[logits < logits.topk(one.top_k).values[-1]] = -torch.inf
            if one.top_p < 1:
                share, order = logits.softmax(-1).sort(descending=True)
                logits[order[share.cumsum(-1) - share >= one.top_p]] = -torch.inf
            table = logits.log_softmax(-1)
            token = int(torch.multinomial(table.exp(), 1, generator=dice))
            tokens.append(token)
            tables.append({token: Logprob(float(table[token]))})
            if token in one.stop_token_ids:
                break
        return CompletionOutput(tokens, tables if one.logprobs is not None else None)
