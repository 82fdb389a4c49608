from random import Random

from pretraining.corpus.scripted import BY_NAME, drawn
from rewardrate.environments.mle import messages
from rewardrate.pretraining.corpus import outcomes


def test_a_success_is_reported_as_the_environment_tells_it():
    import re

    said = outcomes.success(Random(0), BY_NAME["digits8x8"], drawn("digits8x8", approach="table"))
    assert re.fullmatch(r"score 0\.\d+ \(accuracy \(higher is better\)\) in \d+\.\d\d s", said)


def test_a_crash_is_reported_as_the_environment_tells_it():
    lines = ["import pandas as pd", 'y = train["prices"]']
    code = "\n".join(lines) + "\n"
    stderr = "Traceback (most recent call last):\n  File \"script.py\", line 2, in <module>\nKeyError: 'prices'\n"
    assert outcomes.crash(lines, 1, "KeyError", "'prices'") == messages.crash(code, stderr, 1)


def test_a_better_script_has_a_better_score():
    for task, better in (("digits8x8", max), ("leaf-flavia", min), ("diamonds", min), ("grants", max)):
        low, high = (outcomes.score(BY_NAME[task], worth) for worth in (0.1, 0.9))
        assert better(low, high) == high


def test_a_script_without_a_gain_is_told_so():
    said = outcomes.success(Random(0), BY_NAME["diamonds"], drawn("diamonds", approach="constant", count=5000))
    assert ": not better than the sample submission (" in said or said.startswith("score ")
