"""Which statements of a script are shown when not all of them fit, inside functions and other blocks too."""

import ast
import contextlib
import sys
import sysconfig
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gaps
from fuzz import fuzz
from odd_programs import Programs, compiles
from rewardrate.environments.mle import selection
from rewardrate.environments.mle.selection import gap, most, select

SCRIPT = """import numpy as np
import pandas as pd
import lightgbm as lgb
from sklearn.model_selection import StratifiedKFold
def add_features(frame):
    frame = frame.copy()
    frame["ratio"] = frame["a"] / (frame["b"] + 1e-6)
    frame["log_a"] = np.log1p(frame["a"].clip(lower=0))
    for column in ("c", "d", "e"):
        counts = frame[column].value_counts()
        frame[column + "_count"] = frame[column].map(counts)
    print("the table has these rows and columns now", frame.shape)
    return frame
def main():
    train = pd.read_csv("data/train.csv")
    test = pd.read_csv("data/test.csv")
    print("rows of the two tables", train.shape, test.shape)
    print(train.describe(include="all").transpose())
    plt.figure(figsize=(8, 4))
    plt.hist(train["y"], bins=30, color="black", alpha=0.5)
    plt.savefig("histogram-of-the-target.png")
    train = add_features(train)
    test = add_features(test)
    seed = 42
    params = {"objective": "binary", "learning_rate": 0.05, "num_leaves": 63, "verbose": -1}
    columns = [column for column in train.columns if column not in ("id", "y", "when")]
    X, y = train[columns], train["y"]
    prediction = np.zeros(len(test))
    folds = StratifiedKFold(n_splits=5, shuffle=True, random_state=seed)
    for number, (fit, check) in enumerate(folds.split(X, y)):
        print("this is fold number", number, "of the five folds")
        model = lgb.LGBMClassifier(**params, n_estimators=500, random_state=seed)
        model.fit(X.iloc[fit], y.iloc[fit])
        prediction += model.predict_proba(test[columns])[:, 1] / 5
        if number == 0:
            importance = pd.Series(model.feature_importances_, index=columns)
            print("most important columns", importance.sort_values().tail(20))
        else:
            print("the columns were printed after the first fold")
    submission = pd.DataFrame({"id": test["id"], "y": prediction})
    submission.to_csv("submission.csv", index=False)
    print("everything is done, the submission is written")
if __name__ == "__main__":
    main()
"""


def shortened(code, size):
    """At most so many characters of it."""
    shown, dropped = select(code, lambda text: len(text) <= size)
    assert len(shown) <= size
    if shown:
        gaps.check(code, shown, dropped)
    return shown


# ---------------------------------------------------------------- what matters


@pytest.mark.parametrize("share", [0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9])
def test_of_a_script_that_is_one_function_the_statements_that_matter_are_kept(share):
    shown = shortened(SCRIPT, int(share * len(SCRIPT)))
    wanted = [
        (0.2, "import pandas as pd"),
        (0.2, "def main():"),
        (0.2, 'submission.to_csv("submission.csv", index=False)'),
        (0.3, 'submission = pd.DataFrame({"id"'),
        (0.4, "lgb.LGBMClassifier(**params"),
        (0.4, "model.fit("),
        (0.5, "model.predict_proba("),
        (0.5, 'params = {"objective"'),
        (0.6, "X, y = train[columns]"),
        (0.7, "columns = [column for"),
        (0.7, 'test = pd.read_csv("data/test.csv")'),
        (0.8, 'frame["ratio"] ='),
        (0.8, "return frame"),
    ]
    missing = [words for least, words in wanted if share >= least and words not in shown]
    assert not missing
    assert share > 0.7 or "plt." not in shown


def test_more_room_never_loses_an_import_or_the_writing():
    sizes = range(400, len(SCRIPT), 20)
    for size in sizes:
        shown = shortened(SCRIPT, size)
        assert shown.count("import ") == 4
        assert "to_csv" in shown


def test_what_is_kept_uses_most_of_the_room():
    for size in range(300, len(SCRIPT), 50):
        assert len(shortened(SCRIPT, size)) > 0.75 * size


