"""What a model is told about an attempt of its own."""

from __future__ import annotations

import re

from rewardrate.environments.speedrun.race import Race

UNRUN = "it has not been run yet"
MOST = 2500
RANK = re.compile(r"^\[(?:default|rank)?\d{1,4}\]: ?", re.MULTILINE)
HEADER = "Traceback (most recent call last):"
LAUNCHER = ("torch/distributed/run.py", "torch/distributed/elastic", "torch/distributed/launcher", "<frozen runpy>")
ERROR = re.compile(r"^[A-Za-z_][\w.]{0,80}(?:Error|Exception|Interrupt|Exit|Warning)\b.*$", re.MULTILINE)


def success(race: Race, loss: float, printed: float, seconds: float, *, timed_out: bool) -> str:
    """Loss, margin, seconds: what the paper's feedback tells about a valid attempt."""
    margin = race.target_loss - loss
    side = f"{margin:.4f} below" if margin >= 0 else f"{-margin:.4f} above"
    claim = "" if abs(loss - printed) < 5e-5 else f" (printed: {printed:.4f})"
    words = f"validation loss {loss:.4f}{claim}, {side} the target {race.target_loss:g}"
    if margin >= 0:
        words += f" (credited down to {race.credited_loss:g})"
    if timed_out:
        return f"{words}; it was killed at the cap of {race.cap_seconds:g} s and is scored at its last validation"
    return f"{words}; {seconds:.1f} s of wall clock, the cap is {race.cap_seconds:g} s"


def crash(errors: str, why: str) -> str:
    """The first error that is the script's own, shortened in the middle; `why` when it said nothing."""
    text = RANK.sub("", errors).strip()
    found = next((part for part in _tracebacks(text) if not _of_launcher(part)), "")
    if not found and (line := ERROR.search(text)) and not _of_launcher(text[: line.start()]):
        found = line[0]
    return f"it crashed ({why}): {shortened(found)}" if found else f"it crashed ({why})"


def shortened(text: str, most: int = MOST) -> str:
    """The first third and the last two thirds of a long text."""
    if len(text) <= most:
        return text
    head, tail = text[: most // 3].rpartition("\n")[0], text[-(2 * most // 3) :].partition("\n")[2]
    left_out = text.count("\n") - head.count("\n") - tail.count("\n")
    return f"{head}\n... {left_out} lines left out ...\n{tail}"


def _tracebacks(text: str) -> list[str]:
    """Every traceback with its last line; one that ends in another by `During handling` or `The above` is one."""
    found: list[str] = []
    lines: list[str] | None = None
    for line in text.splitlines():
        if line.startswith(HEADER):
            chained = bool(found) and lines == []
            found.append(found.pop() + "\n" + line if chained else line)
            lines = [line]
        elif lines:
            found[-1] += "\n" + line
            if line and not line.startswith((" ", "\t")):
                lines = None
        elif found and lines is None and line.startswith(("During handling of the above", "The above exception was")):
            found[-1] += "\n\n" + line
            lines = []
    return found


def _of_launcher(trace: str) -> bool:
    return any(word in trace for word in LAUNCHER) and 'train_gpt.py", line' not in trace
