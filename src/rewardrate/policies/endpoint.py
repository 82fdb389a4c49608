"""A frozen policy behind an OpenAI-compatible endpoint: no weights here, but the same loop, buffer and prices."""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import random
import re
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from rewardrate.config import AtLeast, Between, build
from rewardrate.errors import InfrastructureError, InputError
from rewardrate.policies.proposal import Message, Proposal
from rewardrate.policies.replies import KeptReplies

AGAIN = {408, 409, 425, 429, 500, 502, 503, 504, 529}
ABOUT_THE_PROMPT = {400, 413, 422, 451}  # too long, not liked: the next prompt may fare better
REMEDIES = {
    401: "is the key right? (key_variable)",
    402: "is the account in credit?",
    403: "may this key use this model? (key_variable, model)",
    404: "are url and model right?",
}
REPLY_BYTES = 16 << 20  # an answer beyond this is not a chat completion
STATE = "policy.json"


class EndpointError(InfrastructureError):
    """The endpoint gave no usable answer, also after all retries. Says what it last did; never holds the key."""


class _Retry(Exception):
    """One try failed in a way that may pass."""

    def __init__(self, why: str, wait: float | None = None) -> None:
        super().__init__(why)
        self.wait = wait


class _GivenUp(Exception):
    """Another row has failed for good: this one is not asked, or not asked again."""


class _Refused(Exception):
    """The endpoint does not answer this prompt, however often it is asked."""


@dataclass(frozen=True)
class EndpointSettings:
    """Where the model is, and how it is asked."""

    url: str
    "Up to and with /v1; /chat/completions is added."
    model: str
    "The name the endpoint knows it by."
    key_variable: str | None = None
    "Name of the environment variable that holds the key; nothing: no key is sent."
    temperature: Annotated[float, AtLeast(0)] | None = 0.7
    "Nothing: the endpoint's own."
    top_p: Annotated[float, Between(0, 1)] | None = None
    "Nothing: the endpoint's own."
    new_tokens: Annotated[int, AtLeast(1)] = 2500
    "The longest reply."
    token_field: str = "max_tokens"
    "What the endpoint calls it; newer OpenAI models want max_completion_tokens."
    parallel: Annotated[int, AtLeast(1)] = 8
    "Requests under way at once."
    timeout_seconds: Annotated[float, AtLeast(0.01)] = 300.0
    "A try that has not ended by then has failed."
    retries: Annotated[int, AtLeast(0)] = 5
    "Further tries after a 429, a 5xx, a broken connection or an answer that is no chat completion."
    first_wait_seconds: Annotated[float, AtLeast(0)] = 1.0
    "Before the first retry; doubles each time, up to a minute, with a random part. Retry-After is heeded."


