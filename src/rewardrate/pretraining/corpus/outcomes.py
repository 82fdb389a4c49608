"""What an imagined attempt is told: messages in the words of `environments.mle.messages`, with made-up numbers."""

from __future__ import annotations

import math
from random import Random

from rewardrate.pretraining.corpus.brief import Brief
from rewardrate.pretraining.corpus.choices import Choices
from rewardrate.pretraining.corpus.estimates import quality, seconds

LITTLE = 0.02  # a quality below this does not beat the sample submission


def success(random: Random, brief: Brief, choices: Choices) -> str:
    """Score and seconds of a valid script, or that it gains nothing; near what its choices are estimated to score."""
    level = quality(brief, choices) + random.gauss(0, 0.03)
    took = max(0.1, seconds(brief, choices) * math.exp(random.gauss(0, 0.25)))
    text = f"score {score(brief, level):.5g} ({brief.metric}) in {took:.2f} s"
    return text if level > LITTLE else f"{text}: not better than the sample submission ({score(brief, 0.0):.5g})"


def score(brief: Brief, level: float) -> float:
    """The task's metric for a script of that quality, on a scale that the task's name fixes."""
    random = Random(brief.task)
    if "higher is better" in brief.metric:
        low = 0.5 if "ROC" in brief.metric else random.uniform(0.05, 0.6)
        high = random.uniform(max(0.7, low + 0.1), 1.0)
        return low + (high - low) * min(1.0, max(-0.2, level))
    if "logarithmic" in brief.metric or "Brier" in brief.metric:
        high = random.uniform(0.2, 3.5)
    else:
        high = 10 ** random.uniform(-1.5, 3.5)
    return high * (1 - random.uniform(0.3, 0.95) * min(1.0, max(-0.2, level)))


def crash(lines: list[str], at: int, kind: str, words: str) -> str:
    """An error in line `at` (from 0) of a script: type, line, source line, message."""
    source = " ".join(lines[at].split())
    source = source if len(source) <= 100 else source[:97] + "..."
    words = " ".join(words.split())
    words = words if len(words) <= 200 else words[:197] + "..."
    return f"{kind} at line {at + 1} (`{source}`)" + (f": {words}" if words else "")
