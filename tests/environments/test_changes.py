"""How much of a script a proposal changed."""

import difflib

from hypothesis import given
from hypothesis import strategies as st

from rewardrate.environments.changes import changed_lines

lines = st.lists(st.sampled_from(["a", "b", "c", ""]), max_size=12)


@given(lines, lines)
def test_changed_lines_are_those_of_a_unified_diff_without_context(before, after):
    before, after = [*before, "x"], [*after, "x"]
    diff = list(difflib.unified_diff(before, after, n=0, lineterm=""))[2:]
    expected = sum(line.startswith(("+", "-")) for line in diff)
    assert changed_lines("\n".join(before), "\n".join(after)) == expected


def test_scripts_too_long_to_be_aligned_are_counted_as_bags_of_lines():
    before = "\n".join(f"x{i}" for i in range(4000))
    assert changed_lines(before, before.replace("x17\n", "y\nz\n")) == 3
