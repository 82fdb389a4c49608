from hypothesis import given
from hypothesis import strategies as st

from rewardrate.attempt import Outcome, Proposal
from rewardrate.training import record

tokens = st.lists(st.integers(0, 2**31 - 1), max_size=20).map(tuple)


@given(st.text(max_size=50), tokens, tokens, st.lists(st.floats(-50, 0), max_size=20).map(tuple), st.booleans())
def test_a_proposal_comes_back_bit_for_bit(text, prompt, reply, logprobs, finished):
    proposal = Proposal(text, prompt, reply, logprobs, finished, 1.25)
    assert record.proposal(record.row(3, proposal, 7)) == proposal


@given(st.text(min_size=1, max_size=50))
def test_a_refused_prompt_is_an_empty_proposal_and_the_record_says_why(why):
    proposal = Proposal("", finished=True, seconds=0.5, refusal=why)
    kept = record.row(0, proposal, None)
    assert kept.reply == f"[no reply: {why}]"
    assert record.proposal(kept) == proposal


def test_a_child_of_a_seed_has_no_parent_number_and_names_its_seed():
    kept = record.row(0, Proposal("a"), None, "old")
    assert (kept.parent, kept.prompt) == (None, "[seed: old]")
    assert record.row(0, Proposal("a"), 4).prompt == ""


def test_an_outcome_comes_back_as_it_was():
    outcome = Outcome(True, 0.5, 0.9, 1.5, "fine", "ok", "x = 1\n", clock="cpu", trains=None, output="out")
    assert record.outcome(record.outcome_row(outcome)) == outcome