class EndpointPolicy:
    """Asks a chat model over HTTP. Never learns; the buffer of priced solutions in its prompts is its only memory.

    `more` are further fields of EndpointSettings. The seed goes with each request (seed + row), but whether it makes
    replies repeatable is the endpoint's affair.
    """

    trainable = False

    def __init__(self, url: str, model: str, key_variable: str | None = None, **more: Any) -> None:
        table = {"url": url, "model": model, "key_variable": key_variable, **more}
        self.settings = settings = build(EndpointSettings, table)
        try:
            parts = urlsplit(url)
            self._port = parts.port
        except ValueError:
            raise InputError("url", _without_secrets(url), "it is not a usable address") from None
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InputError("url", _without_secrets(settings.url), "it must begin with http:// or https:// and a host")
        if parts.username or parts.password or parts.query:
            raise InputError("url", _without_secrets(settings.url), "it must hold no password or query", "use a key")
        self._host = parts.hostname
        self._path = parts.path.rstrip("/") + "/chat/completions"
        plain = parts.scheme == "http"
        self._connection = http.client.HTTPConnection if plain else http.client.HTTPSConnection
        self._key = self._read_key()
        if self._key and plain and self._host not in ("localhost", "127.0.0.1", "::1"):
            raise InputError("url", settings.url, "a key must not travel over plain http", "use https")
        self.name = settings.model
        self._kept: KeptReplies | None = None

    def _read_key(self) -> str | None:
        variable = self.settings.key_variable
        if variable is None:
            return None
        key = os.environ.get(variable, "").strip()
        if not re.fullmatch(r"[\x21-\x7e]+", key):
            raise InputError("key_variable", variable, "no usable key stands in that environment variable")
        return key

    def keep_replies(self, path: Path) -> None:
        """Write every reply to a file as it comes, and ask for none again that stands there.

        The file is for the step under way: should it fail in the middle, the next process finds what was paid for.
        """
        self._kept = KeptReplies(path)

    def propose(self, prompts: Sequence[list[Message]], seed: int) -> list[Proposal]:
        """One reply a prompt, in order, at most `parallel` under way.

        A prompt that the endpoint refuses (status 400, 413, 422, 451) gets an empty reply with the refusal. Raises
        EndpointError when a reply cannot be had, or when every one of several prompts is refused; requests that are
        under way then are waited for, not tried again.
        """
        if not prompts:
            return []
        if self._kept is not None:
            self._kept.begin(seed)
        stop = threading.Event()
        with ThreadPoolExecutor(max_workers=min(self.settings.parallel, len(prompts))) as pool:
            waiting = [pool.submit(self._reply, prompt, seed + row, stop) for row, prompt in enumerate(prompts)]
            try:
                wait(waiting)
            except BaseException:  # interrupted from outside
                stop.set()
                raise
        failures = [error for error in (answer.exception() for answer in waiting) if error is not None]
        for error in failures:
            if not isinstance(error, _GivenUp):
                raise error
        proposals = [answer.result() for answer in waiting]
        if len(proposals) > 1 and all(proposal.refusal for proposal in proposals):
            if self._kept is not None:
                self._kept.clear()  # with other settings, the same prompts may be answered
            why = f"{self._host}: all {len(proposals)} prompts were refused: {proposals[0].refusal}"
            raise EndpointError(f"{why}; check the settings of the policy, or shorten prompts (prompt_tokens)")
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
        content = self._content(messages, seed)
        request = hashlib.sha256(content).hexdigest()
        proposal = self._kept.find(request) if self._kept is not None else None
        if proposal is not None:
            return proposal
        if stop.is_set():
            raise _GivenUp
        try:
            proposal = self._new_reply(content, stop)
            if self._kept is not None:
                self._kept.add(request, proposal)
        except BaseException:
            stop.set()
            raise
        return proposal

    def _content(self, messages: list[Message], seed: int) -> bytes:
        body: dict[str, Any] = {
            "model": self.settings.model,
            "messages": messages,
            "seed": seed,
            self.settings.token_field: self.settings.new_tokens,
        }
        for field in ("temperature", "top_p"):
            if getattr(self.settings, field) is not None:
                body[field] = getattr(self.settings, field)
        return json.dumps(body).encode()

    def _new_reply(self, content: bytes, stop: threading.Event) -> Proposal:
        """Ask, and ask again after trouble that may pass, unless another row has failed for good meanwhile."""
        pause = self.settings.first_wait_seconds
        for tries in range(1, self.settings.retries + 2):
            start = time.monotonic()
            try:
                text, finished = self._ask(content)
                return Proposal(text, finished=finished, seconds=time.monotonic() - start)
            except _Refused as refusal:
                return Proposal("", seconds=time.monotonic() - start, refusal=str(refusal))
            except _Retry as trouble:
                seconds = min(60.0, trouble.wait if trouble.wait is not None else pause * (0.5 + random.random()))
                if tries > self.settings.retries:
                    raise EndpointError(f"{self._host}: {trouble} ({tries} tries)") from None
                if stop.wait(seconds):
                    raise _GivenUp from None
                pause *= 2
        raise AssertionError("the last try returns or raises")

    def _ask(self, content: bytes) -> tuple[str, bool]:
        """One request: the reply's text and whether the model ended it itself."""
        deadline = time.monotonic() + self.settings.timeout_seconds
        connection = self._connection(self._host, self._port, timeout=self.settings.timeout_seconds)
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        try:
            connection.request("POST", self._path, content, headers)
            response = connection.getresponse()
            answer = b""
            while (piece := response.read1(1 << 16)) and len(answer) <= REPLY_BYTES:
                answer += piece
                if time.monotonic() > deadline:  # a server that drips is as bad as one that is silent
                    raise TimeoutError
            status, after = response.status, response.headers.get("Retry-After", "")
        except TimeoutError:
            raise _Retry(f"no answer within {self.settings.timeout_seconds:g} s") from None
        except (OSError, http.client.HTTPException) as error:
            raise _Retry(f"the connection broke ({type(error).__name__})") from None
        finally:
            connection.close()
        if status in AGAIN:
            raise _Retry(f"status {status}", float(after) if re.fullmatch(r"\d{1,4}(\.\d+)?", after) else None)
        if status in ABOUT_THE_PROMPT:
            raise _Refused(f"status {status}: {self._safe(answer)}")
        if status != 200:
            remedy = f"; {REMEDIES[status]}" if status in REMEDIES else ""
            raise EndpointError(f"{self._host}: status {status}: {self._safe(answer)}{remedy}")
        return _completion(answer)

    def _safe(self, answer: bytes) -> str:
        """The beginning of an error text, without the key should the endpoint repeat it."""
        text = " ".join(answer[:2000].decode("utf-8", "replace").split())
        return (text.replace(self._key, "[key]") if self._key else text)[:300]

    def __repr__(self) -> str:
        return f"EndpointPolicy({self.settings.model!r} at {self._host})"


def _completion(answer: bytes) -> tuple[str, bool]:
    """Text and whether it is whole, from the JSON of a chat completion."""
    if len(answer) > REPLY_BYTES:
        raise _Retry(f"an answer of more than {REPLY_BYTES >> 20} MB")
    try:
        choice = json.loads(answer)["choices"][0]
        text, reason = choice["message"]["content"], choice.get("finish_reason")
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError):
        raise _Retry("an answer that is no chat completion") from None
    if text is None:
        text = ""  # a refusal or an empty turn: an attempt that fails, not a fault of the line
    if not isinstance(text, str):
        raise _Retry("an answer that is no chat completion")
    return text, reason != "length"


def _without_secrets(url: str) -> str:
    return re.sub(r"//[^/@]*@", "//[...]@", url).partition("?")[0]
