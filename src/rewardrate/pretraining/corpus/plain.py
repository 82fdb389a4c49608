"""Scripts without scikit-learn: least squares, nearest class means, means of groups; with pandas, or with csv alone.

They start in a fraction of the time that importing scikit-learn takes.
"""

from __future__ import annotations

from rewardrate.pretraining.corpus import tables
from rewardrate.pretraining.corpus.brief import Brief
from rewardrate.pretraining.corpus.choices import Choices
from rewardrate.pretraining.corpus.source import SourceWriter, listed


def algebra_script(brief: Brief, c: Choices) -> SourceWriter:
    """Least squares with pandas and numpy."""
    source, s = SourceWriter(), c.style
    source.use("np")
    _read_numbers(source, brief, c)
    tables.target(source, brief, c)
    source.add(f"A = np.c_[np.ones(len({s.train})), {s.train}[{s.columns}]]")
    source.add(f"B = np.c_[np.ones(len({s.test})), {s.test}[{s.columns}]]")
    if brief.answer in ("number", "chance"):
        source.add(f"w = np.linalg.lstsq(A, {s.y}, rcond=None)[0]")
        source.add(f"{s.p} = np.expm1(B @ w)" if c.log else f"{s.p} = B @ w")
        tables.write(source, brief, c)
        return source
    source.add(f"Y = pd.get_dummies({s.y}, dtype=float)", "w = np.linalg.lstsq(A, Y, rcond=None)[0]")
    if brief.answer == "label":
        source.add(f"{s.p} = Y.columns.to_numpy()[(B @ w).argmax(1)]")
        tables.write(source, brief, c)
    else:
        source.add(f"{s.p} = (B @ w).clip(0.01, 1)", f"{s.p} /= {s.p}.sum(1, keepdims=True)")
        tables.write(source, brief, c, "Y.columns")
    return source


def _read_numbers(source: SourceWriter, brief: Brief, c: Choices) -> None:
    """Both tables, and the list of number columns."""
    s = c.style
    if c.numbers is None:
        tables.read(source, brief, c)
        source.add(f'{s.columns} = [c for c in {s.test}.select_dtypes("number") if c != "{brief.id}"]')
    else:
        source.add(f"{s.columns} = {listed(c.numbers)}")
        tables.read(source, brief, c, s.columns)


def centres_script(brief: Brief, c: Choices) -> SourceWriter:
    """The class whose mean is nearest, columns scaled."""
    source, s = SourceWriter(), c.style
    source.use("np")
    _read_numbers(source, brief, c)
    source.add(f"scale = {s.train}[{s.columns}].std() + 1e-9")
    source.add(f'means = ({s.train}[{s.columns}] / scale).groupby({s.train}["{brief.target}"]).mean()')
    source.add(f"{s.z} = ({s.test}[{s.columns}] / scale).to_numpy()")
    source.add(f"dist = np.stack([(({s.z} - m) ** 2).mean(1) for m in means.to_numpy()], 1)")
    if brief.answer == "label":
        source.add(f"{s.p} = means.index.to_numpy()[dist.argmin(1)]")
        tables.write(source, brief, c)
    else:
        source.add(f"{s.p} = np.exp(-3 * dist) + 1e-4", f"{s.p} /= {s.p}.sum(1, keepdims=True)")
        tables.write(source, brief, c, "means.index")
    return source


def groups_script(brief: Brief, c: Choices) -> SourceWriter:
    """The mean or median of the target in each group of rows that share labels or calendar."""
    source, s = SourceWriter(), c.style
    names = c.categories[:2]
    parts = c.dates[: 2 - len(names)] if names else c.dates[:2]
    source.add(f"keys = {listed((*names, *(tables.DATE_NAMES[part] for part in parts)))}")
    tables.read(source, brief, c, "" if parts else "keys")
    tables.dates(source, brief, c, parts)
    source.add(f'means = {s.train}.groupby(keys)["{brief.target}"].{c.middle}().rename("guess").reset_index()')
    source.add(f'{s.p} = {s.test}.merge(means, on=keys, how="left")["guess"]')
    source.add(f'{s.p} = {s.p}.fillna({s.train}["{brief.target}"].{c.middle}()).to_numpy()')
    tables.write(source, brief, c)
    return source


def constant_script(brief: Brief, c: Choices) -> SourceWriter:
    """The same answer for every row: the mean, the commonest label, the shares of the classes."""
    source, s = SourceWriter(), c.style
    tables.read(source, brief, c)
    column = f'{s.train}["{brief.target}"]'
    if brief.answer == "chances":
        source.add(f"share = {column}.value_counts(normalize=True)")
        source.add('sub = pd.read_csv("data/sample_submission.csv")', "sub[share.index] = share.to_numpy()")
        source.add('sub.to_csv("submission.csv", index=False)')
        return source
    middle = "mode()[0]" if brief.answer == "label" else f"{c.middle}()"
    source.add(f"{s.p} = {column}.{middle}")
    tables.write(source, brief, c)
    return source


# ---------------------------------------------------------------- csv alone


