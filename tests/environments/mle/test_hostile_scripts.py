"""Random hostile scripts through the whole path: reply, script, verdict, prompt, tokens, record, page."""

import random
import time

import pytest

pytest.importorskip("transformers", reason="needs the agent extra")

from rewardrate.attempt import Parent, Proposal, RateEstimate
from rewardrate.environments.mle.environment import MachineLearning, Settings
from rewardrate.environments.mle.extraction import extract
from rewardrate.policies.models import load_model
from rewardrate.reports import page
from rewardrate.runlog import Origin, RunLog
from rewardrate.sandbox import Pool
from rewardrate.sandbox.result import Result

SECONDS = 10.0  # of one core for one script; the slowest take about one
GOOD = "import csv\nwith open('submission.csv', 'w') as file:\n    csv.writer(file).writerow(['id', 'benign'])\n"
PIECES = (
    lambda r: f"K{r.random()} = 1\n",
    lambda r: f"K = 0x{'f' * r.choice([3_000, 9_000, 60_000])}\n",
    lambda r: f"K = {'9' * r.choice([4_300, 4_301, 20_000])}\n",
    lambda r: f"K = -0b{'1' * 30_000}\n",
    lambda r: f"open('x', 0x{'f' * 9_000})\n",
    lambda r: f"K = [0o{'7' * 9_000}, {'1' * 5_000}j, 1e{'9' * 300}]\n",
    lambda r: "x = " + "(" * (depth := r.choice([50, 199, 3_000])) + "1" + ")" * depth + "\n",
    lambda r: "x = " + "-" * r.choice([90, 900, 9_000]) + "1\n",
    lambda r: "x = " + "+".join("a" * r.choice([100, 3_000])) + "\n",
    lambda r: "x = a" + ".b" * r.choice([90, 990, 9_000]) + "\n",
    lambda r: "".join(" " * depth + "if a:\n" for depth in range(r.choice([5, 90, 120]))) + " " * 130 + "pass\n",
    lambda r: "x = '" + r.choice(["\0", "\ud800", "\udfff", "\u202e", "e" + "\u0301" * 2_000, "\ufeff"]) + "'\n",
    lambda r: r.choice("\f\v\x1c\x85\u2028\u2029") * r.randrange(1, 300) + "x = 1\n",
    lambda r: "x = '" + "ab" * r.choice([5_000, 40_000, 600_000]) + "'\n",
    lambda r: "x = '''" + "```\n" * r.randrange(1, 2_000) + "'''\n",
    lambda r: "# " + "`" * r.choice([3, 50, 30_000]) + "\n",
    lambda r: "# <|end|><|pad|><|im_end|></think><think>\n" * r.randrange(1, 500),
    lambda r: 'x = f\'{f"{1}"}{' + "{" * r.randrange(9) + "'\n",
    lambda r: "a=b;" * r.choice([10, 9_000]) + "\n",
    lambda r: "a = b\n" * r.choice([10, 9_000]),
    lambda r: "def f():\n" + "".join(f"    global g{n}\n    g{n} = 1\n" for n in range(r.choice([3, 2_000]))),
    lambda r: f"if {' + '.join(f'v{n}' for n in range(900))}:\n" + "    a = b\n" * 3_000,
    lambda r: "# -*- coding: " + r.choice(["latin-1", "utf-16", "rot13", "nonsense"]) + " -*-\n",
    lambda r: "x = \\\n" * r.randrange(1, 50) + "1\n",
    lambda r: "".join(chr(r.randrange(0x110000)) for _ in range(r.randrange(1, 400))) + "\n",
)
STDERR = (
    "Traceback (most recent call last):\n" + '  File "script.py", line 999999999, in f\n' * 500 + "E\x00rror: x",
    'Traceback (most recent call last):\n  File "script.py", line 1\n\u2028: ```\n<|end|>\ud800',
    "SyntaxError: " + "x" * 100_000,
    "\n" * 50_000,
    "",
)


def hostile(seed: int) -> str:
    r = random.Random(seed)
    pieces = [r.choice(PIECES)(r) for _ in range(r.randrange(1, 4))]
    return "".join(r.sample([*pieces, GOOD], len(pieces) + 1))


def results(code: str, r: random.Random, submission: bytes):
    """What the sandbox might say about it."""
    yield Result("ok", 0.2, 0.1, 0, "", "", {"submission.csv": submission})
    yield Result("error", 0.2, 0.1, 0, code[-3_000:], r.choice(STDERR), {}, exit_code=r.choice([1, None, -9]))


@pytest.fixture(scope="module")
def tiny():
    return load_model("tiny", device="cpu")


@pytest.fixture(scope="module")
def environments(task, tiny):
    full = MachineLearning(task, Pool(), Settings(prompt_tokens=2560), tiny.count)
    return full, MachineLearning(task, Pool(), Settings(prompt="compact", prompt_tokens=900), tiny.count)


@pytest.mark.parametrize("count", [30, pytest.param(80, marks=pytest.mark.deep)])
def test_any_script_gets_a_verdict_a_prompt_that_fits_and_a_page(environments, tiny, task, tmp_path, count):
    good = (task.public / "sample_submission.csv").read_bytes()
    outcomes = []
    for seed in range(count):
        r, start = random.Random(seed), time.process_time()
        code = hostile(seed)
        found = extract(f"Plan.\n```python\n{code}```\n").code
        for result in results(code, r, good):
            outcome = environments[0].judge(found or code[-100_000:], result)
            outcomes.append(outcome)
            for environment in environments:
                prompt = environment.prompt(Parent(outcome.code, outcome.message))
                used = sum(tiny.count(message["content"]) for message in prompt)
                assert used <= environment.settings.prompt_tokens
                assert 1 not in tiny.encode(prompt), "<|end|> in a script is text"
        assert time.process_time() - start < SECONDS, f"seed {seed}"
    with RunLog.create(tmp_path / "run", "", {"arm": "rpg", "task": "digits8x8", "seed": "0"}) as log:
        for step, batch in enumerate((outcomes[::2], outcomes[1::2]), start=1):
            parents = [place + 1 if step > 1 else None for place in range(len(batch))]
            origins = [Origin(parent=parent) for parent in parents]
            log.begin_step(step, [Proposal(outcome.code) for outcome in batch], origins)
            for place, outcome in enumerate(batch):
                log.outcome(step, place, outcome)
            log.commit_step(step, RateEstimate(1, 1, 1, 1, 1), [0.0] * len(batch), [0.0] * len(batch))
    start = time.process_time()
    assert page.write(tmp_path / "run").stat().st_size > 10_000
    assert time.process_time() - start < 3 * SECONDS


@pytest.mark.parametrize(
    "code",
    [
        "# a comment\nK = 0x" + "f" * 9_000 + "\n" + GOOD,
        "# a comment\nopen('x', 0x" + "f" * 9_000 + ")\n" + GOOD,
        "# a comment\n" + f"K = [0o{'7' * 9_000}]\n" + GOOD,
    ],
)
def test_an_integer_that_python_cannot_write_out_is_a_script_like_any_other(environments, code):
    assert extract(f"```python\n{code}```\n").code == code
    full, _ = environments
    text = full.prompt(Parent(code, "score 0.7"))[-1]["content"]
    assert "csv.writer(file)" in text
