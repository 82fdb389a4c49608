"""One chat completion: the endpoint policy's tests try every trouble; here is what the client promises by itself."""

import json
import threading

import pytest

from rewardrate.chat import Chat, EndpointError, EndpointSettings, GivenUp, Refused
from rewardrate.errors import InputError
from wild_server import PATIENCE, Cut, Huge, Slow, wild

ASK = [{"role": "user", "content": "hello"}]
KEY = "sk-very-secret-123"


@pytest.fixture
def server():
    with wild() as running:
        yield running


def chat(server, **changes):
    quick = {"retries": 2, "first_wait_seconds": 0.01, "timeout_seconds": PATIENCE}
    return Chat(EndpointSettings(server.url, "some-model", **{**quick, **changes}))


@pytest.mark.parametrize(
    "trouble", [408, 429, 500, 503, 507, 520, Cut("never"), Slow("late"), b"<html>", Huge(17 << 20)]
)
def test_trouble_that_may_pass_is_tried_again_and_then_answered(server, trouble):
    server.script = [trouble, "fine"]
    asking = chat(server, timeout_seconds=3.0 if isinstance(trouble, Slow) else PATIENCE)
    found = asking.complete(asking.request(ASK, 3))
    assert (found.text, found.finished) == ("fine", True)
    assert len(server.seen) == 2


def test_a_dead_endpoint_is_one_line_after_its_tries(server):
    server.always = 500
    asking = chat(server)
    with pytest.raises(EndpointError, match=r"127\.0\.0\.1: status 500 \(3 tries\)"):
        asking.complete(asking.request(ASK, 0))


def test_a_prompt_that_is_not_liked_is_refused_at_once(server):
    server.always = 413
    asking = chat(server)
    with pytest.raises(Refused, match="status 413"):
        asking.complete(asking.request(ASK, 0))
    assert len(server.seen) == 1


def test_one_who_waits_gives_up_when_told_to(server):
    server.always, stop = 500, threading.Event()
    stop.set()
    asking = chat(server, first_wait_seconds=60)
    with pytest.raises(GivenUp):
        asking.complete(asking.request(ASK, 0), stop)


def test_the_same_question_is_the_same_request(server):
    asking = chat(server, temperature=None)
    assert asking.request(ASK, 1) == asking.request(ASK, 1) != asking.request(ASK, 2)
    assert "temperature" not in json.loads(asking.request(ASK, 1))


def test_a_key_in_place_of_the_name_of_its_variable_is_refused_and_not_shown(server):
    with pytest.raises(InputError, match="not a key") as refused:
        chat(server, key_variable=KEY)
    assert KEY not in str(refused.value)


def test_an_endpoint_that_repeats_the_key_does_not_get_it_into_a_reply_an_error_or_a_name(server, monkeypatch):
    monkeypatch.setenv("SOME_KEY", KEY)
    asking = chat(server, key_variable="SOME_KEY", retries=0)
    server.script = [f"your key is {KEY}", 400, 401]
    assert asking.complete(asking.request(ASK, 0)).text == "your key is [key]"
    with pytest.raises(Refused) as refused:
        asking.complete(asking.request(ASK, 0))
    with pytest.raises(EndpointError) as failed:
        asking.complete(asking.request(ASK, 0))
    assert server.seen[0][0]["Authorization"] == f"Bearer {KEY}"
    assert KEY not in f"{refused.value} {failed.value} {asking!r} {asking.settings}"