def _open_rows(source: SourceWriter, c: Choices) -> None:
    part = {"all": "", "every": f"[::{c.count}]", "last": f"[-{c.count}:]"}.get(c.rows, f"[:{c.count}]")
    source.use("csv")
    source.add(f'rows = list(csv.DictReader(open("data/train.csv"))){part}')
    source.add('test = list(csv.DictReader(open("data/test.csv")))')


def _write_rows(source: SourceWriter, brief: Brief, value: str) -> None:
    """A loop that writes `value` for each row r of the test set."""
    source.add('with open("submission.csv", "w") as f:', f'    f.write("{brief.id},{brief.submission[1]}\\n")')
    source.add("    for r, v in zip(test, p):", f"        f.write(f\"{{r['{brief.id}']}},{{{value}}}\\n\")")


def csv_algebra_script(brief: Brief, c: Choices) -> SourceWriter:
    """Least squares on number columns, without pandas."""
    source = SourceWriter()
    source.use("np")
    _open_rows(source, c)
    if c.numbers is None:
        source.add(f'cols = [c for c in test[0] if c != "{brief.id}"]')
    else:
        source.add(f"cols = {listed(c.numbers)}")
    source.add("A = np.array([[1.0] + [float(r[c]) for c in cols] for r in rows])")
    source.add("B = np.array([[1.0] + [float(r[c]) for c in cols] for r in test])")
    if brief.answer in ("number", "chance"):
        y = f'np.array([float(r["{brief.target}"]) for r in rows])'
        source.add(f"y = np.log1p({y})" if c.log else f"y = {y}", "w = np.linalg.lstsq(A, y, rcond=None)[0]")
        source.add("p = np.expm1(B @ w)" if c.log else "p = B @ w")
        _write_rows(source, brief, "v")
        return source
    source.add(f'names = sorted(set(r["{brief.target}"] for r in rows))')
    source.add(f'Y = np.array([[r["{brief.target}"] == n for n in names] for r in rows], float)')
    source.add("w = np.linalg.lstsq(A, Y, rcond=None)[0]")
    if brief.answer == "label":
        source.add("p = (B @ w).argmax(1)")
        _write_rows(source, brief, "names[v]")
    else:
        source.add("p = (B @ w).clip(0.01, 1)", "p /= p.sum(1, keepdims=True)")
        _write_classes(source, brief)
    return source


def _write_classes(source: SourceWriter, brief: Brief) -> None:
    source.add('with open("submission.csv", "w") as f:', f'    f.write(",".join(["{brief.id}"] + names) + "\\n")')
    source.add(
        "    for r, v in zip(test, p):", f'        f.write(",".join([r["{brief.id}"]] + [str(q) for q in v]) + "\\n")'
    )


CSV_DATES = {
    "hour": 'r["{}"][11:13]',
    "dayofweek": 'date.fromisoformat(r["{}"][:10]).weekday()',
    "month": 'r["{}"][5:7]',
    "dayofyear": 'r["{}"][5:10]',
    "year": 'r["{}"][:4]',
}


def csv_groups_script(brief: Brief, c: Choices) -> SourceWriter:
    """Means of groups with the standard library alone."""
    source = SourceWriter()
    _open_rows(source, c)
    names = c.categories[:2]
    parts = c.dates[: 2 - len(names)] if names else c.dates[:2]
    if "dayofweek" in parts:
        source.use("date")
    keys = [f'r["{name}"]' for name in names] + [CSV_DATES[part].format(brief.dates[0]) for part in parts]
    source.use("statistics")
    source.add("def key(r):", f"    return {', '.join(keys)}", "groups = {}", "for r in rows:")
    source.add(f'    groups.setdefault(key(r), []).append(float(r["{brief.target}"]))')
    source.add(f"means = {{k: statistics.{c.middle}(v) for k, v in groups.items()}}")
    source.add(f"other = statistics.{c.middle}(means.values())", "p = [means.get(key(r), other) for r in test]")
    _write_rows(source, brief, "v")
    return source


def csv_words_script(brief: Brief, c: Choices) -> SourceWriter:
    """Word counts by class: naive Bayes by hand, with the standard library alone."""
    source, text = SourceWriter(), brief.texts[0]
    _open_rows(source, c)
    source.use("math", "Counter")
    source.add("def words(r):")
    source.add(
        f'    return r["{text}"].lower().split()' if c.narrow else f'    return set(r["{text}"].lower().split())'
    )
    source.add(f'names = sorted(set(r["{brief.target}"] for r in rows))')
    source.add("counts = {n: Counter() for n in names}", "for r in rows:")
    source.add(f'    counts[r["{brief.target}"]].update(words(r))')
    source.add("total = {n: sum(counts[n].values()) + 10000 for n in names}", "p = []", "for r in test:")
    source.add("    s = [sum(math.log((counts[n][w] + 1) / total[n]) for w in words(r)) for n in names]")
    if brief.answer == "label":
        source.add("    p.append(names[s.index(max(s))])")
        _write_rows(source, brief, "v")
    elif brief.answer == "chance":
        source.add("    p.append(1 / (1 + math.exp(min(50, s[0] - s[1]))))")
        _write_rows(source, brief, "v")
    else:
        source.add("    e = [math.exp(v - max(s)) for v in s]", "    p.append([v / sum(e) for v in e])")
        _write_classes(source, brief)
    return source
