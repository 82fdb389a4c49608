"""Scripts shortened for a prompt: never another program, never over the budget."""

import ast
import re
import sysconfig
import warnings
from pathlib import Path

import pytest
from hypothesis import strategies as st

import gaps
from fuzz import fuzz, sizes
from odd_programs import Programs, compiles
from rewardrate.environments.mle.selection import gap
from rewardrate.environments.mle.shortening import Shortened, shorten
from rewardrate.errors import InputError

WORDS = re.compile(r"\w+|[^\w\s]|\n| {2,}")


def words(text):
    """A tokenizer of the test's own: words, signs, line feeds and runs of spaces."""
    return len(WORDS.findall(text))


def statements(code, bodies=(ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
    """The top-level statements of a program as text, docstrings of these bodies aside."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = ast.parse(code)
    for node in ast.walk(tree):
        if isinstance(node, bodies) and len(node.body) > 1:
            first = node.body[0]
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                del node.body[0]
    return [ast.dump(node) for node in tree.body]


def bare(code):
    """The shortest complete form: what a tokenizer that is content with nothing before it is shown last."""
    seen = [code]
    result = code
    while True:
        short = shorten(result, 1, lambda text: 2 if text in seen else 0)
        if not short.complete or short.code in seen:
            return result
        result = short.code
        seen.append(result)


SCRIPT = '''#!/usr/bin/env python
"""Predict with a forest."""
import numpy as np  # arrays
import pandas as pd

# settings
SEED = 42
params = {"n_estimators": 300, "max_depth": 8}


def features(frame):
    """Columns that are numbers."""
    return frame.select_dtypes("number").fillna(0)


train = pd.read_csv("train.csv")
test = pd.read_csv("test.csv")
print("a # b", train.shape)   
for column in train.columns:
    # look at it
    print(column, train[column].nunique(), train[column].isna().mean(), train[column].dtype)
model = RandomForestClassifier(**params, random_state=SEED)
model.fit(features(train), train["y"])
prediction = model.predict(features(test))
submission = pd.DataFrame({"id": test["id"], "y": prediction})
submission.to_csv("submission.csv", index=False)
'''  # noqa: W291


# ---------------------------------------------------------------- complete


def test_a_script_that_fits_is_not_touched():
    assert shorten(SCRIPT, len(SCRIPT), len) == Shortened(SCRIPT, 0, True)
    assert shorten("not python (\r\n", 99, len) == Shortened("not python (\r\n", 0, True)
    assert shorten("", 5, len) == Shortened("", 0, True)


def test_comments_blank_lines_and_docstrings_go_first():
    short = shorten(SCRIPT, len(SCRIPT) - 1, len)
    assert short.complete
    assert short.dropped_lines == 0
    assert '"""' not in short.code
    assert "settings" not in short.code
    assert "\n\n" not in short.code
    assert 'print("a # b", train.shape)   \n' in short.code
    assert "import numpy as np\n" in short.code


def test_trailing_space_goes_next():
    assert "train.shape)\n" in bare(SCRIPT)
    assert statements(bare(SCRIPT)) == statements(SCRIPT)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("x = 5  # c\n", "x = 5\n"),
        ("x = '#'  # c\n", "x = '#'\n"),
        ('x = """a  \n\n# no\n"""  # c\n', 'x = """a  \n\n# no\n"""\n'),
        ("if True: pass  # x\n", "if True: pass\n"),
        ("x = (1,  # one\n\n     # two\n     2)\n", "x = (1,\n     2)\n"),
        ("x = 1 + \\\n    2   \n\n", "x = 1 + \\\n    2\n"),
        ("x = 1 \\\n# c\ny = 2  # d\n", "x = 1 \\\n# c\ny = 2\n"),
        ("def f():\n    '''only'''\n# c\n", "def f():\n    '''only'''\n"),
        ("def f():\n    '''doc'''  # c\n    return 1\n", "def f():\n    return 1\n"),
        ("def f(): 'doc'; return 1  # c\n", "def f(): 'doc'; return 1\n"),
        ("def f():\n    'a'\n    'b'\n    # c\n", "def f():\n    'a'\n    'b'\n"),
        ("class A:\n    '''doc'''\n    x = 1  # type: int\n", "class A:\n    x = 1\n"),
        ("'''doc'''\nprint(__doc__)  # c\n", "'''doc'''\nprint(__doc__)\n"),
        ("# -*- coding: utf-8 -*-\nx = 1\n", "x = 1\n"),
        ("# c\n# coding: latin-1\nx = 1\n", "# coding: latin-1\nx = 1\n"),
        ("x = f'{1}#'  # c\n", "x = f'{1}#'\n"),
        ("if a:\n\tx = 1 # é\n# c\n\ty = 'é'\n", "if a:\n\tx = 1\n\ty = 'é'\n"),
        ("x = 1  # c\r\ny = 2\r\n", "x = 1\ny = 2\n"),
        ("@f  # c\n# d\nclass A: pass\n", "@f\nclass A: pass\n"),
        ("é = 'ü' 'ö'  # c", "é = 'ü' 'ö'\n"),
        ("'''é'''  # c\nx = 1\n", "x = 1\n"),
        ("x = 1\n\x0c\ny = 2\n# c", "x = 1\ny = 2\n"),
        ("if a:\n    \\\n    x = 1  # c\n", "if a:\n    \\\n    x = 1\n"),
        ("# only\n# comments\n", ""),
    ],
)
def test_only_what_has_no_meaning_is_removed(code, expected):
    short = shorten(code, max(1, len(expected)), len)
    assert short == Shortened(expected, 0, True)


