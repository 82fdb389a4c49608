"""From a change specification to an edited script: by a model behind an endpoint, or directly.

specification is missing (NO_SPEC)          the policy's fault: status format
edits are refused, direct implementer       the policy's fault: status edit
edits touch the validation lines, 3 times   the policy's fault: status edit (the specification asked for it)
edits are refused otherwise, 3 times        the implementer's fault: not charged
endpoint is dead, or refuses the prompt     the infrastructure's fault: not charged
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Annotated, Literal, Protocol

from rewardrate.chat import Chat, EndpointError, EndpointSettings, GivenUp, Refused
from rewardrate.config import AtLeast
from rewardrate.environments.speedrun import edits, prompts
from rewardrate.environments.speedrun.edits import EditRefused
from rewardrate.environments.speedrun.hardware import Hardware
from rewardrate.environments.speedrun.race import Race
from rewardrate.environments.speedrun.replies import PaidReplies
from rewardrate.environments.speedrun.specification import NO_SPEC, NoSpecification, Specification, read

Fault = Literal["", "format", "edit", "sandbox-failure"]


@dataclass(frozen=True)
class Implemented:
    """A script, or why there is none."""

    code: str = ""
    fault: Fault = ""
    "Empty when there is a script. format and edit are the policy's; infrastructure is ours and is not charged."
    reason: str = ""
    "Name of the refusal (docs/speedrun-policy.md)."
    message: str = ""
    changed_lines: int = 0
    asked: int = 0
    "How often a model was asked."


class Implementer(Protocol):
    """Whatever turns replies into scripts."""

    def implement(self, replies: Sequence[str], parents: Sequence[str]) -> list[Implemented]:
        """A script for every reply, made from its parent; in the same order."""


class DirectImplementer:
    """The CHANGE section carries the edit blocks itself: no second model, and every refusal is the policy's own."""

    def implement(self, replies: Sequence[str], parents: Sequence[str]) -> list[Implemented]:
        """Apply the edits of every reply to its parent."""
        return [self._one(reply, parent) for reply, parent in zip(replies, parents, strict=True)]

    def _one(self, reply: str, parent: str) -> Implemented:
        try:
            edited = edits.apply(parent, read(reply).change)
        except NoSpecification as nothing:
            return _no_spec(str(nothing))
        except EditRefused as refusal:
            return Implemented(fault="edit", reason=refusal.reason, message=f"the edit was refused: {refusal}")
        except Exception as error:  # a reply is untrusted, and one odd reply must not end a run
            words = f"the edit was refused: it cannot be read ({type(error).__name__})"
            return Implemented(fault="edit", reason="syntax", message=words)
        return Implemented(edited.code, changed_lines=edited.changed_lines)


@dataclass(frozen=True)
class ImplementerSettings(EndpointSettings):
    """The model that implements specifications; the defaults are the paper's and the authors'."""

    kind: Literal["endpoint"] = "endpoint"
    temperature: Annotated[float, AtLeast(0)] | None = 0.0
    new_tokens: Annotated[int, AtLeast(1)] = 16_384
    timeout_seconds: Annotated[float, AtLeast(0.01)] = 240.0
    parallel: Annotated[int, AtLeast(1)] = 16
    attempts: Annotated[int, AtLeast(1)] = 3
    "Replies that it may give; after a refused one it is told why."


class EndpointImplementer:
    """Asks a chat model for edit blocks, at most `attempts` times a specification, each failure fed back."""

    def __init__(self, race: Race, settings: ImplementerSettings, hardware: Hardware) -> None:
        self.race, self.settings, self.hardware = race, settings, hardware
        self._chat = Chat(settings)
        self.replies = PaidReplies()

    def implement(self, replies: Sequence[str], parents: Sequence[str]) -> list[Implemented]:
        """Implement every reply, `parallel` at once. Nothing is raised: a row that fails says so, the others continue.

        After the endpoint has failed one row for good (after its retries), rows that wait are tried once each, so a
        dead endpoint does not cost its full back-off for every row.
        """
        if not replies:
            return []
        stop = threading.Event()
        with ThreadPoolExecutor(max_workers=min(self.settings.parallel, len(replies))) as pool:
            waiting = [pool.submit(self._one, *pair, stop) for pair in zip(replies, parents, strict=True)]
            return [row.result() for row in waiting]

    def _one(self, reply: str, parent: str, stop: threading.Event) -> Implemented:
        try:
            wanted = read(reply)
        except NoSpecification as nothing:
            return _no_spec(str(nothing))
        try:
            return self._asked(wanted, parent, stop)
        except Refused as refusal:
            words = f"the implementer does not answer: {refusal}"
            return Implemented(fault="sandbox-failure", reason="prompt-refused", message=words)
        except GivenUp:
            words = "the implementer cannot be had: it has failed another row for good"
            return Implemented(fault="sandbox-failure", reason="endpoint", message=words)
        except Exception as error:
            stop.set()
            known = isinstance(error, EndpointError)
            words = f"the implementer cannot be had: {error if known else type(error).__name__}"
            return Implemented(fault="sandbox-failure", reason="endpoint", message=words)

    def _asked(self, wanted: Specification, parent: str, stop: threading.Event) -> Implemented:
        first = prompts.implementation(self.race, parent, wanted, self.hardware)
        messages = list(first)
        refusal = EditRefused("no-block", "it was not asked")
        for attempt in range(1, self.settings.attempts + 1):
            text = self.replies.ask(self._chat, self._chat.request(messages, attempt), stop)
            if text.strip() == NO_SPEC:
                return _no_spec("the implementer found nothing in it to implement", attempt)
            try:
                edited = edits.apply(parent, text)
            except EditRefused as why:
                refusal = why
                messages = [*first, *prompts.again(text[:60_000], str(why))]
                continue
            return Implemented(edited.code, changed_lines=edited.changed_lines, asked=attempt)
        blame: Fault = "edit" if refusal.reason == "validation-touched" else "sandbox-failure"
        words = f"no acceptable edit in {self.settings.attempts} attempts; the last one: {refusal}"
        return Implemented(fault=blame, reason=refusal.reason, message=words, asked=self.settings.attempts)


def _no_spec(why: str, asked: int = 0) -> Implemented:
    return Implemented(fault="format", reason=NO_SPEC, message=f"{NO_SPEC}: {why}", asked=asked)
