"""The method on stock verl: three classes that its config names. This is the only file that imports verl.

    data.custom_cls                        BufferPrompts     prompts from the solution buffer
    actor_rollout_ref.rollout.agent        SandboxAgent      one reply, one script, its outcome
    trainer.v1.sampler.custom_sampler      PricedSampler     fits the rate on the whole batch and charges it

Dataset and sampler live in one process (verl's task runner) and share its `PricedBatch`; agents live in processes of
their own, on every node, and each runs scripts in its node's sandbox.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import dataclasses
import json
import logging
import os
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
import transfer_queue as tq
from omegaconf import OmegaConf
from torch.utils.data import Dataset
from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopOutput, register
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer
from verl.utils import tensordict_utils

from rewardrate import config
from rewardrate.attempt import Outcome, Parent, Proposal
from rewardrate.errors import InfrastructureError, InputError
from rewardrate.policies.control_tokens import ControlTokens
from rewardrate.runlog import Origin, RunLog
from rewardrate.sandbox import cores
from rewardrate.scale.priced_batch import MISSING, PricedBatch
from rewardrate.training.pricer import Priced
from rewardrate.training.recipe import Recipe
from rewardrate.training.run_folder import ENGINE, open_run

log = logging.getLogger(__name__)

TRAIN, NAME = "train", "rewardrate"
PATIENCE = 3600.0  # seconds for one reply, unless data.rewardrate.patience_seconds says otherwise
GRACE_SECONDS = 300.0
POLL_SECONDS = 0.5  # how often to look whether a batch is there; verl's two seconds would be lost in every step
SAVED = "checkpoint"  # kind of the event that says that verl's checkpoints began to hold this run


@dataclasses.dataclass(frozen=True)
class Row:
    """An attempt as its agent tells it."""

    chain: int
    outcome: Outcome
    proposal: Proposal
    origin: Origin
    code: str | None
    "Of the parent."


class _Here:
    """What this process holds: the state that the dataset makes and the sampler uses."""

    batch: PricedBatch | None = None
    log: RunLog | None = None
    "Where data.rewardrate.run says so."
    silence_seconds = float("inf")
    "How long to wait while no attempt ends: a reply, its script as often as it may be run, and a queue for cores."


def read_recipe(data: Any) -> Recipe:
    """The recipe that `data.rewardrate` names, with verl's own size of a batch."""
    given: Any = data.get(NAME) or {}
    if not given.get("recipe"):
        raise InputError(f"data.{NAME}.recipe", None, "it must name a recipe", "for example laptop, or a TOML file")
    rows = int(data.train_batch_size) * int(given.get("attempts", 1))
    overrides = [*(given.get("set") or []), f"batch={rows}"]
    recipe = config.load(Recipe, config.find_recipe(str(given["recipe"])), overrides)
    if recipe.sandbox.executor != "pool":
        rule = "verl spreads its agents over the nodes itself, and each uses its node's sandbox"
        raise InputError("sandbox.executor", recipe.sandbox.executor, rule, 'leave it "pool"')
    return recipe


def _check(data: Any) -> None:
    """Refuse what verl would run with and what would go wrong without a word, or only after a whole step."""
    if int(data.get("dataloader_num_workers", 0)) != 0:
        rule = "workers would make prompts from copies of the buffer that are never updated"
        raise InputError("data.dataloader_num_workers", data.dataloader_num_workers, rule, "set it to 0")
    if data.get("shuffle"):
        raise InputError("data.shuffle", True, "each place of a batch is a chain, in order", "set it to false")
    if "record" in (data.get(NAME) or {}):
        rule, remedy = "attempts are kept in a run folder now", f"name a folder: data.{NAME}.run"
        raise InputError(f"data.{NAME}.record", data[NAME].record, rule, remedy)
    if data.train_files == data.get("val_files"):
        rule = "training and validation are told apart by it, though nothing is read"
        raise InputError("data.val_files", str(data.train_files), rule, "set train_files: train and val_files: val")
    given, key = int((data.get(NAME) or {}).get("attempts", 1)), "actor_rollout_ref.rollout.n"
    with contextlib.suppress(KeyError):  # a config that stands alone says nothing of rollouts
        wanted = OmegaConf.select(data, f"..{key}", default=given)
        if int(wanted) != given:
            raise InputError(f"data.{NAME}.attempts", given, f"{key} is {wanted}", f"set it to ${{{key}}}")


