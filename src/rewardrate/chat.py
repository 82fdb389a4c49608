"""One chat completion over HTTP: tries, back-off, bounded reading, and a key that is sent and never shown.

Everything here that talks to a model elsewhere (a frozen policy, an implementer, a judge) asks through this client.
"""

from __future__ import annotations

import dataclasses
import http.client
import json
import os
import random
import re
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import urlsplit

from rewardrate.config import AtLeast, Between
from rewardrate.errors import InfrastructureError, InputError

AGAIN = {408, 409, 425, 429}  # and all from 500 on: the server's own trouble
ABOUT_THE_PROMPT = {400, 413, 422, 451}  # too long, not liked: the next prompt may fare better
REMEDIES = {
    401: "is the key right? (key_variable)",
    402: "is the account in credit?",
    403: "may this key use this model? (key_variable, model)",
    404: "are url and model right?",
}
REPLY_BYTES = 16 << 20  # an answer beyond this is not a chat completion


class EndpointError(InfrastructureError):
    """The endpoint gave no usable answer, also after all retries. Says what it last did; never holds the key."""


class Refused(Exception):
    """The endpoint does not answer this prompt, however often it is asked."""


class GivenUp(Exception):
    """Someone else has failed for good meanwhile: this prompt is not asked, or not asked again."""


class _Retry(Exception):
    """One try failed in a way that may pass."""

    def __init__(self, why: str, wait: float | None = None) -> None:
        super().__init__(why)
        self.wait = wait


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


@dataclass(frozen=True)
class Completion:
    """What came back."""

    text: str
    finished: bool
    "Whether the model ended its turn itself; false when the token limit cut it."
    seconds: float
    "Of the try that was answered."
    why_empty: str = ""
    "What the endpoint said of a reply without text: finish_reason, refusal, calls of tools. Empty if there is text."


class Chat:
    """A chat model at an address. Refuses addresses with secrets in them, and keys over plain http to elsewhere."""

    def __init__(self, settings: EndpointSettings) -> None:
        self.settings = settings
        try:
            parts = urlsplit(settings.url)
            self._port = parts.port
        except ValueError:
            raise InputError("url", _without_secrets(settings.url), "it is not a usable address") from None
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InputError("url", _without_secrets(settings.url), "it must begin with http:// or https:// and a host")
        if parts.username or parts.password or parts.query:
            raise InputError("url", _without_secrets(settings.url), "it must hold no password or query", "use a key")
        self.host = parts.hostname
        self._path = parts.path.rstrip("/") + "/chat/completions"
        plain = parts.scheme == "http"
        self._connection = http.client.HTTPConnection if plain else http.client.HTTPSConnection
        self._key = _read_key(settings.key_variable)
        if self._key and plain and self.host not in ("localhost", "127.0.0.1", "::1"):
            raise InputError("url", settings.url, "a key must not travel over plain http", "use https")

    def request(self, messages: Sequence[dict[str, str]], seed: int) -> bytes:
        """The body of a request: what makes it the same request or another."""
        body: dict[str, Any] = {
            "model": self.settings.model,
            "messages": list(messages),
            "seed": seed,
            self.settings.token_field: self.settings.new_tokens,
        }
        for field in ("temperature", "top_p"):
            if getattr(self.settings, field) is not None:
                body[field] = getattr(self.settings, field)
        return json.dumps(body).encode()

    def complete(self, content: bytes, stop: threading.Event | None = None) -> Completion:
        """Ask, and ask again after trouble that may pass.

        Raises Refused for a prompt that is not liked (400, 413, 422, 451), EndpointError when the endpoint cannot be
        had, GivenUp when `stop` is set while it waits for the next try.
        """
        pause, stop = self.settings.first_wait_seconds, stop or threading.Event()
        for tries in range(1, self.settings.retries + 2):
            start = time.monotonic()
            try:
                return dataclasses.replace(self._ask(content), seconds=time.monotonic() - start)
            except _Retry as trouble:
                seconds = min(60.0, trouble.wait if trouble.wait is not None else pause * (0.5 + random.random()))
                if tries > self.settings.retries:
                    raise EndpointError(f"{self.host}: {trouble} ({tries} tries)") from None
                if stop.wait(seconds):
                    raise GivenUp from None
                pause *= 2
        raise AssertionError("the last try returns or raises")

    def _ask(self, content: bytes) -> Completion:
        """One request."""
        deadline = time.monotonic() + self.settings.timeout_seconds
        connection = self._connection(self.host, self._port, timeout=self.settings.timeout_seconds)
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
        if status in AGAIN or status >= 500:
            raise _Retry(f"status {status}", float(after) if re.fullmatch(r"\d{1,4}(\.\d+)?", after) else None)
        if status in ABOUT_THE_PROMPT:
            raise Refused(f"status {status}: {self._safe(answer)}")
        if status != 200:
            remedy = f"; {REMEDIES[status]}" if status in REMEDIES else ""
            raise EndpointError(f"{self.host}: status {status}: {self._safe(answer)}{remedy}")
        found = _completion(answer)
        said = self.without_key(found.why_empty)
        return dataclasses.replace(found, text=self.without_key(found.text), why_empty=said)

    def without_key(self, text: str) -> str:
        """Text from the endpoint, without the key should it repeat it."""
        return text.replace(self._key, "[key]") if self._key else text

    def _safe(self, answer: bytes) -> str:
        """The beginning of an error text, on one line."""
        return self.without_key(" ".join(answer[:2000].decode("utf-8", "replace").split()))[:300]

    def __repr__(self) -> str:
        return f"Chat({self.settings.model!r} at {self.host})"


def _read_key(variable: str | None) -> str | None:
    if variable is None:
        return None
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", variable):  # a key put there by mistake is not shown
        raise InputError("key_variable", "[...]", "it must be the name of an environment variable, not a key")
    key = os.environ.get(variable, "").strip()
    if not re.fullmatch(r"[\x21-\x7e]+", key):
        raise InputError("key_variable", variable, "no usable key stands in that environment variable")
    return key


def _completion(answer: bytes) -> Completion:
    """What the JSON of a chat completion says. Trouble of the provider is tried again; an empty turn is the model's."""
    if len(answer) > REPLY_BYTES:
        raise _Retry(f"an answer of more than {REPLY_BYTES >> 20} MB")
    try:
        choice = json.loads(answer)["choices"][0]
        message, reason = choice["message"], choice.get("finish_reason")
        text, fault = message.get("content"), choice.get("error")
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError):
        raise _Retry("an answer that is no chat completion") from None
    text = "" if text is None else text
    if not isinstance(text, str):
        raise _Retry("an answer that is no chat completion")
    if text.strip():
        return Completion(text, reason != "length", 0.0)
    if fault or reason in (None, "error"):
        raise _Retry(f"an answer without text (finish_reason {_short(reason)}, error {_short(fault)})")
    parts = [f"finish_reason {_short(reason)}"]
    parts += [f"{name} {_short(message[name])}" for name in ("refusal", "tool_calls") if message.get(name)]
    return Completion("", reason != "length", 0.0, f"the endpoint sent no text: {', '.join(parts)}")


def _short(value: Any) -> str:
    return " ".join(json.dumps(value).split())[:200]


def _without_secrets(url: str) -> str:
    return re.sub(r"//[^/@]*@", "//[...]@", url).partition("?")[0]
