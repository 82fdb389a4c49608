"""The full prompt and a reply with a plan, for models that were not made for the compact form.

The words are those of `environments.mle.prompts`; what the data look like is made up where the task is.
"""

from __future__ import annotations

from random import Random

from rewardrate.attempt import Message
from rewardrate.environments.mle import prompts
from rewardrate.pretraining.corpus.brief import Brief
from rewardrate.pretraining.corpus.choices import Choices
from rewardrate.pretraining.corpus.estimates import rows_used
from rewardrate.pretraining.corpus.examples import Example

PACKAGES = ("numpy", "pandas", "scikit-learn", "scipy")


def chat(example: Example) -> list[Message]:
    """System and user turn of the full form."""
    brief = example.brief
    random = Random(brief.task)
    notes = [
        "The data are in the folder `data`: `data/sample_submission.csv`, `data/test.csv`, `data/train.csv`.",
        "The script must write its predictions for the test set to `submission.csv` in the current folder.",
        _flat(prompts.EFFICIENCY),
        f"The task: {brief.goal}",
        f"Submissions are scored by {brief.metric}.",
        f"The script is stopped after {random.choice((60, 120))} seconds; there is no network and no GPU.",
        f"Installed packages: {', '.join(f'`{name}`' for name in PACKAGES)}.",
        f"`submission.csv` must look like this:\n```\n{_sample(random, brief)}\netc.\n```",
        f"The data in short:\n{snippet(random, brief)}",
    ]
    opening = prompts.IMPROVE if example.parent else prompts.BASE
    text = f"{_flat(opening)}\n\n{_flat(prompts.ANSWER)} Note:\n\n" + "\n".join(f"- {note}" for note in notes) + "\n"
    if example.parent:
        text += f"\nThe previous solution is\n```python\n{example.parent.rstrip()}\n```\n"
        text += f"\nIts result or error was\n```\n{example.message}\n```\n"
    return [{"role": "system", "content": prompts.SYSTEM}, {"role": "user", "content": text}]


def reply(example: Example) -> str:
    """A plan of a few sentences, then the script in a fenced block."""
    return f"{plan(example.brief, example.choices)}\n\n```python\n{example.answer}```"


def plan(brief: Brief, choices: Choices) -> str:
    """What the script does, in three or four sentences."""
    family = choices.model.family.name
    ways = {
        "table": f"I fit {family} on columns of the table.",
        "text": f"I turn the text into vectors with {choices.vectors.kind} and fit {family}.",
        "algebra": "I solve a least-squares problem on number columns with numpy.",
        "centres": "I take the class whose mean is nearest.",
        "groups": f"I predict the {choices.middle} of the group that a row belongs to.",
        "constant": "I predict the same for every row, as a start.",
        "csv-algebra": "I read the rows with csv and solve a least-squares problem: nothing slow is imported.",
        "csv-groups": f"I read the rows with csv and predict the {choices.middle} of each group.",
        "csv-words": "I count words by class with the standard library: a naive Bayes model by hand.",
    }
    rows = rows_used(brief, choices)
    part = "all rows" if rows == brief.rows else f"{rows:,} of {brief.rows:,} rows"
    said = [ways[choices.approach], f"It learns `{brief.target}` from {part}."]
    if choices.approach == "table" and choices.categories:
        said.append(f"Words become numbers by {choices.encoding} encoding.")
    if choices.log:
        said.append("The target is learnt on a logarithmic scale.")
    return " ".join(
        [*said, f"The predictions go to `submission.csv` with the columns {', '.join(brief.submission[:3])}."]
    )


def snippet(random: Random, brief: Brief) -> str:
    """The training table as `environments.mle.schema` would show it, values made up."""
    columns = brief.columns + len(brief.words) + 2
    tests = brief.rows // random.choice((3, 4, 10))
    lines = [
        f"-> data/train.csv has {brief.rows:,} rows and {columns} columns.",
        f"{brief.id} (integer) from 0 to {brief.rows}",
    ]
    for name in brief.listed[:8]:
        low, high = sorted((round(random.uniform(-10, 100), 1), round(random.uniform(0, 1000), 1)))
        lines.append(f"{name} (number) from {low:g} to {high:g}")
    if brief.columns > 8:
        lines.append(f"... {brief.columns - 8} more columns ...")
    for name in brief.words:
        values = brief.rows if name in brief.texts or name in brief.dates else random.randint(2, 40)
        example = "2016-03-04" if name in brief.dates else "a b c" if name in brief.texts else "a"
        lines.append(f"{name} (text) has {values:,} values, for example {example!r}")
    lines.append(_target_line(random, brief))
    return "\n".join([*lines, f"-> data/test.csv has {tests:,} rows and {columns - 1} columns."])


def _target_line(random: Random, brief: Brief) -> str:
    if brief.answer == "number":
        return f"{brief.target} (number) from 0 to {round(10 ** random.uniform(0, 4), 2):g}"
    if brief.answer == "chance":
        return f"{brief.target} (integer) from 0 to 1"
    if brief.answer == "label":
        return f"{brief.target} (integer) from 0 to {random.randint(2, 20)}"
    return f"{brief.target} (text) has {len(brief.submission) - 1} values: {list(brief.submission[1:5])}"


def _sample(random: Random, brief: Brief) -> str:
    value = {"number": "1.5", "label": "0", "chance": "0.5", "chances": "0.25"}[brief.answer]
    rows = [",".join([str(key), *[value] * (len(brief.submission) - 1)]) for key in (0, 1)]
    return "\n".join([",".join(brief.submission), *rows])


def _flat(text: str) -> str:
    return " ".join(text.split())
