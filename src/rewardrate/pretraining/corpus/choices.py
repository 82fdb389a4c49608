"""The choices behind a script: the grammar's alternatives, one field each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rewardrate.pretraining.corpus.models import ModelTemplate

Approach = Literal[
    "table", "text", "algebra", "centres", "groups", "constant", "csv-algebra", "csv-groups", "csv-words"
]
"""table, text: pandas and scikit-learn. algebra (least squares), centres (nearest class mean), groups (their means),
constant: pandas without scikit-learn. csv-...: neither."""
Rows = Literal["all", "nrows", "sample", "first", "last", "every"]
Encoding = Literal["raw", "dummies", "codes", "ordinal", "one-hot", "target-mean"]
Scaling = Literal["none", "standard", "min-max"]
Writing = Literal["assign", "frame", "sample"]
Validation = Literal["none", "print", "refit"]
Vectorizer = Literal["TfidfVectorizer", "CountVectorizer", "HashingVectorizer"]


@dataclass(frozen=True)
class Style:
    """What variables are called."""

    train: str
    test: str
    x: str
    z: str
    "Features of the test rows."
    y: str
    p: str
    "Predictions."
    model: str = "model"
    columns: str = "cols"


STYLES = (
    Style(train="train", test="test", x="X", z="X_test", y="y", p="pred"),
    Style(train="train", test="test", x="x", z="z", y="y", p="p"),
    Style(train="train", test="test", x="X", z="Z", y="y", p="p", model="clf", columns="features"),
    Style(train="df", test="test", x="X", z="T", y="y", p="pred", model="m", columns="features"),
)


@dataclass(frozen=True)
class Vectors:
    """How running text becomes numbers."""

    kind: Vectorizer
    settings: tuple[tuple[str, str], ...]
    components: int = 0
    "Singular vectors that are kept; 0 keeps the sparse matrix."
    pipeline: bool = False

    @property
    def text(self) -> str:
        """The constructor call."""
        return f"{self.kind}({', '.join(f'{name}={value}' for name, value in self.settings)})"


@dataclass(frozen=True)
class Choices:
    """Everything that is decided before a script is written."""

    approach: Approach
    style: Style
    numbers: tuple[str, ...] | None
    "Number columns by name; None takes all there are."
    categories: tuple[str, ...]
    dates: tuple[str, ...]
    "Parts of the date that become columns: month, dayofweek, hour, dayofyear, year."
    texts: tuple[str, ...]
    rows: Rows
    count: int
    "How many rows, or every how many-th, when not all are read."
    narrow: bool
    "Whether only the columns that are used are read."
    encoding: Encoding
    scaling: Scaling
    keep: int
    "Principal components or best columns that are kept; 0 keeps everything."
    model: ModelTemplate
    log: bool
    "Whether log(1 + target) is fitted."
    validation: Validation
    writing: Writing
    vectors: Vectors
    middle: Literal["mean", "median"]

    @property
    def width(self) -> int:
        """How many columns are named."""
        return len(self.numbers or ()) + len(self.categories) + len(self.dates)
