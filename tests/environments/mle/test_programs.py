"""Whether a text is a program: as Python says, but never at the price that Python may ask."""

import ast
import sysconfig
import time
import warnings
from pathlib import Path

import pytest

from rewardrate.environments.mle import programs
from rewardrate.environments.mle.programs import compiler_steps, does_something, parsed, quiet, weighed

SECONDS = 3.0  # a half of one on a quiet core; tests are traced, and cores may be shared
LIBRARY = Path(sysconfig.get_path("stdlib"))
FILES = [path for path in sorted(LIBRARY.glob("*.py")) if path.stat().st_size <= programs.LONGEST_SCRIPT][::3]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_files_of_the_standard_library_are_programs_of_few_steps(path):
    code = path.read_text(encoding="utf-8")
    tree, steps = weighed(code, programs.MOST_STEPS)
    assert isinstance(tree, ast.Module)
    assert ast.dump(tree) == ast.dump(ast.parse(code))
    assert steps <= max(1, len(code))


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("x = (", "line 1: "),
        ("x = 1\nprint 'x'\n", "line 2: "),
        ("return 1", "line 1: 'return' outside function"),
        ("for x in y:\n  def f(): break", "line 2: 'break' outside loop"),
        ("x = 1\nfrom __future__ import annotations", "line 2: from __future__"),
        ("def f(a, a): pass", "duplicate argument"),
        ("x = '\0'", "nul"),
        ("x = '\ud800'", "not valid text"),
        ("(" * 500 + ")" * 500, "nested"),
        ("x = " + "-" * 90_000 + "1", "nested too deeply"),
        ("x" * 100_001, "it has 100001 characters, more than 100000"),
    ],
)
def test_what_does_not_compile_is_reported_in_a_few_words(code, why):
    found = parsed(code)
    assert isinstance(found, str)
    assert why.lower() in found.lower()
    assert "\n" not in found
    assert len(found) < 200


def test_warnings_of_the_source_are_not_ours(capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert isinstance(parsed('x = "\\d"\nif x is 1: pass\nassert (x, "always")\n'), ast.Module)
        with quiet():
            warnings.warn("unheard", stacklevel=1)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    "text", ["", "x", "x, y", "1", "'text'", "pass", "label: value", "raise x", "del x", "assert x"]
)
def test_text_that_compiles_by_chance_does_nothing(text):
    assert not does_something(ast.parse(text))


@pytest.mark.parametrize(
    "text", ["x = 1", "f()", "x: int = 1", "import x", "def f(): pass", "if x: y", "(x := 1)", "assert f()"]
)
def test_a_statement_that_acts_does_something(text):
    assert does_something(ast.parse(text))


# ---------------------------------------------------------------- what compiling costs


def nested_finally(deep):
    return "".join(" " * at + "try: a\n" + " " * at + "finally:\n" for at in range(deep)) + " " * deep + "a\n"


def exits(count):
    return "def f():\n try:\n" + "  if x: return\n" * count + " finally:\n" + "  a()\n" * count


def names(count, end=""):
    return ",".join(f"a{place}{end}" for place in range(count))


def alternatives(count):
    order = names(count).split(",")
    return f"match x:\n case [{','.join(order)}] | [{','.join(order[1::2] + order[::2])}]: 0\n"


GROWING = {  # kind -> the program of a size, a size that is nothing, and one that Python takes long over
    "nested finally": (nested_finally, 4, 19),
    "exits through finally": (exits, 20, 2_000),
    "names captured in another order": (alternatives, 20, 500),
    "captured names": (lambda size: f"match x:\n case [{names(size)}]: 0\n", 20, 5_000),
    "names through functions": (lambda size: f"lambda {names(1000)}:{'lambda:' * size}({names(1000)})\n", 3, 200),
    "equal functions": (lambda size: "def f(): 0\n" * size, 50, 8_000),
    "equal classes": (lambda size: "class A: 0\n" * size, 50, 8_000),
    "equal comprehensions": (lambda size: "[a for a in b]\n" * size, 50, 6_000),
    "keywords": (lambda size: f"f({names(size, '=1')})\n", 50, 9_000),
}


@pytest.mark.parametrize("kind", GROWING)
def test_a_program_that_is_cheap_to_compile_is_read_and_a_costly_one_is_refused(kind):
    make, small, large = GROWING[kind]
    assert isinstance(parsed(make(small)), ast.Module)
    assert len(make(large)) <= programs.LONGEST_SCRIPT
    start = time.process_time()
    assert parsed(make(large)) == "it would take too long to compile"
    assert time.process_time() - start < SECONDS


@pytest.mark.parametrize("kind", GROWING)
def test_the_costliest_program_that_is_read_compiles_in_little_time(kind):
    make, low, high = GROWING[kind]
    while high - low > 1 + low // 50:
        middle = (low + high) // 2
        low, high = (middle, high) if compiler_steps(ast.parse(make(middle))) <= programs.MOST_STEPS else (low, middle)
    start = time.process_time()
    assert isinstance(parsed(make(low)), ast.Module)
    assert time.process_time() - start < SECONDS


def test_steps_are_one_a_node_where_nothing_is_repeated():
    assert compiler_steps(ast.parse("")) == 1
    assert compiler_steps(ast.parse("x = y")) == 1 + 1 + 2
    assert compiler_steps(ast.parse("f(1)")) == 1 + 1 + 1 + 2
    assert compiler_steps(ast.parse("a = b\n" * 1_000)) == 1 + 3 * 1_000


def test_fewer_steps_may_be_allowed_and_those_taken_are_reported():
    tree, steps = weighed("x = y\n", 10)
    assert isinstance(tree, ast.Module)
    assert steps == 4
    assert weighed("x = y\n", 3) == ("it would take too long to compile", 0)


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("x = f'" + "{x}" * 30_000 + "'\n", "f-strings are too long"),
        ("x = rF'''" + "{x}\n" * 24_000 + "'''\n", "f-strings are too long"),
        ("a" + "\u0301\u0316" * 40_000 + " = 1\n", "too many accents"),
        ("# a" + "\u0301" * 101 + "\n", "too many accents"),
    ],
)
def test_text_that_python_would_take_long_to_read_is_refused(code, why):
    start = time.process_time()
    assert why in parsed(code)
    assert time.process_time() - start < SECONDS


@pytest.mark.parametrize(
    "code",
    [
        "x = {" + "'{': 1, " * 12_000 + "}\n",
        "x = f'" + "{x}" * 5_000 + "'\n",
        "# Привет, 世界 " * 5_000 + "\n",
        "e\u0301 = 'e\u0301\u0316'\n",
        "print(f'{x}')\n" * 3_000,
    ],
)
def test_ordinary_text_of_the_same_kinds_is_read(code):
    assert isinstance(parsed(code), ast.Module)
