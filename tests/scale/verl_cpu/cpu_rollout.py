"""For tests alone: a rollout engine for verl that is `transformers.generate` in one Ray actor."""

import os

import ray
import torch
from verl.workers.rollout.base import BaseRollout
from verl.workers.rollout.replica import RolloutReplica, TokenOutput

SERVER = "cpu-rollout-server"
FAILS_AT = int(os.environ.get("CPU_ROLLOUT_FAILS_AT", "0"))  # which request has bad luck; 0: none


@ray.remote(num_cpus=0)
class Server:
    """Holds the actor's weights and draws replies, one at a time."""

    def __init__(self, path, length):
        from transformers import AutoModelForCausalLM

        torch.set_num_threads(1)
        torch.manual_seed(0)
        self.model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
        self.length, self.step, self.requests = length, 0, 0

    def load(self, weights, step):
        """New weights; the names that did not fit."""
        report = self.model.load_state_dict(weights, strict=False)
        self.step = step
        missing = [name for name in report.missing_keys if name != "lm_head.weight"]  # tied
        return missing, list(report.unexpected_keys)

    @torch.no_grad()
    def generate(self, request_id, prompt_ids, sampling_params, **_):
        """One reply."""
        self.requests += 1
        if self.requests == FAILS_AT:
            raise RuntimeError("bad luck")
        ids = torch.tensor([list(prompt_ids)])
        options = {"do_sample": True, "temperature": float(sampling_params.get("temperature", 1.0)), "top_k": 0}
        found = self.model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=self.length, **options)
        tokens = found[0, ids.shape[1] :].tolist()
        return TokenOutput(token_ids=tokens, stop_reason="completed", extra_fields={"global_steps": self.step})

    def wake_up(self):
        pass

    def sleep(self):
        pass

    def abort_all_requests(self, reject_request=False):
        pass

    def resume_generation(self):
        pass


class Replica(RolloutReplica):
    """The one server, as verl's manager wants to see it."""

    async def launch_servers(self):
        path = self.model_config.path if hasattr(self.model_config, "path") else self.model_config["path"]
        server = Server.options(name=SERVER).remote(path, self.config.response_length)
        self.servers, self._server_handle, self._server_address = [server], server, SERVER


class Weights(BaseRollout):
    """Carries the actor's weights to the server after every step."""

    sleep_level = 2

    async def resume(self, tags):
        pass

    async def release(self):
        pass

    async def update_weights(self, weights, wire_format="named_tensors", global_steps=None, **_):
        state = {}
        for name, weight in weights:
            whole = weight.full_tensor() if hasattr(weight, "full_tensor") else weight
            state[name] = whole.detach().float().cpu().clone()
        missing, unexpected = await ray.get_actor(SERVER).load.remote(state, global_steps)
        print(
            f"weights of step {global_steps}: {len(state)} tensors, {missing} missing, {unexpected} left over",
            flush=True,
        )
