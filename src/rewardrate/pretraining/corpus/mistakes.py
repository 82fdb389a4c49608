"""The usual mistakes of language models, made on purpose: a correct script in, one that fails in a known way out."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

from rewardrate.pretraining.corpus import scripts
from rewardrate.pretraining.corpus.brief import Brief
from rewardrate.pretraining.corpus.choices import Choices
from rewardrate.pretraining.corpus.outcomes import crash


@dataclass(frozen=True)
class Broken:
    """A script with a mistake in it, and what its attempt would be told."""

    text: str
    message: str


@dataclass(frozen=True)
class Draft:
    """A correct script that a mistake is made in."""

    random: Random
    brief: Brief
    choices: Choices
    lines: list[str]

    def where(self, part: str, start: int = 0) -> int:
        """The first line from `start` that holds the part; -1 when none does."""
        return next((at for at in range(start, len(self.lines)) if part in self.lines[at]), -1)

    def changed(self, at: int, line: str, message: str) -> Broken:
        """The script with one line changed."""
        return Broken("\n".join([*self.lines[:at], line, *self.lines[at + 1 :]]) + "\n", message)

    def crashed(self, at: int, line: str, kind: str, words: str) -> Broken:
        """The script with one line changed, which fails in that line."""
        return self.changed(at, line, crash([line], 0, kind, words).replace("at line 1", f"at line {at + 1}", 1))


def misspelt(random: Random, name: str) -> str:
    """A name that is nearly right."""
    ways = (
        name + "s",
        name[:-1] if len(name) > 3 else name + "_1",
        name.upper() if not name.isupper() else name.lower(),
        name.replace("_", "") if "_" in name else name + "_value",
        name.title() if name.title() != name else name.lower() + "_",
    )
    return random.choice([way for way in ways if way != name])


def misnamed_column(d: Draft) -> Broken | None:
    """A feature or the target by a name that no column has."""
    brief = d.brief
    known = {*brief.listed, *brief.words, brief.target}
    places = [
        (at, name)
        for at, line in enumerate(d.lines)
        if "submission" not in line and "sub" not in line and d.choices.style.p + " " not in line and "drop" not in line
        for name in re.findall(r'"([^"]+)"', line)
        if name in known and f'["{brief.target}"] = ' not in line
    ]
    if not places:
        return None
    at, name = d.random.choice(places)
    wrong = misspelt(d.random, name)
    if wrong in known or wrong == brief.id:
        return None
    line = d.lines[at].replace(f'"{name}"', f'"{wrong}"', 1)
    left = re.match(r"(\w+) = \[", line)
    if left is None:
        return d.crashed(at, line, "KeyError", f"'{wrong}'")
    use = next((k for k in range(at + 1, len(d.lines)) if re.search(rf"\b{left[1]}\b", d.lines[k])), at)
    return d.changed(at, line, crash(d.lines, use, "KeyError", f"\"['{wrong}'] not in index\""))


def target_from_test(d: Draft) -> Broken | None:
    """The answers are looked for in the test table."""
    s = d.choices.style
    for old, new in (
        (f'{s.train}["{d.brief.target}"]', f'{s.test}["{d.brief.target}"]'),
        (f'r["{d.brief.target}"]) for r in rows', f'r["{d.brief.target}"]) for r in test'),
    ):
        at = d.where(old)
        if at >= 0:
            return d.crashed(at, d.lines[at].replace(old, new, 1), "KeyError", f"'{d.brief.target}'")
    return None


def wrong_rows(d: Draft) -> Broken | None:
    """Predictions for the training or the validation rows are handed in."""
    c, s = d.choices, d.choices.style
    at = next((k for k, line in enumerate(d.lines) if ".predict" in line and s.z in line), -1)
    if c.approach not in ("table", "text") or at < 0:
        return None
    rows = "b" if c.validation != "none" else s.x
    line = re.sub(r"(\.predict\w*)\([^()]*\)", rf"\1({rows})", d.lines[at], count=1)
    if line == d.lines[at] or (c.approach == "text" and c.vectors.pipeline and rows == s.x):
        return None
    use = max(d.where('"] = ' + s.p), d.where("sub = pd.DataFrame"))
    words = f"Length of values ({d.brief.rows}) does not match length of index ({d.brief.rows // 4})"
    if c.writing == "frame":
        words = f"array length {d.brief.rows} does not match index length {d.brief.rows // 4}"
    return d.changed(at, line, crash(d.lines, use, "ValueError", words) if use >= 0 else "it has too many rows")


def missing_import(d: Draft) -> Broken | None:
    """A name is used that was never imported."""
    at = d.random.choice([k for k, line in enumerate(d.lines) if "import " in line])
    names = d.lines[at].split("import ")[1].split(", ")
    name = names[0].split(" as ")[-1]
    rest = [*d.lines[:at], *d.lines[at + 1 :]]
    use = next((k for k, line in enumerate(rest) if "import" not in line and re.search(rf"\b{name}\b", line)), -1)
    if use < 0:
        return None
    return Broken("\n".join(rest) + "\n", crash(rest, use, "NameError", f"name '{name}' is not defined"))


def wrong_columns(d: Draft) -> Broken | None:
    """A submission with the wrong header, or with an index."""
    brief, goal = d.brief, d.brief.submission[1]
    head = ",".join(brief.submission[:5]) + (",..." if len(brief.submission) > 5 else "")
    wrong = d.random.choice([name for name in ("prediction", "pred", "target", "Target", "value") if name != goal])
    text = "\n".join(d.lines) + "\n"
    if ", index=False" in text and (d.random.random() < 0.4 or brief.answer == "chances"):
        words = f"a column has no name (an index was written?); the header must be {head}; use index=False"
        return Broken(text.replace(", index=False", ""), words)
    for old, new in (
        (f'"{goal}": ', f'"{wrong}": '),
        (f',{goal}\\n"', f',{wrong}\\n"'),
        (f'sub["{goal}"]', f'sub["{wrong}"]'),
    ):
        if old in text:
            return Broken(text.replace(old, new), f"column '{goal}' is missing; the header must be {head}")
    old = f'["{brief.id}", "{goal}"]].to_csv'
    if old in text:
        broken = text.replace(old, f'["{brief.id}", "{wrong}"]].to_csv')
        broken = broken.replace(f'["{goal}"] = {d.choices.style.p}', f'["{wrong}"] = {d.choices.style.p}')
        return Broken(broken, f"column '{goal}' is missing; the header must be {head}")
    return None


def words_as_numbers(d: Draft) -> Broken | None:
    """A column of words goes into a model of numbers."""
    c, brief = d.choices, d.brief
    if c.approach != "table" or not (brief.categories or brief.dates) or (c.numbers is None and not brief.categories):
        return None
    names = c.categories or brief.categories[:2]
    if names:
        wrong = replace(c, categories=names, encoding="raw", keep=0)
    else:
        wrong = replace(c, numbers=(*(c.numbers or ()), brief.dates[0]), dates=(), encoding="raw", keep=0)
    lines = scripts.write(brief, wrong).text().splitlines()
    use = next(k for k, line in enumerate(lines) if ".fit(" in line)
    value = d.random.choice(("A", "yes", "north", "red", "2014-03-02", "B12", "low"))
    return Broken(
        "\n".join(lines) + "\n", crash(lines, use, "ValueError", f"could not convert string to float: '{value}'")
    )


def broken_syntax(d: Draft) -> Broken | None:
    """A bracket, a quote or the end is missing: no script at all."""
    way = d.random.randrange(3)
    lines = list(d.lines)
    if way == 0:
        at = d.random.choice([k for k, line in enumerate(lines) if line.endswith(")")])
        lines[at] = lines[at][:-1]
    elif way == 1:
        at = d.random.choice([k for k, line in enumerate(lines) if '"' in line])
        lines[at] = lines[at].replace('"', "", 1)
    else:
        at = d.random.randrange(len(lines) // 2, len(lines))
        lines = [*lines[:at], lines[at][: max(4, len(lines[at]) * 2 // 3)]]
    text = "\n".join(lines) + "\n"
    try:
        compile(text, "script.py", "exec")
    except SyntaxError:
        return Broken(text, "")
    return None


def wrong_file(d: Draft) -> Broken | None:
    """A file that is not there is read, or the submission goes elsewhere."""
    if d.random.random() < 0.35:
        at = d.where("submission.csv")
        at = at if "sample_" not in d.lines[at] else d.where('"submission.csv')
        other = d.random.choice(("output.csv", "predictions.csv", "data/submission.csv", "sub.csv"))
        return d.changed(at, d.lines[at].replace("submission.csv", other), "it ended without writing submission.csv")
    name = d.random.choice(("train", "test"))
    at = d.where(f"data/{name}.csv")
    other = d.random.choice((f"{name}.csv", f"data/{name}ing.csv", f"input/{name}.csv", f"data/{name}_data.csv"))
    words = f"[Errno 2] No such file or directory: '{other}'"
    return d.crashed(at, d.lines[at].replace(f"data/{name}.csv", other), "FileNotFoundError", words)


def no_submission(d: Draft) -> Broken | None:
    """It ends before anything is written."""
    at = d.where('"submission.csv')
    return Broken("\n".join(d.lines[:at]) + "\n", "it ended without writing submission.csv")


def not_fitted(d: Draft) -> Broken | None:
    """The model is asked before it was fitted."""
    c = d.choices
    fits = [k for k, line in enumerate(d.lines) if f"{c.style.model}.fit(" in line]
    if len(fits) != 1:
        return None
    rest = [line for k, line in enumerate(d.lines) if k != fits[0] and not line.startswith("print(")]
    use = next(k for k, line in enumerate(rest) if ".predict" in line)
    name = "Pipeline" if "make_pipeline(" in "\n".join(rest) else c.model.family.name
    words = f"This {name} instance is not fitted yet. Call 'fit' with appropriate arguments before using"
    return Broken("\n".join(rest) + "\n", crash(rest, use, "NotFittedError", words + " this estimator."))


def unknown_setting(d: Draft) -> Broken | None:
    """A setting that belongs to another model."""
    c = d.choices
    if c.approach not in ("table", "text"):
        return None
    known = {one.name for one in c.model.family.settings}
    foreign = ("n_estimators", "max_depth", "n_neighbors", "hidden_layer_sizes", "num_leaves", "max_leafs")
    strange = [name for name in foreign if name not in known and not ("Tree" in c.model.family.name and "max" in name)]
    strange = [name for name in strange if not (name == "max_depth" and c.model.family.module == "ensemble")]
    name, old = d.random.choice(strange), c.model.text
    at = d.where(old)
    value = "(50,)" if name.startswith("hidden") else d.random.choice(("5", "10", "100"))
    new = old[:-1] + ("" if old.endswith("()") else ", ") + f"{name}={value})"
    words = f"{c.model.family.name}.__init__() got an unexpected keyword argument '{name}'"
    return d.crashed(at, d.lines[at].replace(old, new), "TypeError", words)


def undefined_name(d: Draft) -> Broken | None:
    """A variable that another script would have had."""
    s = d.choices.style
    at = next((k for k, line in enumerate(d.lines) if ".fit(" in line or "lstsq(" in line), -1)
    if at < 0:
        return None
    old = d.random.choice((s.x, s.y)) if ".fit(" in d.lines[at] else "A"
    new = d.random.choice(("X_train", "x_train", "train_x", "data", "y_train", "labels"))
    line = re.sub(rf"\b{old}\b", new, d.lines[at], count=1)
    if line == d.lines[at] or new in "\n".join(d.lines):
        return None
    return d.crashed(at, line, "NameError", f"name '{new}' is not defined")


def no_such_method(d: Draft) -> Broken | None:
    """Probabilities are asked of a model that has none."""
    c = d.choices
    at = d.where(f"{c.style.model}.predict(")
    if (
        at < 0
        or c.approach not in ("table", "text")
        or (c.model.family.classifies and c.model.family.answers != ("label",))
    ):
        return None
    if c.model.family.name in ("SVC", "NearestCentroid"):
        return None
    line = d.lines[at].replace(".predict(", ".predict_proba(")
    words = f"'{c.model.family.name}' object has no attribute 'predict_proba'"
    if d.where("make_pipeline(") >= 0:
        words = "This 'Pipeline' has no attribute 'predict_proba'"
    return d.crashed(at, line, "AttributeError", words)


def test_left_raw(d: Draft) -> Broken | None:
    """Test rows are not encoded as the training rows were."""
    c, s = d.choices, d.choices.style
    fitted = f"X has 1204 features, but {c.model.family.name} is expecting 1731 features as input."
    if c.approach == "text":
        fixed = {"max_features", "n_features"} & {name for name, _ in c.vectors.settings}
        at = d.where("vec.transform(")
        if at < 0 or fixed or c.vectors.components:
            return None
        broken = d.lines[at].replace("vec.transform(", "vec.fit_transform(")
        use = d.where(".predict")
        return d.changed(at, broken, crash(d.lines, use, "ValueError", fitted))
    if c.approach != "table" or c.encoding not in ("dummies", "codes"):
        return None
    at = d.where("both[:len(")
    names = " + ".join(part for part in (s.columns, "cats") if d.where(f"{part} = [") >= 0)
    line = f"{s.x}, {s.z} = both[:len({s.train})], {s.test}[{names}]"
    use = d.where(".predict")
    return d.changed(at, line, crash(d.lines, use, "ValueError", "could not convert string to float: 'a'"))


@dataclass(frozen=True)
class Mistake:
    """One kind of mistake: how often it is made, and what an attempt with it comes to."""

    make: Callable[[Draft], Broken | None]
    weight: float
    statuses: tuple[str, ...]
    errors: tuple[str, ...] = ()
    "Exceptions that may end the script when the status is error."


SHAPES = ("ValueError", "KeyError")
MISTAKES: dict[str, Mistake] = {
    "misnamed column": Mistake(misnamed_column, 3.0, ("error",), SHAPES),
    "target from test": Mistake(target_from_test, 1.5, ("error",), ("KeyError",)),
    "wrong rows": Mistake(wrong_rows, 1.5, ("error", "bad-submission"), SHAPES),
    "missing import": Mistake(missing_import, 2.0, ("error",), ("NameError",)),
    "wrong columns": Mistake(wrong_columns, 2.0, ("bad-submission",)),
    "words as numbers": Mistake(words_as_numbers, 2.5, ("error",), SHAPES),
    "broken syntax": Mistake(broken_syntax, 1.5, ("format",)),
    "wrong file": Mistake(
        wrong_file, 1.0, ("error", "no-submission"), ("FileNotFoundError", "PermissionError", "OSError")
    ),
    "no submission": Mistake(no_submission, 0.7, ("no-submission",)),
    "not fitted": Mistake(not_fitted, 0.7, ("error",), ("NotFittedError", "AttributeError")),
    "unknown setting": Mistake(unknown_setting, 1.5, ("error",), ("TypeError",)),
    "undefined name": Mistake(undefined_name, 1.0, ("error",), ("NameError",)),
    "no such method": Mistake(no_such_method, 0.7, ("error",), ("AttributeError",)),
    "test left raw": Mistake(test_left_raw, 1.5, ("error",), SHAPES),
}


def make(random: Random, brief: Brief, choices: Choices, name: str | None = None) -> tuple[str, Broken] | None:
    """A script with a mistake, of the kind asked for or of any kind that the script allows. None: not possible here."""
    lines = scripts.write(brief, choices).text().splitlines()
    draft = Draft(random, brief, choices, lines)
    if name is not None:
        broken = MISTAKES[name].make(draft)
        return (name, broken) if broken else None
    names, weights = list(MISTAKES), [mistake.weight for mistake in MISTAKES.values()]
    for one in random.choices(names, weights, k=8):
        broken = MISTAKES[one].make(draft)
        if broken is not None:
            return one, broken
    return None