# ---------------------------------------------------------------- with gaps


def check_gaps(code, short):
    gaps.check(bare(code), short.code, short.dropped_lines)


def test_statements_that_matter_most_are_kept_and_gaps_are_shown():
    short = shorten(SCRIPT, 420, len)
    assert not short.complete
    check_gaps(SCRIPT, short)
    for kept in ("import numpy as np", "import pandas as pd", "submission.to_csv", "SEED = 42", "params = ", "Forest"):
        assert kept in short.code
    assert "for column" not in short.code
    assert short.code.splitlines()[4] == "# ... 7 lines left out ..."


@pytest.mark.parametrize("count", [len, words, lambda text: len(text.encode()) // 3 + 1])
def test_every_budget_is_kept_and_more_budget_never_loses_completeness(count):
    complete = False
    for budget in [*range(1, count(SCRIPT), 5), count(SCRIPT)]:
        short = shorten(SCRIPT, budget, count)
        assert count(short.code) <= budget or not short.code
        assert short.complete or not complete
        complete = short.complete
        if short.code and not complete:
            check_gaps(SCRIPT, short)
    assert complete


def test_statements_on_one_line_stay_together_and_decorators_with_their_function():
    code = (
        "import os; x = 1\n@f\ndef g():\n    pass\ny = 2; z = (3,\n 4); w = 5\n" + "print(x, y, 'long long long')\n" * 5
    )
    for budget in range(1, len(code)):
        short = shorten(code, budget, len)
        assert ("@f" in short.code) == ("def g" in short.code)
        assert ("import os" in short.code) == ("x = 1" in short.code)
        assert ("y = 2" in short.code) == ("w = 5" in short.code)


def test_nothing_is_shown_when_nothing_fits():
    assert shorten("value = call()\n" * 9, 5, len) == Shortened("", 9, False)
    assert shorten(SCRIPT, 0, len).code == ""
    assert shorten(SCRIPT, -3, len).complete is False


def test_a_short_statement_is_found_among_long_ones():
    long = [f"call_{'x' * (200 - place)}()\n" for place in range(100)]
    short = shorten("".join([*long, "a()\n", *long]), 65, len)
    assert short.code == "# ... 100 lines left out ...\na()\n# ... 100 lines left out ...\n"


def test_a_script_that_does_not_compile_keeps_its_largest_tail():
    lines = [f"line {place} (" for place in range(50)]
    code = "\n".join(lines)
    for budget in range(1, len(code)):
        short = shorten(code, budget, len)
        fitting = [
            kept
            for kept in range(1, 50)
            if len(f"# ... {50 - kept} lines left out ...\n" + "\n".join(lines[50 - kept :]) + "\n") <= budget
        ]
        assert short.dropped_lines == 50 - max(fitting, default=0)
        assert not short.complete
        assert len(short.code) <= budget


@pytest.mark.parametrize(
    "code", ["x = '\0'\n" * 9, "x = '\ud800'\n" * 9, "(" * 5_000, "x = " + "-" * 50_000 + "1\n", "return 1\n" * 9]
)
def test_hostile_code_does_not_crash(code):
    for budget in (1, 30, 60):
        assert len(shorten(code, budget, len).code) <= budget


def test_the_tokenizer_is_called_rarely():
    code = "".join(f"value_{place} = compute({place}, 'text')\n" for place in range(1000))
    calls = []
    for text in (code, code + "(\n"):
        shorten(text, 6000, lambda part: calls.append(1) or words(part))
    assert len(calls) < 80


def test_bad_arguments_are_named():
    with pytest.raises(InputError, match="code"):
        shorten(b"x", 5, len)
    for budget in (1.5, True, None):
        with pytest.raises(InputError, match="budget"):
            shorten("x", budget, len)


def test_warnings_of_the_script_are_not_ours(capsys):
    assert shorten('x = "\\d"  # c\nif x is 1: pass\n', 28, len).complete
    assert capsys.readouterr() == ("", "")


def test_a_script_that_would_take_long_to_understand_keeps_its_last_lines():
    code = "import csv\n" + "a = b\n" * 9_000 + "print(a)\n"
    short = shorten(code, 100, len)
    assert short.code == gap(short.dropped_lines) + code[-len(short.code) + len(gap(short.dropped_lines)) :]
    assert short.code.endswith("a = b\nprint(a)\n")
    assert not short.complete


def test_what_breaks_in_shortening_costs_the_structure_and_not_the_run():
    def clumsy(text):
        if "pass" in text and "# ..." not in text and text != code:
            raise MemoryError
        return len(text)

    code = "# why\nx = 1\npass\n" + "y = 2\n" * 20
    assert shorten(code, 60, clumsy).code.startswith("# ... ")


# ---------------------------------------------------------------- real files

LIBRARY = Path(sysconfig.get_path("stdlib"))
FILES = [path for path in sorted(LIBRARY.glob("*.py")) if 2_000 < path.stat().st_size < 40_000][::3][:40]


@pytest.mark.parametrize("path", sizes(FILES, every=4), ids=lambda path: path.name)
def test_files_of_the_standard_library_keep_their_meaning(path):
    code = path.read_text(encoding="utf-8")
    full = words(code)
    short = shorten(code, full - 1, words)
    assert short.complete
    assert statements(short.code) == statements(code)
    half = shorten(code, full // 4, words)
    assert words(half.code) <= full // 4
    if not half.complete and half.code:
        check_gaps(code, half)


# ---------------------------------------------------------------- fuzzing


def test_most_programs_of_the_grammar_are_programs():
    assert sum(compiles(Programs(seed).program()) for seed in range(300)) > 200


@fuzz(st.integers(0, 2**40), st.floats(0, 1), examples=1_000, deep=10_000)
def test_any_program_keeps_its_meaning_or_shows_its_gaps(seed, share):
    code = Programs(seed).program()
    budget = int(share * len(code))
    short = shorten(code, budget, len)
    assert len(short.code) <= budget
    assert compiles(short.code) or not compiles(code)
    if short.complete:
        assert not compiles(code) or statements(short.code) == statements(code)
    elif short.code and compiles(code):
        check_gaps(code, short)


@fuzz(
    st.lists(
        st.sampled_from(["x", " ", "\n", "#", "'", '"""', "\\", "(", ")", ":", "    ", "=1", "\r", "if x", "\0", "é"])
    ),
    st.integers(-1, 40),
    examples=1_000,
    deep=10_000,
)
def test_any_text_is_kept_within_the_budget(pieces, budget):
    code = "".join(pieces)
    short = shorten(code, budget, len)
    assert len(short.code) <= max(0, budget)
    if short.complete and compiles(code):
        assert statements(short.code) == statements(code)