def test_what_the_model_takes_its_values_from_comes_before_what_it_does_not():
    code = "".join(f"unused_{place} = compute_something_else({place}, 'words')\n" for place in range(20))
    code += "table = read_the_table('data/train.csv', 'words')\n"
    code += "".join(f"other_{place} = compute_something_else({place}, 'words')\n" for place in range(20))
    code += "model = Forest(300).fit(table)\nmodel.predict(table).to_csv('submission.csv')\n"
    assert "read_the_table" in shortened(code, 260)


def test_code_that_only_speaks_is_not_taken_for_the_end():
    code = "value = compute(1)\n" * 20 + "table.to_csv('f')\n" + "print('the end of a long script')\n" * 5
    shown = shortened(code, 120)
    assert "to_csv" in shown
    assert "print" not in shown


# ---------------------------------------------------------------- the form of what is kept


def long(indent=""):
    """Statements that are worth less than what a test wants to see, and longer than a gap."""
    return "".join(f"{indent}value_{place} = compute_a_long_expression({place})\n" for place in range(9))


SHAPES = {
    "function": f"def f(x):\n{long('    ')}    x.to_csv('f')\n",
    "decorated": f"@a\n@b(\n  1)\ndef f(\n    x,\n):\n{long('    ')}    x.to_csv('f')\n",
    "tabs": f"def f(x):\n{long(chr(9))}\tx.to_csv('f')\n",
    "class": f"class A:\n    size = 1\n    def f(self):\n{long('        ')}        x.to_csv('f')\n",
    "async": f"async def f(x):\n    async with x as y:\n{long('        ')}        y.to_csv('f')\n",
    "branches": f"if a:\n{long(' ')}elif b:\n{long(' ')} x.to_csv('f')\nelif c:\n d\nelse:\n{long(' ')}",
    "else if": f"if a:\n{long(' ')}else:\n if b:\n{long('  ')}  x.to_csv('f')\n",
    "loop": f"for a in b:\n{long(' ')}else:\n{long(' ')} x.to_csv('f')\n",
    "while": f"while a:\n{long(' ')} x.to_csv('f')\n break\n",
    "try": f"try:\n{long(' ')}except A as b:\n{long(' ')} x.to_csv('f')\nexcept B:\n c\nfinally:\n{long(' ')}",
    "try and else": f"try:\n{long(' ')}except:\n a\nelse:\n{long(' ')} x.to_csv('f')\nfinally:\n b\n",
    "match": f"match a:\n case 1:\n{long('  ')} case [b, *c] if d:\n{long('  ')}  x.to_csv('f')\n case _:\n  pass\n",
    "strings": f'def f(x):\n    y = """\n# not a comment\n"""\n{long("    ")}    x.to_csv("""\n    f""")\n',
    "semicolons": f"def f(x):\n{long('    ')}    a = 1; x.to_csv('f'); b = (\n  2)\n",
    "backslash": f"def f(x):\n{long('    ')}    a = 1; \\\n    x.to_csv('f')\n",
    "accents": f"def é(ü):\n{long('    ')}    ü.to_csv('é')\n",
}


@pytest.mark.parametrize("name", SHAPES)
def test_a_block_is_opened_and_still_compiles(name):
    code = SHAPES[name] + long()
    shown = shortened(code, 470)
    assert "to_csv" in shown
    assert "lines left out" in shown


@pytest.mark.parametrize("name", SHAPES)
def test_every_size_of_every_shape_compiles(name):
    code = long() + SHAPES[name] + long()
    for size in range(10, len(code), 23):
        shortened(code, size)


def test_a_branch_of_which_nothing_is_kept_is_pass():
    shown = shortened(f"if a:\n x.to_csv('f')\nelse:\n{long(' ')}", 80)
    assert shown == "if a:\n x.to_csv('f')\nelse:\n pass  # ... 9 lines left out ...\n"


def test_a_gap_is_never_longer_than_what_it_stands_for():
    code = "import a\nb = 1\nc = 2\n" + long() + "x.to_csv('f')\n"
    shown = shortened(code, 120)
    assert shown.startswith("import a\nb = 1\nc = 2\n")
    assert "# ... 1 lines" not in shown


def test_a_small_block_is_kept_or_left_out_as_a_whole():
    code = "for a in b:\n    first_of_two(a)\n    second_of_two(a)\n" + long() + "x.to_csv('f')\n"
    for size in range(20, len(code), 7):
        shown = shortened(code, size)
        assert ("first_of_two" in shown) == ("second_of_two" in shown)


