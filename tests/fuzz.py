"""Property tests in two sizes: a small one in `make test`, a large one, marked `deep`, in `make test-deep`."""

import pytest
from hypothesis import given, settings


def sizes(values, *, every):
    """Values of a parameter: one of so many always, the others in `make test-deep`."""
    marks = [() if place % every == 0 else pytest.mark.deep for place in range(len(values))]
    rows = [value if isinstance(value, tuple) else (value,) for value in values]
    return [pytest.param(*row, marks=mark) for row, mark in zip(rows, marks, strict=True)]


def fuzz(*strategies, examples, deep):
    """Like hypothesis.given, with so many examples. Both sizes start with the same ones, as the seed is fixed.

    Coverage is not measured of them: it doubles their time, and a line must have a test that says what it does.
    """

    def decorate(claim):
        def test(many):
            settings(max_examples=many, deadline=None)(given(*strategies)(claim))()

        test.__name__, test.__doc__, test.__module__ = claim.__name__, claim.__doc__, claim.__module__
        few, many = pytest.param(examples, marks=pytest.mark.slow), pytest.param(deep, marks=pytest.mark.deep)
        return pytest.mark.no_cover(pytest.mark.parametrize("many", [few, many])(test))

    return decorate
