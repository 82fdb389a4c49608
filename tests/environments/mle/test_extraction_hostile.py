"""Replies that no model should write: long, deep, odd, random. Each is answered at once, and in one line."""

import ast
import random
import sys
import time
import warnings

import pytest
from hypothesis import strategies as st

from fuzz import fuzz
from rewardrate.environments.mle.extraction import extract

SCRIPT = """import pandas as pd

train = pd.read_csv("train.csv")
submission = pd.DataFrame({"id": train["id"], "EAP": 0.5})
submission.to_csv("submission.csv", index=False)
"""
SECONDS = 5.0  # the longest takes 1.2 s on a quiet core; without our limits it would be minutes


def fenced(code, tag="python", marks="```"):
    return f"{marks}{tag}\n{code}{marks}\n"


HOSTILE = {
    "backticks": "`" * 1_000_000,
    "fences": "```\n" * 250_000,
    "tildes": "~~~\n" * 250_000,
    "openings": "```python\n" * 100_000,
    "prose": "word and " * 1_100_000,
    "script": "```python\n" + "x = 1\n" * 1_700_000 + "```\n",
    "strings": '```python\nx="""\n' + '```\n"""+"""\n' * 80_000,
    "broken strings": "```python\nx = '''\n```\n" + '"""\n```\n' * 80_000,
    "parentheses": "```python\n" + "(" * 45_000 + ")" * 45_000 + "\n```",
    "signs": "```python\nx = " + "-" * 90_000 + "1\n```",
    "sums": "```python\nx = " + "+".join(["1"] * 45_000) + "\n```",
    "attributes": "```python\nx = a" + ".a" * 45_000 + "\n```",
    "calls": "```python\nx = a" + "()" * 45_000 + "\n```",
    "branches": "```python\nif a: pass\n" + "elif a: pass\n" * 5_000 + "```",
    "NUL": "```python\nx = '\0'\n```",
    "surrogate": "```python\nx = '\ud800'\n```",
    "digits": "```python\nx = " + "9" * 10_000 + "\n```",
    "spaces": " " * 1_000_000 + "```",
    "list marks": "- " * 500_000,
    "thoughts": "<think>" * 150_000,
    "outside a function": "```python\nreturn 1\n```",
}


