"""Scripts with pandas: how tables are read, turned into features, fitted with scikit-learn, and written."""

from __future__ import annotations

from rewardrate.pretraining.corpus.brief import Brief
from rewardrate.pretraining.corpus.choices import Choices
from rewardrate.pretraining.corpus.source import SourceWriter, listed

DATE_NAMES = {"hour": "hr", "dayofweek": "dow", "month": "mon", "dayofyear": "doy", "year": "yr"}


def read(source: SourceWriter, brief: Brief, choices: Choices, used: str = "") -> None:
    """Both tables; all rows or some; all columns, or those of the expression `used` when the reading is narrow."""
    s, c = choices.style, choices
    source.use("pd")
    options = f", nrows={c.count}" if c.rows == "nrows" else ""
    if c.narrow and used:
        source.add(f'{s.train} = pd.read_csv("data/train.csv", usecols={used} + ["{brief.target}"]{options})')
        source.add(f'{s.test} = pd.read_csv("data/test.csv", usecols={used} + ["{brief.id}"])')
    else:
        source.add(f'{s.train} = pd.read_csv("data/train.csv"{options})')
        source.add(f'{s.test} = pd.read_csv("data/test.csv")')
    part = {
        "sample": f".sample({c.count}, random_state=0)",
        "first": f"[:{c.count}]",
        "last": f"[-{c.count}:]",
        "every": f"[::{c.count}]",
    }.get(c.rows)
    if part:
        source.add(f"{s.train} = {s.train}{part}")


def target(source: SourceWriter, brief: Brief, choices: Choices) -> None:
    """The column to learn, as `y`."""
    s = choices.style
    column = f'{s.train}["{brief.target}"]'
    if choices.log:
        source.use("np")
        column = f"np.log1p({column})"
    source.add(f"{s.y} = {column}")


def predict(source: SourceWriter, brief: Brief, choices: Choices, features: str) -> None:
    """Predictions for the test rows, as `p`."""
    s, c = choices.style, choices
    call = f"{s.model}.predict({features})"
    if brief.answer == "chances":
        call = f"{s.model}.predict_proba({features})"
    elif brief.answer == "chance" and c.model.family.classifies:
        call = f"{s.model}.predict_proba({features})[:, 1]"
    elif c.log:
        call = f"np.expm1({call})"
    source.add(f"{s.p} = {call}")


def write(source: SourceWriter, brief: Brief, choices: Choices, classes: str = "") -> None:
    """The submission, from `p`; `classes` names the columns of probabilities."""
    s, c = choices.style, choices
    key, goal = brief.id, brief.target if brief.answer == "chances" else brief.submission[1]
    if brief.answer == "chances":
        if c.writing == "sample":
            source.add('sub = pd.read_csv("data/sample_submission.csv")', f"sub[{classes}] = {s.p}")
        else:
            source.add(f"sub = pd.DataFrame({s.p}, columns={classes})", f'sub.insert(0, "{key}", {s.test}["{key}"])')
        source.add('sub.to_csv("submission.csv", index=False)')
    elif c.writing == "assign":
        source.add(f'{s.test}["{goal}"] = {s.p}')
        source.add(f'{s.test}[["{key}", "{goal}"]].to_csv("submission.csv", index=False)')
    elif c.writing == "frame":
        source.add(f'sub = pd.DataFrame({{"{key}": {s.test}["{key}"], "{goal}": {s.p}}})')
        source.add('sub.to_csv("submission.csv", index=False)')
    else:
        source.add('sub = pd.read_csv("data/sample_submission.csv")', f'sub["{goal}"] = {s.p}')
        source.add('sub.to_csv("submission.csv", index=False)')


def table_script(brief: Brief, choices: Choices) -> SourceWriter:
    """A model of scikit-learn on columns of a table."""
    source, c, s = SourceWriter(), choices, choices.style
    names = _names(c)
    early = c.narrow and c.numbers is not None and not c.dates
    if early:
        _lists(source, brief, c)
    read(source, brief, c, names if early else "")
    dates(source, brief, c, c.dates)
    target(source, brief, c)
    if not early:
        _lists(source, brief, c)
    if c.numbers is None and not c.categories:
        _all_numbers(source, brief, c)
    else:
        _ENCODINGS[c.encoding](source, c, names)
    _model(source, brief, c)
    fit(source, c, s.x)
    predict(source, brief, c, s.z)
    write(source, brief, c, f"{s.model}.classes_")
    return source


def dates(source: SourceWriter, brief: Brief, c: Choices, parts: tuple[str, ...]) -> None:
    """Parts of the date as columns of both tables."""
    if parts:
        source.add(f"for t in ({c.style.train}, {c.style.test}):")
        source.add(f'    d = pd.to_datetime(t["{brief.dates[0]}"])')
        source.add(*(f'    t["{DATE_NAMES[part]}"] = d.dt.{part}' for part in parts))


def _names(c: Choices) -> str:
    """The expression that names all columns."""
    others = c.numbers is None or bool(c.numbers or c.dates)
    return " + ".join([c.style.columns] * others + ["cats"] * bool(c.categories))


def _lists(source: SourceWriter, brief: Brief, c: Choices) -> None:
    """The lists that the expression is made of."""
    s = c.style
    if c.numbers is None:
        if c.categories:
            source.add(f'{s.columns} = [c for c in {s.test}.select_dtypes("number") if c != "{brief.id}"]')
    elif c.numbers or c.dates:
        source.add(f"{s.columns} = {listed((*c.numbers, *(DATE_NAMES[part] for part in c.dates)))}")
    if c.categories:
        source.add(f"cats = {listed(c.categories)}")


