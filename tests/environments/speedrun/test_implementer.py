"""Both implementers; the one that asks a model, against a real server on loopback that misbehaves."""

import pytest

from rewardrate.environments.speedrun import race
from rewardrate.environments.speedrun.hardware import Hardware
from rewardrate.environments.speedrun.implementer import DirectImplementer, EndpointImplementer, ImplementerSettings
from wild_server import PATIENCE, SHORT, Cut, Huge, Slow, wild

RACE = race.load("nanogpt-mini")
MACHINE = Hardware("a processor", 2)
PARENT = 'lr = 0.1\nprint(f"step:1/1 val_loss:{lr:.4f} train_time:1ms")\n'
SPEC = "DIAGNOSIS\nslow\nCHANGE\nDouble lr.\nRISK\nnone"
KEY = "sk-very-secret-123"


def block(before, after):
    return f"<<<<<<< SEARCH\n{before}\n=======\n{after}\n>>>>>>> REPLACE"


GOOD = block("lr = 0.1", "lr = 0.2")


@pytest.fixture
def server():
    with wild(GOOD) as running:
        yield running


def asking(server, **changes):
    quick = {"retries": 1, "first_wait_seconds": 0.01, "timeout_seconds": PATIENCE, "parallel": 1}
    return EndpointImplementer(RACE, ImplementerSettings(server.url, "coder", **{**quick, **changes}), MACHINE)


def one(implementer, reply=SPEC):
    (made,) = implementer.implement([reply], [PARENT])
    return made


def test_direct_edits_are_applied_and_every_refusal_is_the_policy_s_own():
    direct = DirectImplementer()
    made = one(direct, f"DIAGNOSIS\nx\nCHANGE\nDo it.\n{GOOD}\nRISK\ny")
    assert made.code == PARENT.replace("0.1", "0.2")
    assert (made.fault, made.changed_lines) == ("", 2)
    assert (one(direct, "hello").fault, one(direct, "hello").reason) == ("format", "NO_SPEC")
    assert (one(direct, SPEC).fault, one(direct, SPEC).reason) == ("edit", "no-block")
    cheat = f"CHANGE\n{block('val_loss:{lr:.4f}', 'val_loss:{0:.4f}')}"
    assert (one(direct, cheat).fault, one(direct, cheat).reason) == ("edit", "validation-touched")


def test_the_model_is_asked_as_the_paper_says(server):
    made = one(asking(server))
    assert (made.code, made.asked) == (PARENT.replace("0.1", "0.2"), 1)
    (_, body) = server.seen[0]
    assert (body["temperature"], body["max_tokens"], body["model"]) == (0.0, 16_384, "coder")
    system, user = (message["content"] for message in body["messages"])
    assert "SEARCH" in system
    assert "Double lr." in user
    assert PARENT.rstrip() in user


def test_a_refused_edit_is_fed_back_and_tried_again_at_most_three_times(server):
    server.script = [block("lr = 0.7", "lr = 0.2"), "no edits at all", GOOD]
    made = one(asking(server))
    assert (made.asked, made.fault) == (3, "")
    told = [body["messages"][-1]["content"] for _, body in server.seen]
    assert "does not occur" in told[1]
    assert "no SEARCH/REPLACE block" in told[2]
    assert [len(body["messages"]) for _, body in server.seen] == [2, 4, 4]


OUTCOMES = {
    "no such thing": ("NO_SPEC", "format", "NO_SPEC"),
    "wrong edits": (block("nothing like it", "b"), "sandbox-failure", "no-match"),
    "empty": ("", "sandbox-failure", "no-block"),
    "broken python": (block("lr = 0.1", "lr = ("), "sandbox-failure", "syntax"),
    "touches validation": (block("val_loss:{lr:.4f}", "val_loss:{1:.4f}"), "edit", "validation-touched"),
    "slow": (Slow(GOOD), "sandbox-failure", "endpoint"),
    "busy": (429, "sandbox-failure", "endpoint"),
    "broken": (500, "sandbox-failure", "endpoint"),
    "malformed": (b'{"choices": [', "sandbox-failure", "endpoint"),
    "no completion": (b"[]", "sandbox-failure", "endpoint"),
    "huge": (Huge(17 << 20), "sandbox-failure", "endpoint"),
    "cut": (Cut(GOOD), "sandbox-failure", "endpoint"),
    "wrong key": (401, "sandbox-failure", "endpoint"),
    "prompt too long": (413, "sandbox-failure", "prompt-refused"),
    "enormous edit": (block("lr = 0.1", "x = 1\n" * 100_000), "sandbox-failure", "too-long"),
}


@pytest.mark.parametrize(("how", "fault", "reason"), OUTCOMES.values(), ids=OUTCOMES)
def test_an_endpoint_that_keeps_misbehaving_has_its_documented_outcome(server, monkeypatch, how, fault, reason):
    monkeypatch.setenv("SOME_KEY", KEY)
    server.always = how
    patience = SHORT if isinstance(how, Slow) else PATIENCE
    made = one(asking(server, key_variable="SOME_KEY", timeout_seconds=patience))
    assert (made.fault, made.reason, made.code) == (fault, reason, "")
    assert made.message
    assert KEY not in repr(made), "no key in any record"


@pytest.mark.parametrize("how", [Slow(GOOD), 429, 500, b"<html>", Cut(GOOD)], ids=["slow", "429", "500", "html", "cut"])
def test_trouble_that_passes_costs_nothing(server, how):
    server.script = [how]
    patience = 3.0 if isinstance(how, Slow) else PATIENCE
    assert one(asking(server, timeout_seconds=patience)).code == PARENT.replace("0.1", "0.2")


def test_one_bad_row_loses_none_of_the_others(server):
    server.script = [GOOD, *[block("nothing like it", "b")] * 3, GOOD]
    made = asking(server).implement([SPEC, SPEC, "no spec here", SPEC], [PARENT] * 4)
    assert [row.fault for row in made] == ["", "sandbox-failure", "format", ""]
    assert asking(server).implement([], []) == []


def test_a_dead_endpoint_costs_its_back_off_once_and_not_for_every_row(server):
    server.always = 500
    made = asking(server, retries=2).implement([SPEC] * 5, [PARENT] * 5)
    assert {row.reason for row in made} == {"endpoint"}
    assert len(server.seen) == 3 + 4