def _open_log(data: Any, batch: PricedBatch) -> RunLog | None:
    """The log of the run folder that `data.rewardrate.run` names, to write."""
    given = data[NAME].get("run")
    if not given:
        return None
    facts = {ENGINE: "verl"}
    with contextlib.suppress(KeyError):  # a config that stands alone names no model
        model = OmegaConf.select(data, "..actor_rollout_ref.model.path")
        facts |= {"policy": str(model)} if model else {}
    folder = Path(str(given)).expanduser().absolute()
    log = open_run(batch.recipe, batch.setup, folder, facts=facts, another=f"another data.{NAME}.run")
    atexit.register(log.close)
    return log


class BufferPrompts(Dataset[dict[str, Any]]):
    """Prompts that are made when they are asked for, from the solution buffer as it is then.

    verl makes one for training and one for validation; the latter (`data.val_files: val`) always asks for a first
    solution. Saved with verl's checkpoints: `state_dict` holds rate, chains and buffer.
    """

    def __init__(
        self, data_files: Any, tokenizer: Any, config: Any, processor: Any = None, max_samples: int = -1, **_: Any
    ) -> None:
        _check(config)
        self.training = data_files == config.train_files
        self.tokenizer, self.config = tokenizer, config
        self.prompts = int(config.train_batch_size)
        if self.training or _Here.batch is None:
            recipe = read_recipe(config)
            _Here.batch = PricedBatch(recipe, recipe.sandbox.make().__enter__(), self._count)
            if self.training:
                if _Here.log is not None:
                    _Here.log.close()
                _Here.log = _open_log(config, _Here.batch)
            patience = float(config[NAME].get("patience_seconds", PATIENCE))
            runs, limit = 1 + recipe.sandbox.repeats, _Here.batch.environment.limit_seconds
            _Here.silence_seconds = patience + 2 * runs * limit + GRACE_SECONDS
        self.batch = _Here.batch
        steps = int(config[NAME].get("steps") or self.batch.recipe.budget.steps or 1000)
        self.length = self.prompts * (steps if self.training else 1)

    def _count(self, text: str) -> int:
        return len(self.tokenizer.encode(text, add_special_tokens=False))

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> dict[str, Any]:
        """One prompt: place i of a batch improves the i-th best solution. It must fit, for verl would cut its head."""
        place = index % self.prompts
        parent = self.batch.parents(self.prompts)[place] if self.training else None
        control = ControlTokens(self.tokenizer)  # verl encodes the chat itself, names of control tokens included
        chat = [turn | {"content": control.spelled(turn["content"])} for turn in self.batch.prompt(parent)]
        options = dict(self.config.get("apply_chat_template_kwargs") or {})
        tokens = self.tokenizer.apply_chat_template(
            chat, add_generation_prompt=True, tokenize=True, return_dict=False, **options
        )
        if len(tokens) > int(self.config.max_prompt_length):
            remedy = "raise it, or lower environment.prompt_tokens of the recipe"
            rule = f"a prompt has {len(tokens)} tokens"
            raise InputError("data.max_prompt_length", self.config.max_prompt_length, rule, remedy)
        origin = None
        if parent is not None:
            origin = {"code": parent.code, "message": parent.message, "attempt": parent.number, "seed": parent.seed}
        return {
            "raw_prompt": chat,
            "index": place,
            "agent_name": NAME,
            "data_source": self.batch.recipe.task,
            "reward_model": {"ground_truth": ""},
            "extra_info": {"place": place, "parent": json.dumps(origin)},
            "dummy_tensor": torch.tensor([0], dtype=torch.uint8),
        }

    def state_dict(self) -> dict[str, Any]:
        """What verl keeps beside the weights (data.pt)."""
        if self.training and self.batch.step and _Here.log is not None:
            _Here.log.note(SAVED, f"verl saves its own after step {self.batch.step}")
        return {NAME: json.dumps(self.batch.state_dict())}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume from a checkpoint of verl."""
        if NAME not in state:
            rule = "it was saved by another dataset"
            raise InputError("data.pt", sorted(state), rule, "start anew: trainer.resume_mode=disable")
        self.batch.load_state_dict(json.loads(state[NAME]))
        if self.training and _Here.log is not None:
            _Here.log.rewind(self.batch.step)  # verl does the steps after its checkpoint again


@lru_cache(maxsize=1)
def _agent_environment(recipe: Recipe, tokenizer: Any) -> tuple[Any, ThreadPoolExecutor]:
    """The environment of this process, and a thread for every script that can run at once on this machine."""

    def count(text: str) -> int:
        return len(tokenizer.encode(text, add_special_tokens=False))

    batch = PricedBatch(recipe, recipe.sandbox.make().__enter__(), count)
    most = max(1, len(cores.usable()) // batch.cores)
    return batch.environment, ThreadPoolExecutor(most, thread_name_prefix="sandbox")


@register(NAME)
class SandboxAgent(AgentLoopBase):  # type: ignore[misc]
    """One attempt: a reply, its script in the sandbox, the outcome. It never raises, and no wait is without an end.

    verl drops a rollout that raises, and with it the time it took. Here a script that fails is an outcome like any
    other, and what is our own fault (no reply in time, a broken sandbox) is a row that the sampler takes out again.
    Seconds are measured round the script, so neither the queue for a core nor generation is in them.
    """

    async def run(self, sampling_params: dict[str, Any], **kwargs: Any) -> Any:
        """The attempt at one prompt."""
        given = kwargs["extra_info"]
        attempts = int(self.rollout_config.n)
        chain = int(given["place"]) * attempts + int(kwargs.get("session_id", 0))
        prompt_ids: list[int] = []
        blank = [0.0] if self.rollout_config.calculate_log_probs else None  # wanted of every row, then
        begun = time.monotonic()
        try:
            prompt_ids = await self.ct_build_initial_tokens(list(kwargs["raw_prompt"]))
            mine = self.data_config.get(NAME) or {}
            patience, more = float(mine.get("patience_seconds", PATIENCE)), dict(mine.get("sampling") or {})
            call = self.server_manager.generate(
                request_id=os.urandom(8).hex(), prompt_ids=prompt_ids, sampling_params={**sampling_params, **more}
            )
            reply = await asyncio.wait_for(call, patience)  # scripts have the sandbox's own limits
            wrote = time.monotonic() - begun
            outcome = await self._execute(reply.token_ids, given)
        except Exception as error:  # verl would drop the row; so the row says so instead, and is not charged
            log.exception("an attempt could not be made")
            outcome = dataclasses.replace(MISSING, message=f"{type(error).__name__}: {error}"[:300])
            encoded = self._encoded(kwargs, [], outcome, chain, time.monotonic() - begun)
            return self._output(
                prompt=prompt_ids or [0], tokens=[0], logprobs=blank, outcome=outcome, encoded=encoded, extra={}
            )
        encoded = self._encoded(kwargs, reply.token_ids, outcome, chain, wrote)
        tokens = list(reply.token_ids[: self.rollout_config.response_length])
        logprobs = list(reply.log_probs[: len(tokens)]) if reply.log_probs else None
        if not tokens:
            tokens, logprobs = [0], blank
        return self._output(
            prompt=prompt_ids,
            tokens=tokens,
            logprobs=logprobs,
            outcome=outcome,
            encoded=encoded,
            extra=reply.extra_fields,
        )

    async def _execute(self, token_ids: Sequence[int], given: Mapping[str, Any]) -> Outcome:
        environment, threads = _agent_environment(read_recipe(self.data_config), self.tokenizer)
        parent = json.loads(given["parent"])
        parents = [None if parent is None else Parent(parent["code"], parent["message"])]
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(threads, environment.execute, [self._text(token_ids)], parents)
        return found[0]  # type: ignore[no-any-return]

    def _text(self, token_ids: Sequence[int]) -> str:
        text: str = self.tokenizer.decode(
            token_ids[: self.rollout_config.response_length],
            skip_special_tokens=True,
            clean_up_tokenization_spaces=False,
        )
        return text

    def _encoded(
        self, asked: Mapping[str, Any], token_ids: Sequence[int], outcome: Outcome, chain: int, wrote: float
    ) -> str:
        """The attempt as JSON for the sampler; `_row` reads it."""
        tokens = [int(token) for token in token_ids[: self.rollout_config.response_length]]
        found = {
            "chain": chain,
            "outcome": dataclasses.asdict(outcome),
            "prompt": [{name: str(turn[name]) for name in ("role", "content")} for turn in asked["raw_prompt"]],
            "parent": json.loads(asked["extra_info"]["parent"]),
            "reply": self._text(tokens),
            "tokens": tokens,
            "seconds": wrote,
        }
        return json.dumps(found)

    def _output(
        self,
        prompt: list[int],
        tokens: list[int],
        logprobs: list[float] | None,
        outcome: Outcome,
        encoded: str,
        extra: Mapping[str, Any],
    ) -> Any:
        mine = {
            "turn_scores": [],
            "tool_rewards": [],
            NAME: encoded,
            "reward_extra_info": {"score": outcome.reward, "seconds": outcome.seconds},
        }
        return AgentLoopOutput(
            prompt_ids=prompt,
            response_ids=tokens,
            response_mask=[1] * len(tokens),
            response_logprobs=logprobs,
            reward_score=outcome.reward,
            num_turns=2,
            metrics={"generate_sequences": json.loads(encoded)["seconds"], "tool_calls": outcome.wall_seconds},
            extra_fields={**extra, **mine},
        )


class PricedSampler(ReplayBuffer):  # type: ignore[misc]
    """verl's batch with our rewards: the rate is fitted on all of it, once a step, and charged to every row.

    It sees the batch before verl pads it, so no row is counted twice. Rows that are our own fault are taken out: verl
    pads the gap with rows that carry no gradient.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        mode = kwargs.get("trainer_mode", args[0] if args else "")
        if mode != "sync":
            rule = "modes that take what ends first choose by time, and the rate would be biased upwards"
            raise InputError("trainer.v1.trainer_mode", mode, rule, "set it to sync")
        super().__init__(*args, **{"poll_interval": POLL_SECONDS, **kwargs})
        self._ended, self._moved = -1, 0.0

    def _wait_for_next_poll(self, partition_id: str, last_debug_time: float) -> float:
        """Wait for attempts to end, but not for ever: an agent that died with its worker never says so."""
        ended = len(self.partitions[partition_id]) + len(self.failure_keys[partition_id])
        if ended != self._ended or not self._moved:
            self._ended, self._moved = ended, time.monotonic()
        silent = time.monotonic() - self._moved
        if silent > _Here.silence_seconds:
            waits = len(self.running_keys[partition_id]) + len(self.pending_keys[partition_id])
            rule = f"no attempt ended for {silent:.0f} s and {waits} prompts wait: an agent worker may be gone"
            raise InfrastructureError(f"{rule}; the same command resumes from the last checkpoint")
        return float(super()._wait_for_next_poll(partition_id, last_debug_time))

    def sample(self, global_steps: int, partition_id: str, batch_size: int) -> tuple[Any, dict[str, Any]]:
        """A batch of verl's, charged; validation batches are left as they are."""
        self._moved = 0.0
        batch, metrics = super().sample(global_steps=global_steps, partition_id=partition_id, batch_size=batch_size)
        if partition_id != TRAIN:
            return batch, metrics
        if _Here.batch is None:
            raise InputError("data.custom_cls.name", None, "the sampler needs its dataset", "set it to BufferPrompts")
        found = tq.kv_batch_get(keys=batch.keys, partition_id=partition_id, select_fields=["rm_scores", "extra_fields"])
        rows = [_row(fields) for fields in _plain(found["extra_fields"])]
        by_chain = _by_chain(_Here.batch.recipe.batch, rows)
        self._check_resumed(_Here.batch.step)
        priced = _price(_Here.batch, by_chain)
        self._record(_Here.batch, by_chain, priced)
        rewards = dict(enumerate(priced.rewards))
        kept = [at for at, row in enumerate(rows) if rewards[row.chain] is not None]
        if not kept:
            why = priced.outcomes[rows[0].chain].message
            raise InfrastructureError(f"no attempt of step {global_steps} could be made ({why})")
        charged = []
        scores = found["rm_scores"].unbind()
        for at in kept:
            row = torch.zeros_like(scores[at])
            row[-1] = float(rewards[rows[at].chain] or 0.0)
            charged.append(row)
        lost = [batch.keys[at] for at in range(len(rows)) if at not in set(kept)]
        if lost:
            tq.kv_clear(keys=lost, partition_id=partition_id)
            batch = batch.select_keys([batch.keys[at] for at in kept])
        nested = torch.nested.as_nested_tensor(charged, layout=torch.jagged)
        fields = tensordict_utils.get_tensordict({"rm_scores": nested})
        tq.kv_batch_put(keys=batch.keys, partition_id=partition_id, fields=fields)
        return batch, {**metrics, **{f"{NAME}/{name}": value for name, value in priced.metrics().items()}}

    @staticmethod
    def _check_resumed(step: int) -> None:
        """Before the first batch: a run whose checkpoints are lost would be dropped from the record."""
        if _Here.log is not None and step == 0 and any(event.kind == SAVED for event in _Here.log.events()):
            last, rule = _Here.log.last_step(), "verl began anew, and the folder holds a run that it had saved"
            remedy = f"resume from its checkpoint, or name another data.{NAME}.run"
            raise InputError("trainer.resume_mode", f"step 1 of {last}", rule, remedy)

    @staticmethod
    def _record(batch: PricedBatch, rows: Sequence[Row | None], priced: Priced) -> None:
        """The step into the run folder. Replies and scripts of a step overlap: its phases are the longest of each."""
        if _Here.log is None:
            return
        proposals = [Proposal("") if row is None else row.proposal for row in rows]
        origins = [Origin() if row is None else row.origin for row in rows]
        phases = {
            "propose": max(proposal.seconds for proposal in proposals),
            "execute": max(outcome.wall_seconds for outcome in priced.outcomes),
        }
        batch.record(_Here.log, priced, proposals, origins, phases)


