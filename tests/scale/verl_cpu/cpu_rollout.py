"""For tests alone: a rollout engine for verl, in the process that also trains.

An engine on GPUs has a server of its own; here one more process would cost more than everything it does.
"""

import os

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from verl.workers.rollout.base import BaseRollout
from verl.workers.rollout.replica import RolloutReplica, TokenOutput

FAILS_AT = int(os.environ.get("CPU_ROLLOUT_FAILS_AT", "0"))  # which request has bad luck; 0: none
FIRST_REPLY = os.environ.get("CPU_ROLLOUT_FIRST_REPLY", "")  # said to the first request; empty: drawn like the others


class Weights(BaseRollout):
    """Holds a copy of the actor's weights, which is renewed after every step, and draws replies from it."""

    sleep_level = 2
    here = None

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.model = AutoModelForCausalLM.from_pretrained(self.model_config.path, dtype=torch.float32).eval()
        stops = self.model.generation_config.eos_token_id
        self.stops = set(stops if isinstance(stops, list) else [stops])
        self.first = AutoTokenizer.from_pretrained(self.model_config.path)(FIRST_REPLY).input_ids if FIRST_REPLY else []
        self.step = self.requests = 0
        Weights.here = self

    async def resume(self, tags):
        pass

    async def release(self):
        pass

    async def update_weights(self, weights, wire_format="named_tensors", global_steps=None, **_):
        state = {}
        for name, weight in weights:
            whole = weight.full_tensor() if hasattr(weight, "full_tensor") else weight
            state[name] = whole.detach().float().cpu().clone()
        report = self.model.load_state_dict(state, strict=False)
        missing = [name for name in report.missing_keys if name != "lm_head.weight"]  # tied
        self.step = global_steps
        told = f"weights of step {global_steps}: {len(state)} tensors, {missing} missing"
        print(f"{told}, {list(report.unexpected_keys)} left over", flush=True)

    @torch.inference_mode()
    def reply(self, prompt_ids, temperature):
        """One reply, drawn by the step and the number of the request alone."""
        self.requests += 1
        if self.requests == FAILS_AT:
            raise RuntimeError("bad luck")
        if self.requests == 1 and self.first:
            return self.output([*self.first, min(self.stops)])
        dice = torch.Generator().manual_seed(1000 * (self.step or 0) + self.requests)
        ids, past, tokens = torch.tensor([list(prompt_ids)]), None, []
        while len(tokens) < self.config.response_length and (not tokens or tokens[-1] not in self.stops):
            found = self.model(ids, past_key_values=past, use_cache=True, logits_to_keep=1)
            ids = torch.multinomial((found.logits[:, -1] / temperature).softmax(-1), 1, generator=dice)
            past = found.past_key_values
            tokens.append(int(ids))
        return self.output(tokens)

    def output(self, tokens):
        """A reply as verl wants it."""
        return TokenOutput(token_ids=tokens, stop_reason="completed", extra_fields={"global_steps": self.step})


def _reply(worker, prompt_ids, temperature):
    """In the worker's process."""
    return Weights.here.reply(prompt_ids, temperature)


class Door:
    """What verl's client asks for a reply: `generate.remote`, answered by the worker."""

    def __init__(self, worker):
        self.worker = worker

    @property
    def generate(self):
        return self

    def remote(self, request_id, prompt_ids, sampling_params, **_):
        if "presence_penalty" not in sampling_params:
            raise RuntimeError("data.rewardrate.sampling did not reach the engine")
        return self.worker.__ray_call__.remote(_reply, prompt_ids, float(sampling_params.get("temperature", 1.0)))


class Replica(RolloutReplica):
    """The one server, as verl's manager wants to see it."""

    async def launch_servers(self):
        self._server_handle, self._server_address = Door(self.workers[0]), "cpu"
