"""Whether what scripts can read gives the answers of test rows away: single columns, the order of rows, equal rows.

A column leaks if it alone predicts the answers almost perfectly on rows that the prediction was not fitted on. It is
fitted on train.csv where that has the column, and on half of the test rows with their answers, so that a column that
train.csv lacks is found too. A prediction is the answer of the nearest known value (or of the same word), so that
copies, codes and transforms of the answer are found alike. Parts of words are columns too, and so are remainders of
ids and places: an id like `cat-0017` is an answer, and so is one whose odd numbers are one class. So are the first and
the last character of every value (a digit, a space, an n of nan) and how many it has. And the sum of all columns of
numbers, with weights, must not be the answer to the last digits: `registered` and `casual` riders add up to `count`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from rewardrate.environments.mle import schema
from rewardrate.environments.mle.task import Task

MOST_SKILL = {"labels": 0.97, "numbers": 0.995}  # of the answers' variation that one column may explain
MOST_ROWS_KNOWN = 0.10  # of the test rows that may stand in train.csv with their answers
SAME_ANSWERS = 0.95  # share of equal rows with equal answers from which on they are copies and not coincidence
TEST_ROWS, TRAIN_ROWS = 4_000, 8_000  # that columns are tried on
FEW_LABELS = 50  # so many different numbers are labels
SHORT_WORDS = 80  # characters; longer texts are sentences, whose parts are no codes
WORD_PARTS = re.compile(r"[^\W\d_]+|\d+")
EXACTLY = 0.999_99  # of the answers' variation that a weighted sum of columns may explain: above it is arithmetic
MOST_SUMMED = 200  # columns that are added up
REMAINDERS = (2, 3, 4, 5, 6, 7, 8, 9, 10, 16, 100)
ORDER = "the order of its rows"


def found(task: Task) -> Iterator[tuple[str, str, bool]]:
    """Name of a check, the worst that it found, and whether that is little enough."""
    tables = dict(schema.tables(task))
    train, test = tables.pop("train.csv", None), tables.get("test.csv")
    for label in (name for name in task._answers.columns if name != task.form.columns[0]):
        kind = "numbers" if _are_numbers(task._answers[label]) else "labels"
        skill, what = max(_skills(task, label, train, tables), default=(0.0, "no column"))
        yield f"no column gives {label} away", f"{what} explains {skill:.1%} of it", skill <= MOST_SKILL[kind]
        if train is not None and test is not None and label in train.columns:
            share, same = _equal_rows(task, label, train, test)
            said = f"{share:.1%} of the test rows, {same:.0%} of them with the same {label}"
            copied = share > MOST_ROWS_KNOWN and same >= SAME_ANSWERS
            yield f"test rows do not stand in train.csv with their {label}", said, not copied


def _skills(task: Task, label: str, train: Any, tables: dict[str, Any]) -> Iterator[tuple[float, str]]:
    """(how much of the answers it explains, what) for every column of the tables that hold the test rows."""
    key, draws = task.form.columns[0], np.random.default_rng(0)
    some = np.sort(draws.permutation(len(task.form.ids))[:TEST_ROWS])
    half = draws.permutation(len(some)) % 2 == 0
    answers = task._answers[label].iloc[some]
    within = _Answers(answers[half], answers[~half])
    known: Any = None if train is None else train.iloc[draws.permutation(len(train))[:TRAIN_ROWS]]
    across = _Answers(known[label], answers) if known is not None and label in known.columns else None
    for file, table in tables.items():
        rows = _in_order(table, key, task.form.ids)
        best = 0.0
        for column in () if rows is None else rows.columns:
            is_id = column in (key, ORDER)
            from_train = across is not None and column in known.columns and column != label
            trained = dict(_parts(column, known[column], is_id)) if from_train else {}
            for part, values in _parts(column, rows[column].iloc[some], is_id):
                ways = [within.skill(values[half], values[~half], smooth=not is_id)]
                if across is not None and part in trained:
                    ways.append(across.skill(trained[part], values))
                best = max(best, *ways)
                yield max(ways), f"{file}: {part}"
        if rows is not None and best <= min(MOST_SKILL.values()):
            yield _sum_skill(rows.iloc[some], answers, half), f"{file}: a sum of its columns"


def _in_order(table: Any, key: str, ids: tuple[str, ...]) -> Any:
    """A table's rows in the order of the answers, by id or, without ids, by place; None if it is not about them.

    With a column more: where each row stands in the file.
    """
    import pandas as pd

    places = pd.Series(np.arange(len(table)), index=table.index, name=ORDER)
    table = pd.concat([table, places], axis=1)
    if key not in table.columns:
        return table.reset_index(drop=True) if len(table) == len(ids) else None
    words = _words(table[key])
    if words.duplicated().any() or not set(ids) <= set(words):
        return None
    return table.set_axis(words).loc[list(ids)].reset_index(drop=True)


def _parts(name: str, values: Any, is_id: bool) -> Iterator[tuple[str, Any]]:
    """A column, and what else can be read from it: parts of short words, remainders of ids."""
    yield name, values
    if values.dtype.kind in "iu" and is_id:
        for divisor in REMAINDERS:
            yield f"{name} modulo {divisor}", (values % divisor).astype(str)
    elif values.dtype.kind not in "biuf" and len(values):
        words = _words(values)
        if words.map(len).max() <= SHORT_WORDS:
            split = words.map(WORD_PARTS.findall)
            for place in (*range(min(4, int(split.map(len).min()))), -1):
                part = split.map(lambda parts, at=place: parts[at] if parts else "")
                yield f"{name}, part {place}", part.astype(float) if part.map(str.isdecimal).all() else part
    if not is_id and values.nunique() > len(values) // 20:  # of fewer values the column itself tells as much
        words = _words(values)
        yield f"{name}, first character", words.str[:1]
        yield f"{name}, last character", words.str[-1:]
        yield f"{name}, length", words.map(len)


def _sum_skill(rows: Any, answers: Any, half: Any) -> float:
    """1 where a weighted sum of the columns of numbers is the answer (or says of every label whether it is), else 0."""
    import pandas as pd

    table = rows.select_dtypes(["number", "bool"]).drop(columns=ORDER, errors="ignore").iloc[:, :MOST_SUMMED]
    known = np.nan_to_num(table.to_numpy(dtype=float), posinf=0.0, neginf=0.0)
    if known.shape[1] < 2 or half.sum() < 2 * known.shape[1] + 20:  # too few rows to tell arithmetic from chance
        return 0.0
    numbers = _are_numbers(answers)
    truth = answers.to_numpy(dtype=float)[:, None] if numbers else pd.get_dummies(_words(answers)).to_numpy(dtype=float)
    scaled = np.c_[(known - known.mean(0)) / np.maximum(known.std(0), 1e-12), np.ones(len(known))]
    guess = scaled[~half] @ np.linalg.lstsq(scaled[half], truth[half], rcond=None)[0]
    return float(_explained(guess.ravel(), truth[~half].ravel()) > EXACTLY)


# ---------------------------------------------------------------- how much a column explains


def _are_numbers(answers: Any) -> bool:
    return answers.dtype.kind in "iuf" and answers.nunique() > FEW_LABELS


class _Answers:
    """Answers that a prediction is fitted on, and those that it is tried on."""

    def __init__(self, known: Any, asked: Any) -> None:
        self.numbers = _are_numbers(asked) and known.dtype.kind in "iuf"
        self.usable = len(known) > 1 and asked.nunique() > 1
        if self.numbers:
            self.known, self.truth = known.to_numpy(dtype=float), asked.to_numpy(dtype=float)
            return
        labels, codes = np.unique([*_words(known), *_words(asked)], return_inverse=True)
        self.labels, self.known, self.truth = len(labels), codes[: len(known)], codes[len(known) :]

    def skill(self, known: Any, values: Any, *, smooth: bool = True) -> float:
        """1 - (what is left to explain after the prediction) / (what there was); at least 0.

        Labels: share of wrong rows, against always saying the most frequent one. Numbers: squared error, against the
        mean. Not `smooth`: of numbers only a rising or falling order counts, because neighbours in time are alike.
        """
        if not self.usable:
            return 0.0
        places, at, asked = _positions(known, values)
        if not self.numbers:
            said = _nearest(places, _usual(at, self.known, self.labels), asked, -1)
            share = np.bincount(self.truth).max() / len(self.truth)
            return max(0.0, float(1 - np.mean(said != self.truth) / (1 - share)))
        if not smooth:
            return _rank_correlation(asked, self.truth) ** 2
        means = np.bincount(at, self.known) / np.bincount(at)
        every = np.ones(len(asked), bool)
        guesses = [(_nearest(places, means, asked, means.mean()), every)]
        if values.dtype.kind in "iuf":
            between = np.where(np.isfinite(asked), np.interp(asked, places, means), means.mean())
            # Beyond the known values nothing can be interpolated, and one far answer there would hide a plain copy.
            guesses += [(between, every), (between, (asked >= places[0]) & (asked <= places[-1]))]
        return max(0.0, *(_explained(guess[rows], self.truth[rows]) for guess, rows in guesses))


def _explained(guess: Any, truth: Any) -> float:
    """1 - squared error / variance of the truth; 0 of fewer than ten rows or where nothing varies."""
    return float(1 - np.mean((guess - truth) ** 2) / np.var(truth)) if len(truth) >= 10 and np.ptp(truth) > 0 else 0.0


def _words(values: Any) -> Any:
    """A column as words, gaps too."""
    return values.astype(object).map(str)


def _positions(known: Any, values: Any) -> tuple[Any, Any, Any]:
    """Different known values in order, which of them each known row has, and the asked values on the same scale.

    Words have whole numbers for positions: an unknown one is NaN.
    """
    if known.dtype.kind in "biuf" and values.dtype.kind in "biuf":
        places, at = np.unique(np.nan_to_num(known.to_numpy(dtype=float)), return_inverse=True)
        return places, at, values.to_numpy(dtype=float)
    words, at = np.unique(_words(known).to_numpy(dtype=str), return_inverse=True)
    number = {word: place for place, word in enumerate(words)}
    return np.arange(len(words), dtype=float), at, np.array([number.get(word, np.nan) for word in _words(values)])


def _usual(at: Any, codes: Any, labels: int) -> Any:
    """The most frequent label of every known value."""
    pairs, counts = np.unique(at * labels + codes, return_counts=True)
    order = np.lexsort((counts, pairs // labels))
    last = np.append(np.diff(pairs[order] // labels) > 0, True)
    return pairs[order][last] % labels


def _nearest(places: Any, right: Any, asked: Any, unknown: float) -> Any:
    above = np.clip(np.searchsorted(places, asked), 0, len(places) - 1)
    below = np.clip(above - 1, 0, None)
    chosen = np.where(np.abs(places[above] - asked) <= np.abs(asked - places[below]), above, below)
    return np.where(np.isnan(asked), unknown, right[chosen])


def _rank_correlation(one: Any, other: Any) -> float:
    from scipy.stats import spearmanr

    keep = np.isfinite(one)
    if keep.sum() < 3 or np.ptp(one[keep]) == 0 or np.ptp(other[keep]) == 0:
        return 0.0
    return float(spearmanr(one[keep], other[keep]).statistic)


# ---------------------------------------------------------------- equal rows


def _equal_rows(task: Task, label: str, train: Any, test: Any) -> tuple[float, float]:
    """Share of the test rows whose columns, id aside, are those of a training row; share of these with its answer."""
    import pandas as pd

    rows = _in_order(test, task.form.columns[0], task.form.ids)
    shared = [name for name in test.columns if name in train.columns and name not in (task.form.columns[0], label)]
    if rows is None or not shared:
        return 0.0, 0.0
    answers = pd.DataFrame({"row": _digests(rows[shared]), "answer": _digests(task._answers[[label]])})
    known = pd.DataFrame({"row": _digests(train[shared]), "answer": _digests(train[[label]])})
    there = answers["row"].isin(known["row"])
    certain = known.drop_duplicates().drop_duplicates("row", keep=False)  # rows that have one answer, not several
    same = answers.merge(certain, on=["row", "answer"])
    return float(there.mean()), len(same) / max(1, int(there.sum()))


def _digests(table: Any) -> Any:
    """One number for each row; whole numbers and fractions of the same value give the same."""
    import pandas as pd

    kinds = {name: float if table[name].dtype.kind in "biuf" else str for name in table.columns}
    return pd.util.hash_pandas_object(table.astype(kinds), index=False).to_numpy()
