"""The two prompts of the loop: base and self-improvement, which differ only in what the loop adds.

Plain chat messages, so that any chat template fits. `compact` says the same in few tokens, for small models.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence

from rewardrate.attempt import Message, Parent
from rewardrate.environments.fences import fenced, unfenced
from rewardrate.environments.mle import schema
from rewardrate.environments.mle.selection import most
from rewardrate.environments.mle.shortening import shorten
from rewardrate.environments.mle.task import Task
from rewardrate.errors import InputError

SYSTEM = "You are a machine learning engineer who writes short, correct and fast Python scripts."
BASE = """\
Below is a machine learning task. Solve it by training a model and applying it to the test set, so that a submission
file is written."""
IMPROVE = """\
Below is a machine learning task and a solution that you wrote for it. Revise the solution so that it does better on
the test set. Whatever you keep of it must stand in your answer again, which has to be complete."""
ANSWER = """\
First describe your solution in three to five sentences, then give it as one Python script in a single fenced code
block."""
EFFICIENCY = """\
Keep running time and memory low: train on a part of the rows, or on fewer features (selected or sparse), rather than on
everything there is."""
PACKAGES = ("numpy", "pandas", "scikit-learn", "scipy", "statsmodels", "lightgbm", "xgboost", "torch")
TRIES = 4  # at fitting a parent's code into what is left of a prompt
MODULES = {"scikit-learn": "sklearn"}


def build(
    task: Task,
    parent: Parent | None = None,
    *,
    compact: bool = False,
    limit_tokens: int | None = None,
    count: Callable[[str], int] = len,
    limit_seconds: float | None = None,
) -> list[Message]:
    """The chat for one proposal. With `limit_tokens`, a long parent is shortened until all of it fits.

    `count` measures text in tokens (characters by default). Refused when the prompt without the parent's code is
    too long already.
    """
    seconds = task.limit_seconds if limit_seconds is None else limit_seconds

    def chat(parent: Parent | None) -> list[Message]:
        if compact:
            return [{"role": "user", "content": _compact(task, parent)}]
        return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": _full(task, parent, seconds)}]

    def size(parent: Parent | None) -> int:
        return sum(count(message["content"]) for message in chat(parent))

    if limit_tokens is None:
        return chat(parent)
    if parent is not None:
        parent = _fitted(parent, limit_tokens, size, count)
    if (used := size(parent)) > limit_tokens:
        remedy = "use the compact form, or a larger limit"
        raise InputError("limit_tokens", limit_tokens, f"the prompt of {task.id} needs {used}", remedy)
    return chat(parent)


def _fitted(parent: Parent, limit: int, size: Callable[[Parent], int], count: Callable[[str], int]) -> Parent:
    """The parent, its code shortened until the prompt fits; a message too long for that is cut.

    A few tries, because `size` is not the sum of its parts: a longer fence, or tokens that differ where parts meet.
    """
    message = parent.message
    if size(Parent("", message)) > limit:
        message = message[: most(len(message), lambda kept: size(Parent("", message[:kept])) <= limit)]
    spare = limit - size(Parent("", message))
    for _ in range(TRIES):
        shorter = Parent(shorten(parent.code, max(0, spare), count).code, message)
        excess = size(shorter) - limit
        if excess <= 0:
            return shorter
        spare -= excess
    return Parent("", message)


def installed_packages() -> tuple[str, ...]:
    """Of the packages worth telling a model about, those that its scripts can import here."""
    return tuple(name for name in PACKAGES if importlib.util.find_spec(MODULES.get(name, name)))


def _full(task: Task, parent: Parent | None, limit_seconds: float) -> str:
    task.require_data()
    notes = [
        "The data are in the folder `data`: "
        + ", ".join(f"`data/{path.name}`" for path in sorted(task.public.iterdir()))
        + ".",
        "The script must write its predictions for the test set to `submission.csv` in the current folder.",
        " ".join(EFFICIENCY.split()),
        f"The task: {task.goal}",
        f"Submissions are scored by {task.metric}.",
        f"The script is stopped after {limit_seconds:g} seconds; there is no network and no GPU.",
        f"Installed packages: {', '.join(f'`{name}`' for name in installed_packages())}.",
        f"`submission.csv` must look like this:\n```\n{schema.submission_example(task)}\netc.\n```",
        f"The data in short:\n{schema.snippet(task)}",
    ]
    listed = "\n".join(f"- {note}" for note in notes)
    opening = BASE if parent is None else IMPROVE
    return f"{_flat(opening)}\n\n{_flat(ANSWER)} Note:\n\n{listed}\n" + ("" if parent is None else _previous(parent))


def _previous(parent: Parent) -> str:
    return (
        f"\nThe previous solution is\n{fenced(parent.code)}\n"
        f"\nIts result or error was\n```\n{unfenced(parent.message)}\n```\n"
    )


def _compact(task: Task, parent: Parent | None) -> str:
    """Key and value lines in one order for every task: what a model of a few million parameters can read."""
    table = schema.outline(task)
    lines = [
        f"# task: {task.id}",
        f"# goal: {task.goal}",
        f"# kind: {task.modality}",
        f"# metric: {task.metric}",
        f"# rows: {table.rows}",
        f"# numbers: {_few(table.numbers)}",
        f"# words: {_few(table.words)}",
        f"# target: {_few(table.targets)}",
        f"# submission: {_few(task.form.columns)}",
    ]
    if parent is not None:
        lines += [f"# previous: {unfenced(' '.join(parent.message.split()))}", parent.code.rstrip(), "# better:"]
    return "\n".join(lines) + "\n"


def _few(names: Sequence[str], most: int = 12) -> str:
    """Names in a row; of many the first and the last."""
    shown = list(names) if len(names) <= most else [*names[: most - 4], "...", *names[-3:]]
    return ",".join(shown) or "none"


def _flat(text: str) -> str:
    return " ".join(text.split())
