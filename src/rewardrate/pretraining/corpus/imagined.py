"""Imagined tasks: plausible names, kinds, metrics and sizes, so that a model must read its prompt and not recall it."""

from __future__ import annotations

from random import Random

from rewardrate.pretraining.corpus import names
from rewardrate.pretraining.corpus.brief import MORE, Answer, Brief

KINDS = ("tabular", "text", "image", "series")
KIND_SHARES = (0.5, 0.22, 0.1, 0.18)
ANSWERS: dict[str, tuple[tuple[Answer, ...], tuple[float, ...]]] = {
    "tabular": (("number", "label", "chance", "chances"), (0.45, 0.15, 0.25, 0.15)),
    "text": (("number", "label", "chance", "chances"), (0.1, 0.25, 0.4, 0.25)),
    "image": (("label", "chances"), (0.75, 0.25)),
    "series": (("number", "chance"), (0.92, 0.08)),
}
METRICS: dict[Answer, tuple[str, ...]] = {
    "number": (
        "root mean squared error (lower is better)",
        "root mean squared error in {unit} (lower is better)",
        "mean absolute error (lower is better)",
        "mean absolute error in {unit} (lower is better)",
        "root mean squared logarithmic error (lower is better)",
        "median absolute error (lower is better)",
        "R squared (higher is better)",
    ),
    "label": (
        "accuracy (higher is better)",
        "accuracy (higher is better)",
        "balanced accuracy (higher is better)",
        "macro F1 (higher is better)",
    ),
    "chance": (
        "area under the ROC curve (higher is better)",
        "area under the ROC curve (higher is better)",
        "average precision (higher is better)",
    ),
    "chances": ("multi-class logarithmic loss (lower is better)",),
}
GOALS: dict[Answer, tuple[str, ...]] = {
    "number": (
        "Predict the {target} of a {thing} from its {one} and {two}.",
        "Predict the {target} of a {thing} in {unit} from what is known about it.",
        "Forecast the {target} of each {thing} from the {one} before it.",
        "Estimate {target} for every {thing} in the test table.",
        "Say how much {target} a {thing} has, from {one}, {two} and other measures.",
    ),
    "label": (
        "Say which {target} a {thing} has.",
        "Name the {target} of each {thing} from its {one}.",
        "Predict the {target} of a {thing} from its {one} and {two}.",
        "Say which {target} a picture of {side} x {side} pixels shows.",
    ),
    "chance": (
        "Predict whether a {thing} is {target}, from its {one} and {two}.",
        "Predict whether a {thing} will be {target}.",
        "Give the probability that the {thing} counts as {target}, from the {one} known before.",
    ),
    "chances": (
        "Give the probability of each {target} of a {thing} from its {one}.",
        "Give the probability that a {thing} belongs to each of {count} kinds.",
        "Say how probable every {target} is for each {thing}.",
    ),
}


def imagine(random: Random) -> Brief:
    """A task that does not exist."""
    kind = random.choices(KINDS, KIND_SHARES)[0]
    answer = random.choices(*ANSWERS[kind])[0]
    style = random.choices(range(5), (0.6, 0.13, 0.1, 0.07, 0.1))[0]
    taken: set[str] = set()
    target = _fresh(random, taken, _targets(answer), style)
    key = random.choices(("id", "Id", "ID", "row_id", "key", "index", "no"), (0.7, 0.05, 0.05, 0.08, 0.04, 0.04, 0.04))[
        0
    ]
    taken.add(key)
    numbers, width = _numbers(random, kind, style, taken)
    words, texts, dates = _words(random, kind, style, taken, bool(numbers))
    thing = names.word(random, names.THINGS)
    classes = _classes(random) if answer == "chances" else ()
    last = target if random.random() < 0.88 else random.choice(("prediction", "target", "score", "answer", "y"))
    return Brief(
        task=_task(random, thing, target),
        goal=_goal(random=random, answer=answer, kind=kind, thing=thing, target=target, count=len(classes)),
        kind=kind,
        metric=random.choice(METRICS[answer]).format(unit=random.choice(names.UNITS)),
        rows=round(10 ** random.uniform(2.6, 5.5)),
        numbers=numbers,
        words=words,
        target=target,
        submission=(key, *_few(classes)) if classes else (key, last),
        answer=answer,
        texts=texts,
        dates=dates,
        width=width,
        classes=len(classes) or (random.choice((2, 3, 5, 10)) if answer == "label" else 1),
    )


def _targets(answer: Answer) -> list[str]:
    if answer == "number":
        return names.NUMBER_TARGETS
    return names.BINARY_TARGETS if answer == "chance" else names.CLASS_TARGETS


