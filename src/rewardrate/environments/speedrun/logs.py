"""Reading an attempt's log: the two line formats of the speedrun, and nothing else that looks like them.

    step:<step>/<steps> train_time:<ms>ms step_avg:<ms>ms                      after every training step
    step:<step>/<steps> val_loss:<loss> train_time:<ms>ms step_avg:<ms>ms      at every validation

A line counts when it consists of such records and of nothing else: one, or several that were glued together because
processes printed at once, with a launcher's prefix such as `[rank0]:` before them or not. A line that begins with a
blank, and a number inside a traceback, a source listing or a sentence, are no records.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

LINE_BYTES = 4096  # longer lines hold no record
_WHOLE = r"\d{1,12}"
_NUMBER = rf"{_WHOLE}(?:\.{_WHOLE})?"
_STEP = rf"step:({_WHOLE})/({_WHOLE})"
_TIME = rf"train_time:({_NUMBER})ms(?: step_avg:(?:{_NUMBER}|nan|inf)ms)?"
_LOSS = rf"val_loss:({_NUMBER}|-?nan|-?inf|-{_NUMBER})"
RECORD = re.compile(rf"{_STEP}(?: {_LOSS})? {_TIME}", re.ASCII)
PREFIX = re.compile(r"\[(?:default|rank)?\d{1,4}\]: ?", re.ASCII)
WORD = b"val_loss:"
SPEAKING, BREAK = re.compile(rb"val_loss:|train_time:"), re.compile(rb"[\r\n]")
MOST_LINES = 300_000  # that speak of a time or a loss: reading them takes the referee a second
SHOWN = 120  # characters of a line that is quoted in a message


@dataclass(frozen=True)
class Validation:
    """One validation line."""

    step: int
    steps: int
    "The total that the line names."
    loss: float
    train_ms: float


@dataclass(frozen=True)
class Log:
    """What an attempt printed, as far as it counts."""

    validations: tuple[Validation, ...]
    "In order; a line that several processes printed alike stands once."
    last_trained: int
    "The highest step of any training line, 0 when there is none."
    stray: int
    "Lines that mention val_loss and are no record."
    stray_line: str = ""
    "The first of them, shortened."
    problem: str = ""
    "Why the log contradicts itself; empty when it does not."

    @property
    def final(self) -> Validation | None:
        """The last validation."""
        return self.validations[-1] if self.validations else None


def read(output: bytes) -> Log:
    """The log in what an attempt printed; bytes that are no text do no harm. Never raises."""
    found: list[Validation] = []
    trained = stray = 0
    stray_line = problem = ""
    for number, line in enumerate(_lines(output)):
        if number == MOST_LINES:
            problem = problem or f"it printed more than {MOST_LINES:,} lines that speak of a time or a loss"
            break
        records = _records(line)
        if not records and WORD in line:
            stray, stray_line = stray + 1, stray_line or _quoted(line)
        for record in records:
            step, steps = int(record[1]), int(record[2])
            if step > steps:
                problem = problem or f"it printed step {step} of {steps}: no step may lie beyond the total"
            if record[3] is None:
                trained = max(trained, step)
                continue
            problem = problem or _contradiction(found, step, record[3])
            if not found or step > found[-1].step:
                found.append(Validation(step, steps, float(record[3]), float(record[4])))
    return Log(tuple(found), trained, stray, stray_line, problem)


def _lines(output: bytes) -> Iterator[bytes]:
    """The lines that speak of a time or a loss. The others are passed over: there may be tens of millions of them."""
    end = 0
    for word in SPEAKING.finditer(output):
        if word.start() >= end:
            start = max(end, *(output.rfind(mark, end, word.start()) + 1 for mark in (b"\r", b"\n")))
            following = BREAK.search(output, word.end())
            end = following.start() if following else len(output)
            yield output[start:end]


def _quoted(line: bytes) -> str:
    text = line[: 4 * SHOWN].decode("ascii", "replace").strip()
    return "".join(c if c.isprintable() else "\ufffd" for c in text)[:SHOWN]


def _records(line: bytes) -> list[re.Match[str]]:
    """The records that a line is made of; none unless it is made of them entirely."""
    if b"step:" not in line or len(line) > LINE_BYTES:
        return []
    try:
        text = line.decode("ascii").rstrip(" \t")  # in front a blank is what marks lines of source in a traceback
    except UnicodeDecodeError:
        return []
    found, at = [], 0
    while at < len(text):
        prefix = PREFIX.match(text, at)
        record = RECORD.match(text, prefix.end() if prefix else at)
        if not record:
            return []
        found.append(record)
        at = record.end()
        at += len(text[at:]) - len(text[at:].lstrip(" "))
    return found


def _contradiction(found: list[Validation], step: int, printed: str) -> str:
    """Why a validation line cannot stand after the earlier ones."""
    loss = float(printed)
    if not (math.isfinite(loss) and loss > 0):
        return f"it printed val_loss:{printed} at step {step}: a mean cross-entropy is a finite number above 0"
    if not found or step > found[-1].step:
        return ""
    if step < found[-1].step:
        return f"it printed the validation of step {step} after that of step {found[-1].step}"
    if loss != found[-1].loss:
        return f"it printed two losses for step {step}: {found[-1].loss:.4f} and {loss:.4f}"
    return ""


def cadence_problem(log: Log, cadence: int, *, finished: bool) -> str:
    """How a log breaks the rule "every `cadence` steps from step 0 on, and at the last step"; empty when it does not.

    A run that was killed at the cap is judged on what it had printed by then (`finished` false): there the last
    validation needs not be at the last step. Where a line was not understood the message quotes it: it may be the
    validation that is missing.
    """
    problem = _missing(log, cadence, finished)
    if problem and log.stray:
        problem += f"; {log.stray} lines mention val_loss and are no record, the first: {log.stray_line!r}"
    return problem


def _missing(log: Log, cadence: int, finished: bool) -> str:
    steps = [line.step for line in log.validations]
    if not steps:
        return "no validation line was printed"
    if steps[0] != 0:
        return f"the first validation was printed at step {steps[0]}, not at step 0"
    for number, step in enumerate(steps[:-1]):
        if step != number * cadence:
            return f"there is a validation at step {step}, and one was due at step {number * cadence}"
    final, due = log.validations[-1], (len(steps) - 1) * cadence
    if final.step > due or (not finished and final.step != due and final.step not in (final.steps, log.last_trained)):
        return f"there is a validation at step {final.step}, and one was due at step {due}"
    if not finished:
        late = log.last_trained > final.step + cadence
        return f"step {log.last_trained} was trained without a validation at {due + cadence}" if late else ""
    if log.last_trained > final.step:
        return f"it trained up to step {log.last_trained}, and its last validation is at step {final.step}"
    if final.step not in (final.steps, log.last_trained):
        return f"it ended at step {final.step} of {final.steps} without a validation at the last step"
    return ""
