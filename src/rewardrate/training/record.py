"""Between the loop's objects and the run log's rows."""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Mapping

import numpy as np

from rewardrate.attempt import Outcome, Proposal
from rewardrate.runlog import OutcomeRow, ProposalRow
from rewardrate.runlog import Recorded as RecordedRow

Recorded = Mapping[int, tuple[RecordedRow, ...]]
"Step -> its recorded proposals, with the outcomes that are known."
HEAD = struct.Struct("<III?d")


def row(place: int, proposal: Proposal, parent: int | None, seed: str = "") -> ProposalRow:
    """A proposal as the log keeps it; the learner's tokens and log-probabilities go along bit for bit.

    Where there is no reply, the record's says why. A seed is no attempt and has no number: a child of one has its name
    in place of the prompt.
    """
    return ProposalRow(
        row=place,
        reply=f"[no reply: {proposal.refusal}]" if proposal.refusal else proposal.text,
        parent=parent,
        prompt=f"[seed: {seed}]" if seed else "",
        tokens=len(proposal.reply_tokens),
        generation_seconds=proposal.seconds,
        payload=_pack(proposal),
    )


def proposal(kept: ProposalRow) -> Proposal:
    """The same proposal again."""
    prompt, reply, known, finished, seconds = HEAD.unpack_from(kept.payload)
    body = memoryview(kept.payload)[HEAD.size :]
    tokens = np.frombuffer(body[: 4 * (prompt + reply)], dtype="<i4")
    logprobs = np.frombuffer(body[4 * (prompt + reply) :], dtype="<f8", count=known)
    refusal = bytes(body[4 * (prompt + reply) + 8 * known :]).decode("utf-8", "surrogatepass")
    shown = tuple(tokens[:prompt].tolist()), tuple(tokens[prompt:].tolist())
    return Proposal("" if refusal else kept.reply, *shown, tuple(logprobs.tolist()), finished, seconds, refusal)


def outcome_row(outcome: Outcome) -> OutcomeRow:
    """An outcome as the log keeps it."""
    fields = dataclasses.asdict(outcome)
    del fields["rank_key"]  # the environment can say it again
    return OutcomeRow(**fields)


def outcome(kept: OutcomeRow) -> Outcome:
    """The same outcome again."""
    return Outcome(**dataclasses.asdict(kept))


def _pack(proposal: Proposal) -> bytes:
    sizes = len(proposal.prompt_tokens), len(proposal.reply_tokens), len(proposal.logprobs)
    head = HEAD.pack(*sizes, proposal.finished, proposal.seconds)
    tokens = np.array([*proposal.prompt_tokens, *proposal.reply_tokens], dtype="<i4")
    refusal = proposal.refusal.encode("utf-8", "surrogatepass")
    return head + tokens.tobytes() + np.array(proposal.logprobs, dtype="<f8").tobytes() + refusal