def _by_chain(size: int, rows: Sequence[Row]) -> list[Row | None]:
    found: list[Row | None] = [None] * size
    for row in rows:
        if not 0 <= row.chain < size or found[row.chain] is not None:
            rule = f"each of the {size} chains has one row"
            raise InputError("chain", row.chain, rule, f"set data.{NAME}.attempts to actor_rollout_ref.rollout.n")
        found[row.chain] = row
    return found


def _price(batch: PricedBatch, rows: Sequence[Row | None]) -> Priced:
    return batch.price(
        [None if row is None else row.outcome for row in rows],
        parent_codes=[None if row is None else row.code for row in rows],
        generation_seconds=[0.0 if row is None else row.proposal.seconds for row in rows],
    )


def _row(fields: Any) -> Row:
    found = json.loads(fields[NAME])
    parent = found["parent"] or {"code": None, "attempt": None, "seed": ""}
    proposal = Proposal(found["reply"], reply_tokens=tuple(found["tokens"]), seconds=found["seconds"])
    origin = Origin(found["prompt"], parent["attempt"], parent["seed"])
    return Row(found["chain"], Outcome(**found["outcome"]), proposal, origin, parent["code"])


def _plain(column: Any) -> list[Any]:
    """A column of the store as a list of dicts; what holds it depends on the backend."""
    found = column.tolist() if hasattr(column, "tolist") else list(column)
    return [getattr(value, "data", value) for value in found]
