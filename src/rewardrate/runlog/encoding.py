"""How proposals, prompts, states and texts are written into columns, and read back bit for bit."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rewardrate.attempt import Message, Proposal
from rewardrate.errors import InputError

HEAD = struct.Struct("<III?d")  # tokens of the prompt, of the reply, log-probabilities; finished; seconds


def shown_reply(proposal: Proposal) -> str:
    """The text in the column `reply`: the reply, or why there is none."""
    return f"[no reply: {proposal.refusal}]" if proposal.refusal else proposal.text


def pack(proposal: Proposal, field: str) -> bytes:
    """What the columns do not hold of a proposal and the learner needs: tokens, log-probabilities, ending, refusal."""
    sizes = len(proposal.prompt_tokens), len(proposal.reply_tokens), len(proposal.logprobs)
    try:
        head = HEAD.pack(*sizes, proposal.finished, proposal.seconds)
        tokens = np.array([*proposal.prompt_tokens, *proposal.reply_tokens], dtype="<i4")
        logprobs = np.array(proposal.logprobs, dtype="<f8")
    except (OverflowError, TypeError, ValueError, struct.error) as error:
        raise InputError(field, proposal, f"its tokens or log-probabilities are no such numbers ({error})") from None
    return head + tokens.tobytes() + logprobs.tobytes() + proposal.refusal.encode("utf-8", "surrogatepass")


def unpack(reply: str, tokens: int, seconds: float, payload: bytes | None) -> Proposal:
    """The same proposal again; only text and seconds where the payload is kept no longer. ValueError if damaged."""
    if not payload:
        return Proposal(reply, seconds=seconds)
    try:
        prompt, size, known, finished, seconds = HEAD.unpack_from(payload)
        rest = memoryview(payload)[HEAD.size :]
        ids = np.frombuffer(rest, dtype="<i4", count=prompt + size)
        logprobs = np.frombuffer(rest[ids.nbytes :], dtype="<f8", count=known)
        refusal = bytes(rest[ids.nbytes + logprobs.nbytes :]).decode("utf-8", "surrogatepass")
    except struct.error as error:
        raise ValueError(f"a payload of {len(payload)} bytes: {error}") from None
    if size != tokens:
        raise ValueError(f"a payload of {size} tokens, where the reply has {tokens}")
    sampled = tuple(ids[:prompt].tolist()), tuple(ids[prompt:].tolist()), tuple(logprobs.tolist())
    return Proposal("" if refusal else reply, *sampled, finished, seconds, refusal)


def chat_text(messages: Sequence[Message], field: str) -> str:
    """A chat as JSON text; empty for an empty one."""
    if not all(isinstance(message, Mapping) and _all_text(message) for message in messages):
        raise InputError(field, messages, "it must be a list of messages", 'such as {"role": "user", "content": "..."}')
    text = json.dumps(list(messages), ensure_ascii=False) if messages else ""
    return text if utf8(text) == text else json.dumps(list(messages))  # lone surrogates as \ud800


def chat(text: str) -> list[Message]:
    """The messages of a chat that was stored."""
    found: list[Message] = json.loads(text) if text else []
    return found


def states_text(states: Mapping[str, Any]) -> dict[str, str]:
    """States as strict JSON: a number that is not finite is refused."""
    return {name: json_text(f"states.{name}", state) for name, state in states.items()}


def numbers_text(field: str, numbers: Mapping[str, float]) -> str:
    """Numbers by name as strict JSON: one that is not finite is written as null."""
    try:
        finite = {name: number if math.isfinite(number) else None for name, number in numbers.items()}
    except TypeError as error:
        raise InputError(field, numbers, f"it must hold numbers by name ({error})") from None
    return json_text(field, finite)


def utf8(text: str) -> str:
    """The text with `?` for what UTF-8 cannot hold (lone surrogates)."""
    return text.encode("utf-8", "replace").decode("utf-8")


def json_text(field: str, value: Any) -> str:
    """Strict JSON."""
    try:
        return json.dumps(value, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InputError(field, value, f"it must be plain JSON with finite numbers ({error})") from None


def _all_text(message: Mapping[str, str]) -> bool:
    return all(isinstance(part, str) for pair in message.items() for part in pair)
