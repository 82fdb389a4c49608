"""Replies of all kinds, and how much of a specification is in them."""

import contextlib
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewardrate.environments.speedrun.specification import CHARACTERS, NoSpecification, Specification, read
from rewardrate.errors import InputError

PLAIN = "DIAGNOSIS\nslow\n\nCHANGE\n1. do this\n\nRISK\nnone\n"


def test_three_sections_are_read_and_written_again():
    found = read(PLAIN)
    assert found == Specification("slow", "1. do this", "none")
    assert read(found.text()) == found


@pytest.mark.parametrize(
    "heading", ["CHANGE", "## CHANGE", "**CHANGE**", "Change:", "2. CHANGE", "### **Change:**", "> CHANGE", "`CHANGE`"]
)
def test_a_heading_may_be_dressed_up(heading):
    assert read(f"DIAGNOSIS\nx\n{heading}\ndo this\nRISK\ny").change == "do this"


def test_thoughts_and_words_before_the_first_heading_are_dropped():
    reply = f"<think>DIAGNOSIS\nno\nCHANGE\nno</think>Sure! Here it is.\n{PLAIN}"
    assert read(reply) == read(PLAIN)


def test_a_word_inside_an_edit_block_is_no_heading():
    block = "<<<<<<< SEARCH\nRISK\n=======\nCHANGE\nDIAGNOSIS\n>>>>>>> REPLACE"
    found = read(f"DIAGNOSIS\nx\nCHANGE\n{block}\nRISK\nreal")
    assert found.change == block
    assert found.risk == "real"


def test_of_a_section_that_is_written_twice_the_first_counts():
    assert read(PLAIN + "CHANGE\nsomething else\n").change == "1. do this"


def test_the_change_alone_is_a_specification_and_indentation_is_kept():
    assert read("CHANGE\n    x = 1\n    y = 2\n").change == "    x = 1\n    y = 2"


NOTHING = {
    "empty": ("", "empty"),
    "blank": (" \n\t\n", "empty"),
    "no spec": ("  NO_SPEC\n", "NO_SPEC"),
    "prose": ("I would make it faster.", "no CHANGE"),
    "cut before the change": ("DIAGNOSIS\nit is slow because", "no CHANGE"),
    "nothing in it": ("DIAGNOSIS\nx\nCHANGE\n\nRISK\ny", "CHANGE section is empty"),
    "in a sentence": ("The CHANGE would be large", "no CHANGE"),
    "only a thought": ("<think>CHANGE\ndo</think>", "empty"),
    "too long": ("CHANGE\n" + "x" * CHARACTERS, "characters"),
}


@pytest.mark.parametrize(("reply", "words"), NOTHING.values(), ids=NOTHING)
def test_a_reply_without_a_change_is_no_specification_and_says_why(reply, words):
    with pytest.raises(NoSpecification, match=words):
        read(reply)


HOSTILE = {
    "headings": "CHANGE\n" * 25_000,
    "marks": "#" * CHARACTERS,
    "one line": "CHANGE" * 30_000,
    "opened blocks": "CHANGE\n" + "<<<<<<< SEARCH\n" * 12_000,
    "angles": "<" * 100_000 + "\n" + ">" * 90_000,
    "thoughts": "</think>" * 24_000,
    "odd lines": "CHANGE\nx\x00\x1b\ud800\u2028\x85\n" * 8_000,
    "carriage returns": "CHANGE\r\n" * 20_000,
}


@pytest.mark.parametrize("reply", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_reply_is_read_or_refused_in_good_time(reply):
    start = time.process_time()
    with contextlib.suppress(NoSpecification):
        assert read(reply).change
    assert time.process_time() - start < 2


@given(st.text(alphabet="CHANGERISKDO\n<=> #*", max_size=300))
def test_whatever_is_read_has_a_change(text):
    with contextlib.suppress(NoSpecification):
        assert read(text).change.strip()


def test_what_is_no_text_is_a_mistake_of_the_caller():
    with pytest.raises(InputError, match="reply"):
        read(None)
