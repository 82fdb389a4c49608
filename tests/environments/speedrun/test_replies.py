"""Replies that were paid for, against a real server on loopback: none is asked for twice, none is made up."""

import json
import threading

import pytest

from rewardrate.chat import Chat, EndpointError, EndpointSettings
from rewardrate.environments.speedrun.replies import PaidReplies
from wild_server import wild

KEY = "sk-very-secret-123"


@pytest.fixture
def server():
    with wild(lambda body: f"reply to {body['messages'][0]['content']}, {body['seed']}") as running:
        yield running


@pytest.fixture
def chat(server, monkeypatch):
    monkeypatch.setenv("SOME_KEY", KEY)
    return Chat(EndpointSettings(server.url, "m", "SOME_KEY", retries=0, first_wait_seconds=0.01))


def asked(replies, chat, words, seed=1, **more):
    return replies.ask(chat, chat.request([{"role": "user", "content": words}], seed), threading.Event(), **more)


def test_the_next_process_finds_what_was_paid_for_and_asks_for_the_rest(server, chat, tmp_path):
    path = tmp_path / "paid.jsonl"
    first = PaidReplies(path)
    kept = [asked(first, chat, "a"), asked(first, chat, "b"), asked(first, chat, "a", seed=2)]
    again = PaidReplies(path)
    assert [asked(again, chat, "a"), asked(again, chat, "b"), asked(again, chat, "a", seed=2)] == kept
    assert len(server.seen) == 3
    assert asked(again, chat, "c") == "reply to c, 1"
    assert len(server.seen) == 4
    assert KEY not in path.read_text()


def test_a_run_that_is_never_killed_asks_as_if_there_were_no_file(server, chat, tmp_path):
    replies = PaidReplies(tmp_path / "paid.jsonl")
    asked(replies, chat, "a"), asked(replies, chat, "a")
    assert len(server.seen) == 2
    again = PaidReplies(tmp_path / "paid.jsonl")
    asked(again, chat, "a"), asked(again, chat, "a")
    assert len(server.seen) == 2, "both replies to the same request were kept"
    asked(again, chat, "a")
    assert len(server.seen) == 3


def test_other_settings_are_another_request(server, chat, tmp_path, monkeypatch):
    asked(PaidReplies(tmp_path / "paid.jsonl"), chat, "a")
    for change in ({"model": "n"}, {"temperature": 0.1}, {"new_tokens": 7}):
        other = Chat(EndpointSettings(**{"url": server.url, "model": "m", "key_variable": "SOME_KEY"} | change))
        asked(PaidReplies(tmp_path / "paid.jsonl"), other, "a")
    assert len(server.seen) == 4


@pytest.mark.parametrize(
    "damage", [b"", b"{", b"\xff\xfe", b"[]\n3\nnull\n", b'{"request": 1, "text": 2}', b"[" * 100_000]
)
def test_a_broken_file_is_passed_over_and_what_comes_after_it_is_kept(server, chat, tmp_path, damage):
    path = tmp_path / "paid.jsonl"
    path.write_bytes(damage)
    assert asked(PaidReplies(path), chat, "a") == "reply to a, 1"
    assert asked(PaidReplies(path), chat, "a") == "reply to a, 1"
    assert len(server.seen) == 1


def test_a_line_that_the_end_of_the_process_cut_is_asked_for_again(server, chat, tmp_path):
    path = tmp_path / "paid.jsonl"
    asked(PaidReplies(path), chat, "a")
    whole = path.read_bytes()
    for end in range(len(whole)):
        path.write_bytes(whole[:end])
        again = PaidReplies(path)
        before = len(server.seen)
        assert asked(again, chat, "a") == "reply to a, 1"
        assert len(server.seen) - before == (0 if end == len(whole) - 1 else 1)
        assert json.loads(path.read_text().splitlines()[-1])["text"] == "reply to a, 1"


def test_replies_that_are_of_no_use_are_asked_for_again(server, chat, tmp_path):
    path = tmp_path / "paid.jsonl"
    asked(PaidReplies(path), chat, "a", usable=lambda text: False)
    server.always = 500
    with pytest.raises(EndpointError, match="status 500"):
        asked(PaidReplies(path), chat, "a")
    assert len(server.seen) == 2


def test_nothing_is_kept_once_the_step_is_on_record(server, chat, tmp_path):
    path = tmp_path / "paid.jsonl"
    asked(PaidReplies(path), chat, "a")
    again = PaidReplies(path)
    again.end(again.begin())
    assert not path.exists()
    asked(again, chat, "a")
    assert len(server.seen) == 2
    nowhere = PaidReplies()
    assert asked(nowhere, chat, "a") == "reply to a, 1"
    nowhere.end(nowhere.begin())


def test_an_attempt_that_ends_takes_none_of_the_replies_of_those_that_are_under_way(server, chat, tmp_path):
    """Chains that do not wait: something is always under way, and the file holds what that may need, no more."""
    path = tmp_path / "paid.jsonl"
    replies = PaidReplies(path)
    first = replies.begin()
    asked(replies, chat, "a")
    second = replies.begin()
    asked(replies, chat, "b")
    asked(replies, chat, "c")
    replies.end(first)
    assert len([line for line in path.read_text().split("\n") if line]) == 2, (
        "the first one's reply is on record, those of the second are not"
    )
    again = PaidReplies(path)
    taken, other = again.begin(), again.begin()
    asked(again, chat, "b")
    again.end(other)
    last = PaidReplies(path)
    assert [asked(last, chat, words) for words in ("b", "c")] == ["reply to b, 1", "reply to c, 1"]
    assert len(server.seen) == 3, "nothing was paid for twice"
    again.end(taken)
    replies.end(second)
    assert not path.exists()
