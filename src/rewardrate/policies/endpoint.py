"""A frozen policy behind an OpenAI-compatible endpoint: no weights here, but the same loop, buffer and prices."""

from __future__ import annotations

import hashlib
import json
import re
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

from rewardrate.attempt import Message, Proposal
from rewardrate.chat import Chat, EndpointError, EndpointSettings, GivenUp, Refused
from rewardrate.config import build
from rewardrate.errors import InputError
from rewardrate.policies.policy import Policy
from rewardrate.policies.replies import KeptReplies

__all__ = ["EndpointError", "EndpointPolicy", "EndpointSettings"]

STATE = "policy.json"


class EndpointPolicy(Policy):
    """Asks a chat model over HTTP. Never learns; the buffer of priced solutions in its prompts is its only memory.

    `more` are further fields of EndpointSettings. The seed goes with each request (seed + row), but whether it makes
    replies repeatable is the endpoint's affair.
    """

    trainable = False

    def __init__(self, url: str, model: str, key_variable: str | None = None, **more: Any) -> None:
        table = {"url": url, "model": model, "key_variable": key_variable, **more}
        self.settings = settings = build(EndpointSettings, table)
        self._chat = Chat(settings)
        self._kept: KeptReplies | None = None

    @property
    def name(self) -> str:
        """The model's name."""
        return self.settings.model

    def keep_replies(self, path: Path) -> None:
        """Write every reply to a file as it comes, and ask for none again that stands there.

        The file is for the step under way: should it fail in the middle, the next process finds what was paid for.
        """
        self._kept = KeptReplies(path)

    def propose(self, prompts: Sequence[list[Message]], seed: int, first: int = 0) -> list[Proposal]:
        """One reply a prompt, in order, at most `parallel` under way.

        A prompt that the endpoint refuses (status 400, 413, 422, 451), or answers without text (a filter, a refusal,
        calls of tools, all tokens spent on thinking), gets an empty reply with the reason. Raises EndpointError when a
        reply cannot be had, or when not one of several prompts gets a text; requests that are under way then are waited
        for, not tried again.
        """
        if not prompts:
            return []
        if self._kept is not None:
            self._kept.begin(seed)
        stop = threading.Event()
        with ThreadPoolExecutor(max_workers=min(self.settings.parallel, len(prompts))) as pool:
            waiting = [pool.submit(self._reply, prompt, seed + row, stop) for row, prompt in enumerate(prompts, first)]
            try:
                wait(waiting)
            except BaseException:  # interrupted from outside
                stop.set()
                raise
        failures = [error for error in (answer.exception() for answer in waiting) if error is not None]
        for error in failures:
            if not isinstance(error, GivenUp):
                raise error
        proposals = [answer.result() for answer in waiting]
        if len(proposals) > 1 and all(proposal.refusal for proposal in proposals):
            if self._kept is not None:
                self._kept.clear()  # with other settings, the same prompts may be answered
            why = f"{self._chat.host}: all {len(proposals)} prompts were refused: {proposals[0].refusal}"
            remedy = "check the settings of the policy (model, new_tokens), or shorten prompts (prompt_tokens)"
            raise EndpointError(f"{why}; {remedy}")
        return proposals

    def learn(self, proposals: Sequence[Proposal], rewards: Sequence[float | None]) -> dict[str, float]:
        """Nothing: the weights are elsewhere."""
        return {}

    def count(self, text: str) -> int:
        """About how many tokens `text` has: words and marks, four letters a token. Endpoints tell no exact count."""
        return sum(-(-len(piece) // 4) for piece in re.findall(r"\w+|[^\w\s]", text))

    def save(self, folder: Path) -> None:
        """Write which model this is; there is nothing else to keep. The key is not written."""
        folder.mkdir(parents=True, exist_ok=True)
        document = {"url": self.settings.url, "model": self.settings.model}
        (folder / STATE).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")

    def load(self, folder: Path) -> None:
        """Check that the checkpoint was made with the same model. Raises InputError."""
        try:
            document = json.loads((folder / STATE).read_text(encoding="utf-8"))
            model = document["model"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError("checkpoint", str(folder), f"it cannot be read ({error})") from None
        if model != self.settings.model:
            raise InputError("checkpoint", str(folder), f"it was made with {model!r}, not {self.settings.model!r}")

    def _reply(self, messages: list[Message], seed: int, stop: threading.Event) -> Proposal:
        """The reply to one prompt: the one that was kept, or a new one, kept before it is returned."""
        content = self._chat.request(messages, seed)
        request = hashlib.sha256(content).hexdigest()
        proposal = self._kept.find(request) if self._kept is not None else None
        if proposal is not None:
            return proposal
        if stop.is_set():
            raise GivenUp
        try:
            proposal = self._new_reply(content, stop)
            if self._kept is not None:
                self._kept.add(request, proposal)
        except BaseException:
            stop.set()
            raise
        return proposal

    def _new_reply(self, content: bytes, stop: threading.Event) -> Proposal:
        """Ask, unless another row fails for good meanwhile; where there is no reply, it is empty and has the reason."""
        start = time.monotonic()
        try:
            answer = self._chat.complete(content, stop)
        except Refused as refusal:
            return Proposal("", seconds=time.monotonic() - start, refusal=str(refusal))
        why = f"{answer.why_empty}; charged as an empty reply" if answer.why_empty else ""
        return Proposal(answer.text, finished=answer.finished, seconds=answer.seconds, refusal=why)

    def __repr__(self) -> str:
        return f"EndpointPolicy({self.settings.model!r} at {self._chat.host})"