def filled(unit, size=99_000):
    return unit * (size // len(unit))


def numbered(code, count):
    """So many blocks that differ in a number."""
    return "".join(fenced(code.replace("NUMBER", str(place)) + "\n") for place in range(count))


def stairs(line, deep):
    """A line at every depth of indentation."""
    return "".join(" " * depth + line + "\n" for depth in range(deep))


def nested_finally(deep):
    return "".join(" " * at + "try: a\n" + " " * at + "finally:\n" for at in range(deep)) + " " * deep + "aNUMBER"


NAMES = [f"a{place}" for place in range(5_000)]
MANY = ",".join(NAMES)
SLOW = {  # what Python, or a careless reader, takes seconds or minutes for
    "f-strings inside f-strings": fenced(filled("x = f'''{f\"{f'{1}'}\"}'''\n", 300_000)),
    "one f-string": fenced("x = f'" + filled("{x}") + "'\n"),
    "one f-string of many lines": fenced('x = f"""' + filled("{x}\n") + '"""\n'),
    "f-strings as long as allowed": numbered("x = f'" + "{x}" * 8_000 + "NUMBER'", 12),
    "nested finally": fenced(nested_finally(20) + "\n"),
    "many nested finally": numbered(nested_finally(14), 300),
    "exits through finally": fenced(
        "def f():\n try:\n" + "  if x: return\n" * 3_000 + " finally:\n" + "  a()\n" * 3_000
    ),
    "equal functions": fenced("def f(): 0\n" * 9_000),
    "equal classes": fenced("class A: 0\n" * 9_000),
    "names through functions": fenced(f"lambda {MANY}: " + "lambda: " * 300 + f"({MANY})\n"),
    "functions inside functions": fenced("lambda: " * 12_000 + "0\n"),
    "a large body deep inside": fenced("x = " + "lambda: " * 150 + "[" + filled("a,", 90_000) + "]\n"),
    "comprehensions inside comprehensions": fenced(
        "x = " + "[" * 60 + filled("a,", 50_000) + "a" + " for a in b]" * 60 + "\n"
    ),
    "classes inside classes": fenced(stairs("class A:", 90) + filled(" " * 90 + "a = b\n", 90_000)),
    "accents": fenced("a" + "\u0301\u0316" * 40_000 + " = 1\n"),
    "captured names": fenced(f"match x:\n case [{MANY}]: 0\n"),
    "alternatives": fenced(
        f"match x:\n case [{','.join(NAMES[:900])}] | [{','.join(NAMES[1:900:2] + NAMES[:900:2])}]: 0\n"
    ),
    "keywords": fenced("f(" + ",".join(f"{name}=1" for name in NAMES) + ")\n"),
    "comparisons": numbered("x = " + filled("a<") + "aNUMBER", 3),
    "calls with arguments": numbered(filled("f(a,b=1);") + "aNUMBER", 3),
    "errors at the end": numbered(filled("f(a,b=1);") + "aNUMBER b", 3),
    "indented errors": "".join(f"  ```python\n{filled('  a=b;', 90_000)}a{place} b\n  ```\n" for place in range(9)),
    "sketches that miss names": numbered(f"open('f', 'w').write(str([nNUMBER, {MANY[:1000]}]))", 200),
    "small blocks": numbered("aNUMBER()", 30_000),
    "thoughts": "<think>a</think>" * 600_000,
    "thoughts and fences": "<think>\n```python\n</think>\n" * 100_000,
    "markdown": "```md\n" * 500_000,
    "line feeds": "\n" * 10_000_000,
    "carriage returns": "\r" * 10_000_000,
    "unterminated strings": "```python\nx = '''\n```\n" * 50_000,
    "fences in strings": "```python\nx = '''\n" + "```\n'''\ny = '''\n" * 8_000,
}


def answered(reply):
    """What is extracted, after at most so much time."""
    counting = sys.gettrace()
    sys.settrace(None)  # counting lines for coverage takes longer than the work that is timed
    try:
        start = time.process_time()
        found = extract(reply)
        taken = time.process_time() - start
    finally:
        sys.settrace(counting)
    assert taken < SECONDS
    assert (found.code is None) == bool(found.problem)
    assert "\n" not in found.problem
    assert len(found.problem) < 400
    return found


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_replies_give_a_problem_in_one_line(name):
    assert answered(HOSTILE[name]).code is None


@pytest.mark.parametrize("name", SLOW)
def test_replies_that_python_would_take_long_over_are_answered_at_once(name):
    answered(SLOW[name])


def test_the_last_half_million_characters_of_a_reply_are_read():
    assert answered(fenced(SCRIPT) + "word " * 90_000).code == SCRIPT
    assert answered(fenced(SCRIPT) + "word " * 110_000).code is None


def test_a_script_of_a_hundred_thousand_characters_is_read_and_a_longer_one_is_not():
    line = 'table.to_csv("submission.csv")  # text text text\n'
    script = line * (99_900 // len(line))
    assert answered("A plan.\n" + fenced(script)).code == script
    found = answered("A plan.\n" + fenced(script + line * 20))
    assert found.code is None
    assert "more than 100000" in found.problem


def test_of_more_code_than_is_read_the_scripts_before_stand():
    extra = "".join(fenced(f"x = {place}\n" * 5_000) for place in range(10))
    assert answered(fenced(SCRIPT) + extra).code == SCRIPT
    found = answered(extra)
    assert found.code is None
    assert "more than 200000 characters of code" in found.problem


def test_a_script_after_ten_megabytes_of_prose_is_found():
    assert extract(HOSTILE["prose"] + "\n" + fenced(SCRIPT)).code == SCRIPT


def test_many_blocks_are_weighed_from_the_end():
    assert extract("```\na = f(1)\n```\n" * 5_000 + fenced(SCRIPT)).code == SCRIPT


def test_warnings_of_the_script_are_not_ours(capsys):
    code = 'x = "\\d"\nif x is 1: pass\nassert (x, "always")\n'
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert extract(fenced(code)).code == code
    assert capsys.readouterr() == ("", "")


# ---------------------------------------------------------------- fuzzing

PIECES = [
    *[
        "```",
        "~~~",
        "````",
        "```python\n",
        "```py\n",
        "\n```\n",
        "\n",
        "\n\n",
        "  ",
        "\t",
        "- ",
        "1. ",
        "   ```\n",
        "\r\n",
        "\r",
    ],
    *[
        "<think>",
        "</think>",
        "Assistant:",
        "prose ",
        "`x`",
        "id,EAP\n",
        "pip install x\n",
        "```bash\n",
        "~~~csv\n",
        "{python}",
    ],
    *[
        "x = 1\n",
        "print(x)\n",
        "import os\n",
        "def f():\n    return x\n",
        "x",
        "(",
        '"""',
        "'''",
        "'",
        "#",
        "\\\n",
        "\0",
        "\ud800",
    ],
    *[
        "to_csv",
        "y.to_csv('s')\n",
        "y = x\n",
        "    ",
        "é",
        "\u2028",
        "\x0c",
        "\ufeff",
        "f()\n",
        ":",
        "lambda: x\n",
        "class A: pass\n",
    ],
]

PARTS = (
    "x = 1\n",
    "print(x)\n",
    "y = x\ny.to_csv('s')\n",
    "def f():\n    return x\n",
    "f()\n",
    "id,EAP\n",
    "x = (\n",
    's = """\n```\n"""\n',
)
PIECES += [f"\n{fenced(part, tag)}" for part in PARTS for tag in ("python", "", "text")]


def flat(text):
    return [line.strip() for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n")]


@fuzz(st.lists(st.sampled_from(PIECES), max_size=25), st.text(max_size=10), examples=1_000, deep=10_000)
def test_any_reply_gives_code_that_is_part_of_it_and_compiles_or_one_problem(pieces, noise):
    reply = "".join(pieces) + noise
    found = extract(reply)
    assert (found.code is None) == bool(found.problem)
    if found.code is None:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compile(found.code, "<test>", "exec")
    assert found.code.endswith("\n")
    rest = iter(flat(reply))  # every line of the code stands in the reply, in this order
    for line in flat(found.code):
        assert not line or any(other.startswith(line) or other.endswith(line) for other in rest)


STATEMENTS = [
    *[
        "x = 1\n",
        "print('# no comment')  # comment\n",
        "s = '''a\n  b\n'''\n",
        "def f(a):\n\treturn a\n",
        "\n",
        "# héllo\n",
    ],
    *[
        "@f\ndef g():\n    '''doc'''\n",
        "t = (1,\n  2)\n",
        "u = 1 + \\\n    2\n",
        "x = 1; y = 2\n",
        "if True: pass  # x\n",
        "z = f'{x}'\n",
    ],
    *[
        'd = """\n```\ncode\n```\n"""\n',
        "async def h():\n    await x\n",
        "match x:\n    case 1: pass\n",
        "v = '~~~'\n",
        "   \n",
    ],
]
PROSE = st.lists(
    st.sampled_from(
        [
            "I will",
            "use `x`",
            "a model.",
            "id,EAP",
            "\n",
            "\n\n",
            "# Plan",
            "- one",
            "2. two",
            "<b>",
            "Assistant:",
            "é",
            "*",
        ]
    ),
    max_size=8,
).map(" ".join)


@fuzz(
    st.integers(0, 2**32),
    *(PROSE, PROSE),
    st.sampled_from(["```", "~~~", "`````"]),
    st.sampled_from(["python", "py", ""]),
    examples=1_000,
    deep=10_000,
)
def test_a_fenced_script_in_any_prose_comes_back_exactly(seed, before, after, marks, tag):
    draw = random.Random(seed)
    code = "print(0)\n" + "".join(draw.choices(STATEMENTS, k=draw.randrange(6)))
    indent = draw.choice(["", "", "   ", "\t"])
    if indent:
        code = code.replace("\n\n", "\n").replace("   \n", "")
    body = "".join(indent + line for line in fenced(code, tag, marks).splitlines(True))
    ending = draw.choice(["\n", "\r\n"])
    found = extract((before + "\n" + body + after).replace("\n", ending))
    assert found.code == code
    assert found.plan == before.strip()
    ast.parse(found.code)
