"""The change specification that a policy writes: DIAGNOSIS, CHANGE, RISK. Paper, appendix "Delta Proposals".

A heading is a line of its own with nothing but its word, whatever marks stand around it ("## CHANGE", "**Change:**").
Inside an edit block no line is a heading, so code may hold any word. The CHANGE section is what counts: without it
there is no specification (NO_SPEC), which is the policy's own fault.
"""

from __future__ import annotations

from dataclasses import dataclass

from rewardrate.environments.speedrun.edits import closes, opens
from rewardrate.errors import InputError

NO_SPEC = "NO_SPEC"
SECTIONS = ("DIAGNOSIS", "CHANGE", "RISK")
CHARACTERS = 200_000  # a reply of 2,560 tokens has a tenth of it
MARKS = "#*_`>:.- \t0123456789()"
THOUGHT = "</think>"


class NoSpecification(ValueError):
    """The reply holds no change specification; says why in a few words."""


@dataclass(frozen=True)
class Specification:
    """What should be changed, as the policy wrote it."""

    diagnosis: str
    change: str
    risk: str

    def text(self) -> str:
        """The three sections again, in their order, those that were written."""
        parts = zip(SECTIONS, (self.diagnosis, self.change, self.risk), strict=True)
        return "\n\n".join(f"{name}\n{words}" for name, words in parts if words)


def read(reply: str) -> Specification:
    """The specification in a reply. Raises NoSpecification; takes time in proportion to the reply's length.

    Thoughts before a closing </think> are dropped. Of a section that is written twice the first counts, so what comes
    after a complete reply cannot replace it.
    """
    if not isinstance(reply, str):
        raise InputError("reply", type(reply).__name__, "it must be text")
    if len(reply) > CHARACTERS:
        raise NoSpecification(f"the reply has {len(reply):,} characters, and at most {CHARACTERS:,} are read")
    text = reply.rpartition(THOUGHT)[2].replace("\r\n", "\n")
    if not text.strip():
        raise NoSpecification("the reply is empty")
    if text.strip() == NO_SPEC:
        raise NoSpecification(f"the reply says {NO_SPEC}")
    found = _sections(text.split("\n"))
    if "CHANGE" not in found:
        raise NoSpecification("the reply has no CHANGE section")
    if not found["CHANGE"]:
        raise NoSpecification("the CHANGE section is empty")
    return Specification(found.get("DIAGNOSIS", ""), found["CHANGE"], found.get("RISK", ""))


def _sections(lines: list[str]) -> dict[str, str]:
    """Name -> text of every section; lines before the first heading belong to none."""
    found: dict[str, list[str]] = {}
    current: list[str] = []
    inside = False
    for line in lines:
        if not inside and (name := _heading(line)):
            current = []  # of a repeated section, nothing is kept
            found.setdefault(name, current)
            continue
        inside = opens(line) or (inside and not closes(line))
        current.append(line)
    return {name: "\n".join(words).strip("\n").rstrip() for name, words in found.items()}


def _heading(line: str) -> str:
    """The section that a line opens; empty for any other line."""
    if len(line) > 40:
        return ""
    word = line.strip(MARKS).upper()
    return word if word in SECTIONS else ""