def test_declarations_stay_with_their_function():
    code = f"count = 0\ndef f(x):\n    global count\n{long('    ')}    count += 1\n    x.to_csv('f')\n" + long()
    for size in range(100, len(code), 11):
        shown = shortened(code, size)
        assert "global count" in shown or "to_csv" not in shown


def test_a_part_that_does_not_compile_without_another_is_not_taken_apart():
    """Without `total`, the function inside has nothing to declare nonlocal."""
    body = "".join(f"        value_{place} = compute_a_long_expression({place})\n" for place in range(9))
    code = f"def f():\n    total = compute_a_long_expression('total')\n    def g():\n        nonlocal total\n{body}"
    code += "        total.to_csv('f')\n    return g\n" + "short(1)\n" * 9
    for size in range(30, len(code), 13):
        shortened(code, size)


def test_text_that_is_no_program_or_fits_nowhere_gives_nothing():
    assert select("x = (\n", lambda text: True) == ("", 1)
    assert select("x = 1\ny = 2\n", lambda text: False) == ("", 2)


def test_a_gap_counts_its_lines():
    assert gap(3) == "# ... 3 lines left out ...\n"
    assert gap(1, "\t") == "\t# ... 1 lines left out ...\n"


@given(st.integers(0, 300), st.integers(-5, 300))
def test_the_most_that_fits_is_found(limit, largest):
    asked = []
    assert most(limit, lambda size: asked.append(size) or size <= largest) == max(0, min(limit, largest))
    assert len(asked) <= 20


# ---------------------------------------------------------------- real files, odd ones, hostile ones

LIBRARY = Path(sysconfig.get_path("stdlib"))
FILES = [path for path in sorted(LIBRARY.glob("*.py")) if 2_000 < path.stat().st_size < 40_000][1::6]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_files_of_the_standard_library_with_gaps_are_parts_of_themselves(path):
    code = path.read_text(encoding="utf-8").rstrip("\n") + "\n"
    for share in (0.05, 0.2, 0.5, 0.8):
        assert shortened(code, int(share * len(code)))


@fuzz(st.integers(0, 2**40), st.floats(0, 1), st.integers(1, 4), examples=500, deep=10_000)
def test_any_program_is_taken_apart_without_breaking(seed, share, smallest):
    code = Programs(seed).program().replace("\r\n", "\n")
    code = code if code.endswith("\n") else code + "\n"
    if not compiles(code):
        return
    before, selection.SMALL_BLOCK = selection.SMALL_BLOCK, smallest
    try:
        shortened(code, min(int(share * len(code)), len(code) - 1))
    finally:
        selection.SMALL_BLOCK = before


HOSTILE = {
    "deep": "".join(" " * depth + "if a:\n" for depth in range(95)) + " " * 95 + "b\n" * 1 + "c()\n" * 5_000,
    "deep and long": "".join(" " * at + "def f():\n" for at in range(60)) + (" " * 60 + "a = b\n") * 1_200,
    "branches": "if a: pass\n" + "elif a:\n pass\n" * 900,
    "chain": "".join(f"a{place} = a{place - 1} + 1\n" for place in range(6_000)) + "a5999.to_csv('f')\n",
    "same name": "a = a + b\n" * 8_000 + "a.to_csv('f')\n",
    "one line": "a = [" + "b, " * 30_000 + "]\n" + "c()\n",
}


@contextlib.contextmanager
def untraced():
    """Without the tracer that coverage puts in."""
    tracer = sys.gettrace()
    sys.settrace(None)
    try:
        yield
    finally:
        sys.settrace(tracer)


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_scripts_are_shortened_within_seconds(name):
    code = HOSTILE[name]
    assert isinstance(ast.parse(code), ast.Module)
    for size in (len(code) // 2, 200):
        with untraced():  # tracing for coverage makes it four times as slow, and is not what is timed
            start = time.process_time()
            shown, _ = select(code, lambda text, size=size: len(text) <= size)
            seconds = time.process_time() - start
        assert seconds < 5.0
        assert len(shown) <= size
        compile(shown, "<test>", "exec")
