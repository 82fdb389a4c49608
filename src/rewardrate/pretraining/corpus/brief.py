"""What a compact prompt tells about a task: all that a script of the corpus may know."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

Answer = Literal["number", "label", "chance", "chances"]
"What is predicted: a number, a label, the probability of class 1, the probability of each class."

MORE = "..."


@dataclass(frozen=True)
class Brief:
    """One task, real or imagined, in the words of the compact prompt (`environments.mle.prompts`)."""

    task: str
    goal: str
    kind: str
    "tabular, text, image or series."
    metric: str
    rows: int
    numbers: tuple[str, ...]
    'Number columns as the prompt lists them: of many the first and the last, with "..." between.'
    words: tuple[str, ...]
    target: str
    submission: tuple[str, ...]
    answer: Answer
    texts: tuple[str, ...] = ()
    "Those of `words` that hold running text."
    dates: tuple[str, ...] = ()
    "Those of `words` that hold dates, or dates and times."
    gaps: tuple[str, ...] = ()
    "Columns with missing values."
    width: int = 0
    "How many number columns there really are; as many as are listed unless given."
    classes: int = 1
    "How many classes there are to tell apart, where boosting grows trees for each of them."

    @property
    def id(self) -> str:
        """The column that names a row."""
        return self.submission[0]

    @property
    def many(self) -> bool:
        """Whether there are more number columns than the prompt lists."""
        return MORE in self.numbers

    @cached_property
    def listed(self) -> tuple[str, ...]:
        """The number columns that can be named."""
        return tuple(name for name in self.numbers if name != MORE)

    @cached_property
    def categories(self) -> tuple[str, ...]:
        """The word columns that hold labels."""
        return tuple(name for name in self.words if name not in self.texts and name not in self.dates)

    @property
    def columns(self) -> int:
        """How many number columns a script meets when it takes all."""
        return self.width or len(self.listed)

    @property
    def has_time(self) -> bool:
        """Whether the date column tells the time of day too, as far as its name says."""
        return bool(self.dates) and "time" in self.dates[0].lower()

    def prompt(self, parent: str | None = None, message: str = "") -> str:
        """The compact prompt; with a parent, the self-improvement prompt."""
        lines = [
            f"# task: {self.task}",
            f"# goal: {self.goal}",
            f"# kind: {self.kind}",
            f"# metric: {self.metric}",
            f"# rows: {self.rows}",
            f"# numbers: {','.join(self.numbers) or 'none'}",
            f"# words: {','.join(self.words) or 'none'}",
            f"# target: {self.target}",
            f"# submission: {','.join(self.submission)}",
        ]
        if parent is not None:
            lines += [f"# previous: {message}", parent.rstrip(), "# better:"]
        return "\n".join(lines) + "\n"
