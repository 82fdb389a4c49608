"""What the model is told about its attempt: score and seconds, or the error's type, line and source."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from rewardrate.environments.mle.task import Task

Detail = Literal["score and seconds", "score"]
MESSAGE_CHARACTERS = 200
SOURCE_CHARACTERS = 100
FRAME = re.compile(r'^ +File "([^"\n]{0,300})", line (\d{1,9})', re.MULTILINE)
ERROR = re.compile(r"^([A-Za-z_][\w.]{0,100}?(?:Error|Exception|Interrupt|Exit|Warning|Iteration|Group))(?:: ?(.*))?$")


@dataclass(frozen=True)
class Failure:
    """The exception that ended a script, as its traceback shows it."""

    kind: str
    message: str
    line: int | None


def success(task: Task, score: float, seconds: float, detail: Detail = "score and seconds") -> str:
    """What a valid attempt is told."""
    scored = f"score {score:.5g} ({task.metric})"
    return scored if detail == "score" else f"{scored} in {seconds:.2f} s"


def no_gain(task: Task, score: float, seconds: float, detail: Detail = "score and seconds") -> str:
    """What an attempt is told that did not beat the sample submission."""
    return f"{success(task, score, seconds, detail)}: not better than the sample submission ({task.baseline:.5g})"


def crash(code: str, stderr: str, exit_code: int | None) -> str:
    """What a script that ended with an error is told: type, line, source line, message."""
    failure = last_failure(stderr)
    if failure is None:
        last = next((line for line in reversed(stderr.splitlines()) if line.strip()), "")
        return f"exit code {exit_code}" + (f": {_cut(last, MESSAGE_CHARACTERS)}" if last else "")
    where = ""
    if failure.line is not None:
        lines = code.splitlines()
        source = lines[failure.line - 1].strip() if 0 < failure.line <= len(lines) else ""
        where = f" at line {failure.line}" + (f" (`{_cut(source, SOURCE_CHARACTERS)}`)" if source else "")
    return f"{failure.kind}{where}" + (f": {_cut(failure.message, MESSAGE_CHARACTERS)}" if failure.message else "")


def last_failure(stderr: str, script: str = "script.py") -> Failure | None:
    """The last exception in a script's error output: its type, message, and the script's own line nearest to it."""
    _, header, text = stderr.rpartition("Traceback (most recent call last):")
    numbers = [int(line) for file, line in FRAME.findall(text) if file.rsplit("/", 1)[-1] == script]
    line = numbers[-1] if numbers else None
    for raised in text.splitlines() if header else ():
        if raised.strip() and not raised[0].isspace():  # the first line that is not part of the stack
            kind, _, message = raised[:4000].partition(":")
            return Failure(kind.strip().rsplit(".", 1)[-1][:100], message.strip(), line)
    for raised in reversed(text.splitlines()):  # a script that does not compile has no traceback
        found = ERROR.match(raised[:4000])
        if found:
            return Failure(found.group(1).rsplit(".", 1)[-1], (found.group(2) or "").strip(), line)
    return None


def _cut(text: str, most: int) -> str:
    text = "".join(c if c.isprintable() else "\ufffd" for c in " ".join(text.split()))  # it may be a line of the script
    return text if len(text) <= most else text[: most - 3] + "..."