def _fresh(random: Random, taken: set[str], pool: list[str], style: int) -> str:
    """A column's name that the table does not have yet."""
    while True:
        name = names.column(random, pool, style)
        if name.lower() not in taken:
            taken.add(name.lower())
            return name


def _numbers(random: Random, kind: str, style: int, taken: set[str]) -> tuple[tuple[str, ...], int]:
    """The number columns as a prompt lists them, and how many there are."""
    if kind == "image" or (kind == "tabular" and random.random() < 0.08):
        return _numbered(random)
    if kind == "text" and random.random() < 0.7:
        return (), 0
    count = random.choice((1, 2, 2, 3, 3, 4, 5, 6, 7, 8, 9, 10, 12, 20, 40, 80, 300))
    shown = [_fresh(random, taken, names.MEASURES, style) for _ in range(min(count, 11 if count > 12 else 12))]
    return (_few_of(shown, count), count)


def _numbered(random: Random) -> tuple[tuple[str, ...], int]:
    """Columns with a letter and a number: pixels and such."""
    letter = random.choice(("p", "p", "x", "px", "pixel", "v", "f", "feature_", "pix_", "V", "attr"))
    width = random.choice((16, 25, 36, 49, 64, 100, 144, 196, 256, 400, 576, 784, 1024))
    start = random.choice((0, 0, 1))
    all_names = [f"{letter}{at + start}" for at in range(width)]
    return _few(tuple(all_names)), width


def _few(shown: tuple[str, ...]) -> tuple[str, ...]:
    """As the prompt lists names: of more than twelve the first eight and the last three."""
    return shown if len(shown) <= 12 else (*shown[:8], MORE, *shown[-3:])


def _few_of(shown: list[str], count: int) -> tuple[str, ...]:
    return tuple(shown) if count <= 12 else (*shown[:8], MORE, *shown[8:11])


def _words(
    random: Random, kind: str, style: int, taken: set[str], numbers: bool
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Word columns in the table's order, and which of them are running text, and which dates."""
    labels, texts, dates = [], [], []
    if kind == "tabular":
        count = random.choice((0, 0, 1, 1, 2, 2, 3, 3, 4, 5, 6, 8, 10)) or (0 if numbers else 2)
        labels = [_fresh(random, taken, names.LABELS, style) for _ in range(count)]
        if random.random() < 0.15:
            dates = [_fresh(random, taken, names.DATES, style)]
    elif kind == "text":
        texts = [_fresh(random, taken, names.TEXTS, style) for _ in range(random.choice((1, 1, 1, 1, 2)))]
        labels = [_fresh(random, taken, names.LABELS, style) for _ in range(random.choice((0, 0, 0, 1, 1, 2)))]
        if random.random() < 0.15:
            dates = [_fresh(random, taken, names.DATES, style)]
    elif kind == "series":
        dates = [_fresh(random, taken, names.TIMED if random.random() < 0.4 else names.DATES, style)]
        labels = [_fresh(random, taken, names.LABELS, style) for _ in range(random.choice((0, 0, 0, 1, 2)))]
    order = [*labels, *texts, *dates]
    random.shuffle(order)
    if kind == "series":
        order = [*dates, *labels]
    return tuple(order), tuple(name for name in order if name in texts), tuple(dates)


def _classes(random: Random) -> tuple[str, ...]:
    count = random.choice((3, 3, 4, 4, 5, 6, 7, 8, 10, 12, 20, 30))
    if random.random() < 0.2:
        return tuple(f"{random.choice(('class', 'c', 'kind'))}_{at}" for at in range(count))
    found: dict[str, None] = {}
    while len(found) < count:
        name = names.word(random, names.CLASSES)
        found[name if random.random() < 0.7 else f"{name}_{names.word(random, names.CLASSES)}"] = None
    return tuple(sorted(found))


def _task(random: Random, thing: str, target: str) -> str:
    second = random.choice((target.lower().replace("_", "-"), names.made_up(random), random.choice(names.MEASURES)))
    return random.choice((f"{thing}-{second}", f"{second}-{thing}", f"{thing}s", f"{thing}{random.randint(2, 99)}"))


def _goal(random: Random, answer: Answer, kind: str, thing: str, target: str, count: int) -> str:
    goals = GOALS[answer]
    goal = goals[-1] if kind == "image" and answer == "label" else random.choice(goals[: 3 if answer == "label" else 9])
    return goal.format(
        thing=thing,
        target=target.lower().replace("_", " "),
        unit=random.choice(names.UNITS),
        one=random.choice(names.MEASURES),
        two=random.choice(names.LABELS),
        side=random.choice((8, 10, 12, 16, 20, 24, 28, 32)),
        count=count,
    )
