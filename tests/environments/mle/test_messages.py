import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewardrate.environments.mle.messages import crash, last_failure, no_gain, success


def stderr_of(code, tmp_path):
    (tmp_path / "script.py").write_text(code)
    done = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    return done.stderr, done.returncode


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("x = 1\ny = x / 0\n", "ZeroDivisionError at line 2 (`y = x / 0`): division by zero"),
        ("def f():\n    return {}['a']\n\nf()\n", "KeyError at line 2 (`return {}['a']`): 'a'"),
        ("x = = 2\n", "SyntaxError at line 1 (`x = = 2`): invalid syntax"),
        ("class Odd(Exception):\n    pass\nraise Odd('so')\n", "Odd at line 3 (`raise Odd('so')`): so"),
        ("import json\njson.loads('{')\n", "JSONDecodeError at line 2 (`json.loads('{')`): "),
        ("try:\n    1 / 0\nexcept ZeroDivisionError:\n    int('x')\n", "ValueError at line 4 (`int('x')`): "),
        ("def f():\n    f()\nf()\n", "RecursionError at line 2 (`f()`): "),
        ("import sys\nsys.exit('no data')\n", "exit code 1: no data"),
        ("import os\nos._exit(3)\n", "exit code 3"),
        ("assert 1 == 2\n", "AssertionError at line 1 (`assert 1 == 2`)"),
        ("raise ValueError('a' * 1000)\n", "ValueError at line 1 (`raise ValueError('a' * 1000)`): aaaa"),
    ],
)
def test_the_error_of_a_real_script_is_reported_by_type_line_and_source(code, said, tmp_path):
    stderr, returned = stderr_of(code, tmp_path)
    told = crash(code, stderr, returned)
    assert told.startswith(said)
    assert len(told) < 420
    assert "\n" not in told


def test_a_success_tells_score_and_seconds_or_the_score_alone(task):
    assert success(task, 0.98765432, 1.234) == "score 0.98765 (area under the ROC curve (higher is better)) in 1.23 s"
    assert success(task, 0.98765432, 1.234, "score") == "score 0.98765 (area under the ROC curve (higher is better))"
    assert no_gain(task, 0.5, 0.1).endswith("not better than the sample submission (0.5)")


@given(st.text(max_size=300), st.text(max_size=300))
def test_no_output_of_a_script_breaks_the_message(head, tail):
    for text in (
        head,
        f"Traceback (most recent call last):\n{head}\n{tail}",
        f'  File "script.py", line 99999\n{tail}',
    ):
        told = crash("x = 1\n", text, 1)
        assert "\n" not in told
        assert len(told) < 500
        last_failure(text)


def test_a_line_of_the_script_sends_nothing_to_a_terminal():
    told = crash(
        "x = 1 / 0  # \x1b[2J\x07\u202e\n", 'Traceback (most recent call last):\n  File "script.py", line 1\nE', 1
    )
    assert "x = 1 / 0 # \ufffd[2J" in told
    assert told.isprintable()
