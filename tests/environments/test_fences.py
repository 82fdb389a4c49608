import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewardrate.environments.fences import fence, fenced, unfenced


@given(st.text(alphabet="`~ab \n", max_size=60))
def test_no_line_of_the_code_closes_its_block(code):
    first, *inside, last = fenced(code).split("\n")
    assert first == f"{last}python"
    assert set(last) == {"`"}
    assert not any(line.strip().startswith(last) for line in inside)


@pytest.mark.parametrize(("code", "marks"), [("x = 1", 3), ("a = '``'", 3), ("```", 4), ('"""\n`````\n"""', 6)])
def test_ordinary_code_has_three_backticks_and_other_code_one_more_than_it_has(code, marks):
    assert fence(code) == "`" * marks


def test_text_loses_its_fences():
    assert unfenced("a ``` b ~~~ c") == "a ''' b --- c"
