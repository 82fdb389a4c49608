"""Replies on disk: every one that was added comes back, whatever happened to the file's end."""

import json
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rewardrate.attempt import Proposal
from rewardrate.policies.replies import KeptReplies

texts = st.text(st.characters(exclude_categories=[]), max_size=40)


def opened(path, seed=5):
    kept = KeptReplies(path)
    kept.begin(seed)
    return kept


@settings(max_examples=30)
@given(st.lists(st.tuples(texts, st.booleans(), st.floats(0, 1e6), texts), max_size=6))
def test_what_was_added_comes_back_bit_for_bit(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("kept") / "replies.jsonl"
    kept = opened(path)
    proposals = [Proposal(text, finished=done, seconds=time, refusal=why) for text, done, time, why in rows]
    for number, proposal in enumerate(proposals):
        kept.add(f"request {number}", proposal)
        assert kept.find(f"request {number}") == proposal
    again = opened(path)
    assert [again.find(f"request {number}") for number in range(len(rows))] == proposals
    assert again.find("another") is None


def test_a_line_that_was_cut_at_any_place_is_no_reply_and_what_follows_is_kept(tmp_path):
    path = tmp_path / "replies.jsonl"
    kept = opened(path)
    kept.add("a", Proposal("first"))
    whole = len(path.read_bytes())
    kept.add("b", Proposal("second"))
    content = path.read_bytes()
    for end in range(whole, len(content) - 1):
        path.write_bytes(content[:end])
        later = opened(path)
        assert later.find("a") == Proposal("first")
        assert later.find("b") is None
        later.add("c", Proposal("third"))
        last = opened(path)
        assert (last.find("a"), last.find("c")) == (Proposal("first"), Proposal("third"))


@pytest.mark.parametrize(
    "junk", ["", "\n", "[]\n", "null\n", '{"seed": 5}\n', "\0" * 50, "[" * 100_000, '{"seed": "5"}\n']
)
def test_lines_that_are_no_replies_are_dropped(tmp_path, junk):
    path = tmp_path / "replies.jsonl"
    opened(path).add("a", Proposal("first"))
    path.write_text(junk + path.read_text())
    kept = opened(path)
    kept.add("b", Proposal("second"))
    again = opened(path)
    assert again.find("b") == Proposal("second")
    assert again.find("a") == (Proposal("first") if junk.endswith("\n") or not junk else None)


def test_the_next_step_drops_what_is_on_record_by_then(tmp_path):
    path = tmp_path / "replies.jsonl"
    kept = opened(path, seed=5)
    kept.add("a", Proposal("first"))
    kept.begin(6)
    assert kept.find("a") is None
    assert path.read_text() == ""
    kept.add("b", Proposal("second"))
    assert opened(path, seed=6).find("b") == Proposal("second")
    assert opened(path, seed=5).find("b") is None


def test_a_reply_is_on_disk_before_add_returns(tmp_path):
    path = tmp_path / "replies.jsonl"
    kept = opened(path)
    kept.add("a", Proposal("first", seconds=1.5))
    (line,) = path.read_text().splitlines()
    assert json.loads(line)["text"] == "first"


def test_replies_from_many_threads_do_not_mix(tmp_path):
    kept = opened(tmp_path / "replies.jsonl")
    rows = {f"request {number}": Proposal("x" * 5_000 + str(number)) for number in range(40)}
    threads = [threading.Thread(target=kept.add, args=row) for row in rows.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    again = opened(tmp_path / "replies.jsonl")
    assert {request: again.find(request) for request in rows} == rows


def test_nothing_is_kept_after_clearing(tmp_path):
    path = tmp_path / "replies.jsonl"
    kept = opened(path)
    kept.add("a", Proposal("first"))
    kept.clear()
    kept.clear()
    assert kept.find("a") is None
    assert not path.exists()
