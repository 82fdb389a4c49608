"""What is known of an attempt before it runs."""

import math
import time

from rewardrate.rates.known import FEATURES, known

SCRIPT = "import numpy\nfrom x import y\nmodel = y(n_estimators=600, rate=0.05)\n"


def test_a_texts_length_lines_largest_number_and_imports_come_first_then_its_parents():
    features, state = known(SCRIPT, "x_9 = 1_200")
    assert features[:4] == [math.log1p(len(SCRIPT)), math.log1p(3), math.log1p(600), 2.0]
    assert features[4:] == [math.log1p(11), math.log1p(1), math.log1p(1200), 0.0]
    assert (len(features), state > 0) == (FEATURES, True)


def test_attempts_at_one_solution_are_alternatives_and_first_ones_are_too():
    assert known("a", SCRIPT)[1] == known("b", SCRIPT)[1] != known("a", "other")[1]
    assert known("a", None) == ([*known("a", "")[0][:4], 0.0, 0.0, 0.0, 0.0], 0)
    assert known("a", "")[1] != 0


def test_any_text_has_finite_features_in_time_that_grows_with_its_length():
    start = time.process_time()
    for text in (
        "",
        "\ud800\x00",
        "9" * 300_000,
        "1e999 " * 50_000,
        "1." * 150_000,
        " \n" * 150_000,
        "import " * 50_000,
    ):
        features, state = known(text, text)
        assert all(map(math.isfinite, features))
        assert 0 < state < 2**33
    assert time.process_time() - start < 20  # quadratic: minutes