def _all_numbers(source: SourceWriter, brief: Brief, c: Choices) -> None:
    s = c.style
    if not brief.words and c.writing == "frame":
        source.add(f'{s.x} = {s.train}.drop(columns=["{brief.id}", "{brief.target}"])')
        source.add(f"{s.z} = {s.test}[{s.x}.columns]")
    else:
        source.add(f'{s.z} = {s.test}.select_dtypes("number").drop(columns="{brief.id}")')
        source.add(f"{s.x} = {s.train}[{s.z}.columns]")


def _raw(source: SourceWriter, c: Choices, names: str) -> None:
    s = c.style
    source.add(f"{s.x}, {s.z} = {s.train}[{names}], {s.test}[{names}]")


def _dummies(source: SourceWriter, c: Choices, names: str) -> None:
    s = c.style
    source.add(f"both = pd.get_dummies(pd.concat([{s.train}[{names}], {s.test}[{names}]]), dtype=float)")
    source.add(f"{s.x}, {s.z} = both[:len({s.train})], both[len({s.train}):]")


def _codes(source: SourceWriter, c: Choices, names: str) -> None:
    s = c.style
    source.add(f"both = pd.concat([{s.train}[{names}], {s.test}[{names}]])")
    source.add("for c in cats:", '    both[c] = both[c].astype("category").cat.codes')
    source.add(f"{s.x}, {s.z} = both[:len({s.train})], both[len({s.train}):]")


def _ordinal(source: SourceWriter, c: Choices, names: str) -> None:
    s = c.style
    encoder = source.sklearn("preprocessing", "OrdinalEncoder")
    source.add(f'enc = {encoder}(handle_unknown="use_encoded_value", unknown_value=-1)')
    source.add(f"{s.x}, {s.z} = {s.train}[{names}].copy(), {s.test}[{names}].copy()")
    source.add(f"{s.x}[cats] = enc.fit_transform({s.x}[cats])", f"{s.z}[cats] = enc.transform({s.z}[cats])")


def _one_hot(source: SourceWriter, c: Choices, names: str) -> None:
    """The encoder itself stands in the model's pipeline."""
    _raw(source, c, names)


def _target_mean(source: SourceWriter, c: Choices, names: str) -> None:
    s = c.style
    source.add(f"{s.x}, {s.z} = {s.train}[{names}].copy(), {s.test}[{names}].copy()", "for c in cats:")
    source.add(f"    means = {s.y}.groupby({s.train}[c]).mean()")
    source.add(f"    {s.x}[c] = {s.train}[c].map(means).fillna({s.y}.mean())")
    source.add(f"    {s.z}[c] = {s.test}[c].map(means).fillna({s.y}.mean())")


_ENCODINGS = {
    "raw": _raw,
    "dummies": _dummies,
    "codes": _codes,
    "ordinal": _ordinal,
    "one-hot": _one_hot,
    "target-mean": _target_mean,
}


def _model(source: SourceWriter, brief: Brief, c: Choices) -> None:
    """The model, in a pipeline with what its columns need."""
    family = c.model.family
    steps = []
    if c.encoding == "one-hot":
        _transformer(source, c)
        steps.append("pre")
    elif c.scaling != "none":
        steps.append(f"{source.sklearn('preprocessing', _SCALERS[c.scaling])}()")
    if c.keep:
        steps.append(_reduction(source, brief, c))
    source.sklearn(family.module, family.name)
    text = c.model.text
    if steps:
        pipeline = source.sklearn("pipeline", "make_pipeline")
        text = f"{pipeline}({', '.join([*steps, text])})"
    source.add(f"{c.style.model} = {text}")


_SCALERS = {"standard": "StandardScaler", "min-max": "MinMaxScaler"}


def _transformer(source: SourceWriter, c: Choices) -> None:
    source.sklearn("compose", "make_column_transformer")
    source.sklearn("preprocessing", "OneHotEncoder")
    dense = ", sparse_output=False" if c.model.family.dense else ""
    encoder = f'(OneHotEncoder(handle_unknown="ignore"{dense}), cats)'
    others = c.numbers is None or c.numbers or c.dates
    if others and c.scaling != "none":
        scaler = source.sklearn("preprocessing", _SCALERS[c.scaling])
        source.add(f"pre = make_column_transformer({encoder}, ({scaler}(), {c.style.columns}))")
    elif others:
        source.add(f'pre = make_column_transformer({encoder}, remainder="passthrough")')
    else:
        source.add(f"pre = make_column_transformer({encoder})")


def _reduction(source: SourceWriter, brief: Brief, c: Choices) -> str:
    if c.writing == "sample":  # a coin that is already thrown
        source.sklearn("decomposition", "PCA")
        return f"PCA(n_components={c.keep}, random_state=0)"
    source.sklearn("feature_selection", "SelectKBest")
    test = source.sklearn("feature_selection", "f_regression" if brief.answer == "number" else "f_classif")
    return f"SelectKBest({test}, k={c.keep})"


def fit(source: SourceWriter, c: Choices, features: str) -> None:
    """Fit, on all rows or on all but a validation part."""
    s = c.style
    if c.validation == "none":
        source.add(f"{s.model}.fit({features}, {s.y})")
        return
    source.sklearn("model_selection", "train_test_split")
    source.add(f"a, b, ya, yb = train_test_split({features}, {s.y}, test_size=0.2, random_state=0)")
    source.add(f"{s.model}.fit(a, ya)", f"print({s.model}.score(b, yb))")
    if c.validation == "refit":
        source.add(f"{s.model}.fit({features}, {s.y})")
