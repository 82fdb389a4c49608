"""The endpoint policy against a real server on loopback that answers, stalls, fails, lies and hangs up."""

import json
import select
import socket
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from rewardrate.errors import InfrastructureError, InputError
from rewardrate.policies.endpoint import EndpointError, EndpointPolicy
from rewardrate.policies.policy import Policy
from rewardrate.runlog.encoding import pack, shown_reply, unpack

PROMPT = [{"role": "user", "content": "hello"}]
KEY = "sk-very-secret-123"


class Server(ThreadingHTTPServer):
    """Answers with whatever `script` says, in order, then politely for ever."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.script, self.seen, self.now, self.most = [], [], 0, 0
        self.guard = threading.Lock()
        self.meeting, self.released = None, threading.Event()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def handle_error(self, request, client_address):
        pass  # clients that left are part of the game


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        server = self.server
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with server.guard:
            server.seen.append((self.path, dict(self.headers), body))
            server.now += 1
            server.most = max(server.most, server.now)
            how = server.script.pop(0) if server.script else "polite"
        self.under_way = True
        if server.meeting is not None:
            server.meeting.wait(timeout=20)
        try:
            self.answer(how, body)
        finally:
            self.leave()

    def leave(self):
        """Count this request no longer: before the client can know that it is answered."""
        with self.server.guard:
            self.server.now -= self.under_way
            self.under_way = False

    def answer(self, how, body):
        if how == "slow":
            time.sleep(0.15)
        if how == "stall":
            select.select([self.connection], [], [], 60)  # until the client has given up
            return
        if how == "hold":
            self.server.released.wait(timeout=60)
            return
        if how == "drip":  # never silent for long, never done
            self.send(200, b"", length=1000)
            for _ in range(1000):
                self.wfile.write(b" ")
                self.wfile.flush()
                time.sleep(0.05)
            return
        if how == "hang up":
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        if how == "half":
            self.send(200, b'{"choices": [', length=500)
            return
        if isinstance(how, int):
            self.send(how, json.dumps({"error": f"no: {self.headers.get('Authorization')}"}).encode())
            return
        if isinstance(how, bytes):
            self.send(200, how)
            return
        text = f"{body['messages'][-1]['content']} / {body['seed']}"
        reason = "length" if how == "cut" else "stop"
        self.send(200, json.dumps({"choices": [{"message": {"content": text}, "finish_reason": reason}]}).encode())

    def send(self, status, content, length=None):
        self.leave()
        self.send_response(status)
        self.send_header("Content-Length", str(length or len(content)))
        if status == 429:
            self.send_header("Retry-After", "0")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def policy(server, **changes):
    return EndpointPolicy(server.url, "some-model", **{"first_wait_seconds": 0.01, "timeout_seconds": 20} | changes)


def test_it_is_a_policy_that_never_learns(server):
    owner = policy(server)
    assert isinstance(owner, Policy)
    assert not owner.trainable
    assert owner.learn(owner.propose([PROMPT], 0), [1.0]) == {}


def test_replies_come_in_the_order_of_the_prompts_however_slow_the_first_is(server):
    server.script = ["slow", "polite", "polite"]
    prompts = [[{"role": "user", "content": text}] for text in ("a", "b", "c")]
    proposals = policy(server, parallel=1).propose(prompts, 40)
    assert [p.text for p in proposals] == ["a / 40", "b / 41", "c / 42"]
    assert all(p.finished and not p.logprobs and not p.reply_tokens and p.seconds > 0 for p in proposals)


def test_the_request_is_a_chat_completion_with_our_settings(server):
    policy(server, temperature=0.3, top_p=0.9, new_tokens=77, token_field="max_completion_tokens").propose([PROMPT], 5)
    path, headers, body = server.seen[0]
    assert path == "/v1/chat/completions"
    assert "Authorization" not in headers
    assert body == {
        "model": "some-model",
        "messages": PROMPT,
        "seed": 5,
        "max_completion_tokens": 77,
        "temperature": 0.3,
        "top_p": 0.9,
    }


def test_no_more_requests_are_under_way_than_allowed(server):
    server.meeting = threading.Barrier(3)  # no request is answered before two others are under way
    policy(server, parallel=3, timeout_seconds=30).propose([PROMPT] * 9, 0)
    assert server.most == 3


def test_a_reply_cut_at_the_limit_is_not_finished_and_an_empty_one_is_empty(server):
    server.script = ["cut"]
    assert not policy(server).propose([PROMPT], 0)[0].finished
    server.script = [b'{"choices": [{"message": {"content": null}, "finish_reason": "content_filter"}]}']
    assert policy(server).propose([PROMPT], 0)[0].text == ""


SILENT = {
    "filtered": ('{"content": null}', "content_filter", 'finish_reason "content_filter"'),
    "refused": ('{"content": null, "refusal": "I must not."}', "stop", 'refusal "I must not."'),
    "tools": ('{"tool_calls": [{"id": "7"}]}', "tool_calls", 'tool_calls [{"id": "7"}]'),
    "thinking": ('{"content": "", "reasoning": "hm"}', "length", 'finish_reason "length"'),
    "blank": ('{"content": " \\n"}', "stop", 'finish_reason "stop"'),
}


@pytest.mark.parametrize(("message", "reason", "words"), SILENT.values(), ids=SILENT)
def test_a_reply_without_text_says_what_the_endpoint_said_and_that_it_is_charged(server, message, reason, words):
    silent = f'{{"choices": [{{"message": {message}, "finish_reason": "{reason}"}}]}}'.encode()
    server.script = ["polite", silent]
    told = policy(server, parallel=1).propose([PROMPT] * 2, 0)[1]
    assert told.text == ""
    assert told.refusal.startswith("the endpoint sent no text: finish_reason")
    assert words in told.refusal
    assert told.refusal.endswith("; charged as an empty reply")
    assert told.finished is (reason != "length")
    assert len(server.seen) == 2, "the model has answered: it is not asked again"
    assert unpack(shown_reply(told), len(told.reply_tokens), told.seconds, pack(told, "proposal")) == told
    assert shown_reply(told) == f"[no reply: {told.refusal}]"


def test_a_key_in_a_refusal_is_not_shown(server, monkeypatch):
    monkeypatch.setenv("SOME_KEY", "sk-secret")
    server.script = [b'{"choices": [{"message": {"refusal": "not for sk-secret"}, "finish_reason": "stop"}]}']
    assert "not for [key]" in policy(server, key_variable="SOME_KEY").propose([PROMPT], 0)[0].refusal


def test_an_endpoint_that_sends_no_text_to_any_prompt_ends_the_run_instead_of_charging_every_attempt(server):
    silent = b'{"choices": [{"message": {"content": null}, "finish_reason": "length"}]}'
    server.script = [silent] * 3
    with pytest.raises(EndpointError, match=r'all 3 prompts were refused: .*finish_reason "length".*new_tokens'):
        policy(server).propose([PROMPT] * 3, 0)


TROUBLE = {
    "429": 429,
    "500": 500,
    "503": 503,
    "hang up": "hang up",
    "stall": "stall",
    "drip": "drip",
    "half": "half",
    "html": b"<html>",
    "list": b"[]",
    "no choice": b'{"choices": []}',
    "number": b'{"choices": [{"message": 3}]}',
    "parts": b'{"choices": [{"message": {"content": [1]}}]}',
    "bytes": b"\xff\xfe",
    "deep": b"[" * 100_000,
    "nothing": b'{"choices": [{"message": {"content": null}}]}',
    "fault": b'{"choices": [{"message": {"content": null}, "finish_reason": "error"}]}',
    "upstream": b'{"choices": [{"message": {"content": ""}, "finish_reason": "stop", "error": {"code": 502}}]}',
}


@pytest.mark.parametrize("trouble", TROUBLE.values(), ids=TROUBLE)
def test_trouble_that_may_pass_is_tried_again(server, trouble):
    server.script = [trouble, trouble]
    patience = 1.0 if trouble in ("stall", "drip", "half") else 20  # short only where running out of it is the point
    owner = policy(server, timeout_seconds=patience, retries=5)
    assert owner.propose([PROMPT], 1)[0].text == "hello / 1"
    assert not server.script
    assert len(server.seen) == 3 or patience < 20, "a busy machine may be too slow for a short patience once more"


def test_trouble_that_does_not_pass_is_one_line_with_its_last_cause(server):
    server.script = [500] * 10
    with pytest.raises(EndpointError, match=r"127\.0\.0\.1: status 500 \(3 tries\)"):
        policy(server, retries=2).propose([PROMPT], 0)
    assert len(server.seen) == 3


@pytest.mark.parametrize(
    ("status", "words"),
    [(401, "is the key right"), (402, "credit"), (403, "key"), (404, "url and model"), (410, "no:")],
)
def test_an_endpoint_that_will_never_answer_is_an_error_of_the_infrastructure_at_once(server, status, words):
    server.script = [status]
    with pytest.raises(InfrastructureError, match=rf"127\.0\.0\.1: status {status}: .*{words}"):
        policy(server).propose([PROMPT], 0)
    assert len(server.seen) == 1


@pytest.mark.parametrize("status", [400, 413, 422, 451])
def test_a_prompt_that_is_refused_is_an_empty_proposal_with_the_refusal_and_the_others_are_answered(server, status):
    server.script = ["polite", status, "polite"]
    proposals = policy(server, parallel=1).propose([PROMPT] * 3, 0)
    assert [proposal.text for proposal in proposals] == ["hello / 0", "", "hello / 2"]
    assert [proposal.refusal for proposal in proposals] == ["", f'status {status}: {{"error": "no: None"}}', ""]
    assert len(server.seen) == 3, "a refusal is not tried again"


def test_one_prompt_alone_may_be_refused_but_when_all_of_several_are_it_is_not_the_prompt(server):
    server.script = [400]
    assert policy(server).propose([PROMPT], 0)[0].refusal
    server.script = [400] * 4
    with pytest.raises(EndpointError, match=r"all 4 prompts were refused: status 400: .*; check the settings"):
        policy(server).propose([PROMPT] * 4, 0)


def test_a_refusal_never_shows_the_key(server, monkeypatch):
    monkeypatch.setenv("SOME_KEY", KEY)
    server.script = [400]
    (proposal,) = policy(server, key_variable="SOME_KEY").propose([PROMPT], 0)
    assert "[key]" in proposal.refusal
    assert KEY not in proposal.refusal


def test_a_server_that_is_not_there_is_one_line():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
        with pytest.raises(EndpointError, match="connection broke"):
            EndpointPolicy(url, "m", retries=1, first_wait_seconds=0.01, timeout_seconds=1).propose([PROMPT], 0)


def test_one_row_that_fails_for_good_does_not_leave_the_others_waiting(server):
    server.script = [404]
    with pytest.raises(EndpointError, match="404"):
        policy(server, parallel=2).propose([PROMPT] * 6, 0)


def test_a_row_that_waits_for_its_next_try_gives_up_when_another_has_failed_for_good(server):
    server.script = [500, 404]
    start = time.monotonic()
    with pytest.raises(EndpointError, match="404"):
        policy(server, parallel=2, first_wait_seconds=60).propose([PROMPT] * 2, 0)
    assert time.monotonic() - start < 20


def test_the_seconds_of_a_reply_are_those_of_the_try_that_was_answered(server):
    server.script, begun = [503, "slow"], time.monotonic()
    (proposal,) = policy(server, first_wait_seconds=1.5, timeout_seconds=30).propose([PROMPT], 0)
    assert 0.15 <= proposal.seconds <= time.monotonic() - begun - 0.75, "without the wait of half its setting or more"


# ---------------------------------------------------------------- kept replies


def test_replies_that_came_before_a_failure_are_not_asked_for_again(server, tmp_path):
    prompts = [[{"role": "user", "content": text}] for text in "abcdef"]
    server.script = ["polite", "polite", 400, 401]
    owner = policy(server, parallel=1)
    owner.keep_replies(tmp_path / "replies.jsonl")
    with pytest.raises(EndpointError, match="401"):
        owner.propose(prompts, 40)
    assert len(server.seen) == 4
    later = policy(server, parallel=1)  # another process
    later.keep_replies(tmp_path / "replies.jsonl")
    proposals = later.propose(prompts, 40)
    assert [proposal.text for proposal in proposals] == ["a / 40", "b / 41", "", "d / 43", "e / 44", "f / 45"]
    assert "status 400" in proposals[2].refusal
    assert [body["seed"] for _, _, body in server.seen] == [40, 41, 42, 43, 43, 44, 45]
    assert later.propose(prompts, 40) == proposals, "until the next step begins, all of them are kept"
    assert len(server.seen) == 7


def test_replies_under_way_when_another_row_fails_are_kept_too(server, tmp_path):
    server.script = ["slow", "slow", 401]
    owner = policy(server, parallel=3)
    owner.keep_replies(tmp_path / "replies.jsonl")
    with pytest.raises(EndpointError, match="401"):
        owner.propose([PROMPT] * 3, 7)
    assert len(server.seen) == 3
    assert len(owner.propose([PROMPT] * 3, 7)) == 3
    assert len(server.seen) == 4


def test_another_step_other_prompts_or_other_settings_are_asked_anew(server, tmp_path):
    for number, (changes, prompt, seed) in enumerate(
        [
            ({}, PROMPT, 1),
            ({}, PROMPT, 2),
            ({}, [{"role": "user", "content": "x"}], 2),
            ({"temperature": 0.1}, PROMPT, 2),
        ]
    ):
        owner = policy(server, **changes)
        owner.keep_replies(tmp_path / "replies.jsonl")
        owner.propose([prompt], seed)
        assert len(server.seen) == number + 1


def test_prompts_that_were_all_refused_are_asked_again(server, tmp_path):
    owner = policy(server)
    owner.keep_replies(tmp_path / "replies.jsonl")
    server.script = [400] * 2
    with pytest.raises(EndpointError, match="all 2 prompts"):
        owner.propose([PROMPT] * 2, 0)
    assert [proposal.text for proposal in owner.propose([PROMPT] * 2, 0)] == ["hello / 0", "hello / 1"]


def test_a_process_that_is_killed_loses_no_reply_that_had_come(server, tmp_path):
    server.script = ["polite"] * 3 + ["hold"]
    path = tmp_path / "replies.jsonl"
    code = (
        "import pathlib, sys\nfrom rewardrate.policies import EndpointPolicy\n"
        f"owner = EndpointPolicy({server.url!r}, 'some-model', parallel=1)\n"
        f"owner.keep_replies(pathlib.Path({str(path)!r}))\nowner.propose([{PROMPT!r}] * 12, 100)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code]) as process:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and (len(server.seen) < 4 or path.read_text().count("\n") < 3):
            time.sleep(0.01)
        process.kill()
    server.released.set()
    came = path.read_text().count("\n")
    assert came == 3
    asked = [body["seed"] for _, _, body in server.seen]
    owner = policy(server, parallel=1)
    owner.keep_replies(path)
    assert [proposal.text for proposal in owner.propose([PROMPT] * 12, 100)] == [
        f"hello / {100 + row}" for row in range(12)
    ]
    again = [body["seed"] for _, _, body in server.seen][len(asked) :]
    assert set(again).isdisjoint(range(100, 100 + came))
    assert len(again) == 12 - came


def test_the_key_is_sent_and_never_shown(server, monkeypatch, tmp_path):
    monkeypatch.setenv("SOME_KEY", KEY)
    owner = policy(server, key_variable="SOME_KEY", retries=0)
    owner.propose([PROMPT], 0)
    assert server.seen[0][1]["Authorization"] == f"Bearer {KEY}"
    server.script = [401]  # this server repeats the key in its error
    with pytest.raises(EndpointError) as caught:
        owner.propose([PROMPT], 0)
    owner.save(tmp_path)
    shown = f"{caught.value} {owner!r} {owner.settings} {(tmp_path / 'policy.json').read_text()}"
    assert KEY not in shown
    assert "[key]" in str(caught.value)


def test_a_key_does_not_travel_over_plain_http_to_another_machine(monkeypatch):
    monkeypatch.setenv("SOME_KEY", KEY)
    with pytest.raises(InputError, match="plain http") as caught:
        EndpointPolicy("http://example.org/v1", "m", "SOME_KEY")
    assert KEY not in str(caught.value)


@pytest.mark.parametrize("value", [None, "", "  ", "two words", "line\nbreak"])
def test_a_key_variable_without_a_usable_key_is_refused(monkeypatch, value):
    monkeypatch.delenv("SOME_KEY", raising=False)
    if value is not None:
        monkeypatch.setenv("SOME_KEY", value)
    with pytest.raises(InputError, match="no usable key"):
        EndpointPolicy("https://example.org/v1", "m", "SOME_KEY")


@pytest.mark.parametrize(
    "url",
    [
        "example.org/v1",
        "ftp://example.org",
        "http://",
        "https://u:pw@example.org",
        "https://a/v1?key=pw",
        "http://a:b/",
    ],
)
def test_a_url_that_is_no_address_or_holds_a_secret_is_refused_without_repeating_it(url):
    with pytest.raises(InputError, match="url") as caught:
        EndpointPolicy(url, "m")
    assert "pw" not in str(caught.value)


def test_settings_are_checked():
    with pytest.raises(InputError, match="parallel"):
        EndpointPolicy("https://example.org/v1", "m", parallel=0)
    with pytest.raises(InputError, match="did you mean 'retries'"):
        EndpointPolicy("https://example.org/v1", "m", retrys=1)


def test_a_checkpoint_of_another_model_is_refused(server, tmp_path):
    policy(server).save(tmp_path)
    policy(server).load(tmp_path)
    with pytest.raises(InputError, match="it was made with 'some-model'"):
        EndpointPolicy(server.url, "other").load(tmp_path)
    (tmp_path / "policy.json").write_text("[]")
    with pytest.raises(InputError, match="cannot be read"):
        policy(server).load(tmp_path)


def test_tokens_are_counted_roughly_and_no_prompts_make_no_requests(server):
    owner = policy(server)
    assert owner.count("import numpy as np") == 2 + 2 + 1 + 1
    assert owner.propose([], 0) == []
    assert not server.seen
