"""The contract finds every broken promise, and lets a small honest environment pass."""

import math
import threading
import time

import pytest

from rewardrate.attempt import SANDBOX_FAILURE, Outcome
from rewardrate.environments import Environment, EnvironmentSettings, KnownSolution, RunSetup
from rewardrate.environments import contract as suite
from rewardrate.environments.contract import CHECKS, Subject, subject
from rewardrate.rates.contract import ContractBroken

FACTS = {"metric": "number", "direction": "maximize"}


class Honest(Environment):
    """A reply is a number, and the reward."""

    limit_seconds = 5.0

    def prompt(self, parent=None):
        words = "a number" if parent is None else f"more than {parent.code}"
        return [{"role": "user", "content": words}]

    def stream(self, replies, parents=None):
        for index in reversed(range(len(replies))):
            yield index, self.outcome(replies[index])

    def outcome(self, reply):
        if not reply.isdecimal():
            return Outcome(False, 0.0, None, 0.1, "no number", "format", "")
        return Outcome(True, float(reply), float(reply), 0.2, "good", "ok", reply)


class Setup(RunSetup):
    def facts(self):
        return FACTS

    def example_replies(self):
        return ["4"]

    def environment(self, executor, count):
        return Honest()


def make_setup():
    return Setup()


def make_honest():
    return Honest()


class Settings(EnvironmentSettings):
    kind = "numbers"

    def setup(self, task, clock):
        return Setup()


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("replies", [["4", "5"], []])
def test_an_honest_environment_keeps_every_promise(check, replies):
    assert isinstance(check(Subject(Honest, replies, FACTS)), str)


@pytest.mark.parametrize(
    ("found", "replies", "facts"),
    [
        (Settings, ["4"], FACTS),
        (Settings(), ["4"], FACTS),
        (Setup(), ["4"], FACTS),
        (make_setup, ["4"], FACTS),
        (lambda: (Setup(), ["5", "6"]), ["5", "6"], FACTS),
        (lambda: (Honest(), ["7"]), ["7"], None),
        (Honest(), [], None),
        (make_honest, [], None),
    ],
)
def test_a_module_may_offer_settings_a_setup_an_environment_or_a_function(found, replies, facts):
    made = subject(found, None)
    assert (list(made.replies), made.facts) == (replies, facts)
    assert isinstance(made.make(), Honest)


@pytest.mark.parametrize("found", [lambda: 5, dict, "x", lambda: (None, [])])
def test_anything_else_is_refused(found):
    with pytest.raises(TypeError, match="is no Environment"):
        subject(found, None)


def changed(**parts):
    """The honest environment with other outcomes for valid replies, or other methods."""

    def outcome(self, reply):
        found = Honest.outcome(self, reply)
        return Outcome(**{**found.__dict__, **(parts if found.valid else {})})

    return type("Changed", (Honest,), {"outcome": outcome})


def failing(**parts):
    def outcome(self, reply):
        found = Honest.outcome(self, reply)
        return Outcome(**{**found.__dict__, **({} if found.valid else parts)})

    return type("Failing", (Honest,), {"outcome": outcome})


def method(name, function):
    return type("Other", (Honest,), {name: function})


def chat(*messages):
    return method("prompt", lambda self, parent=None: list(messages))


def raising(self, reply):
    if "\0" in reply:
        raise ValueError("a NUL")
    return Honest.outcome(self, reply)


def skipping(self, replies, parents=None):
    yield from [(index, self.outcome(reply)) for index, reply in enumerate(replies)][1:]


def twice(self, replies, parents=None):
    for index, reply in enumerate(replies):
        yield index, self.outcome(reply)
        yield index, self.outcome(reply)


def shifted(self, replies, parents=None):
    for index, reply in enumerate(replies):
        yield (index + 1) % len(replies), self.outcome(reply)


def remembering(self, replies, parents=None):
    for index, reply in enumerate(replies):
        known = self.__dict__.setdefault("known", {})
        yield index, known.setdefault(reply, self.outcome(reply))


def leaving(self, replies, parents=None):
    if len(replies) == 4:
        threading.Thread(target=time.sleep, args=(3.0,), name="left-over", daemon=True).start()
    yield from Honest.stream(self, replies)


def without_parents(self, replies, parents=None):
    assert parents is None or all(parents)
    yield from Honest.stream(self, replies)


def known(*names, valid=True):
    one = Honest().outcome("4" if valid else "x")
    return method("known_solutions", lambda self, folder: [KnownSolution(name, one) for name in names])


BROKEN = [
    ("the_limit_is_positive_and_finite", method("limit_seconds", 0.0)),
    ("the_limit_is_positive_and_finite", method("limit_seconds", math.inf)),
    ("prompts_are_chats", chat()),
    ("prompts_are_chats", chat({"role": "user"})),
    ("prompts_are_chats", chat({"role": "robot", "content": "x"})),
    ("prompts_are_chats", chat({"role": "system", "content": "x"})),
    ("prompts_are_chats", chat({"role": "user", "content": b"x"})),
    ("prompts_are_chats", chat({"role": "user", "content": ""})),
    ("prompts_are_chats", method("prompt", lambda self, parent=None: "a number")),
    ("every_index_comes_once", method("stream", skipping)),
    ("every_index_comes_once", method("stream", twice)),
    ("outcomes_stand_in_the_order_of_the_replies", method("stream", shifted)),
    ("valid_replies_are_valid", method("outcome", lambda self, reply: Honest.outcome(self, "x"))),
    ("valid_replies_are_valid", changed(code="")),
    ("odd_replies_are_outcomes", failing(status="strange")),
    ("odd_replies_are_outcomes", failing(status=SANDBOX_FAILURE)),
    ("odd_replies_are_outcomes", method("stream", lambda self, replies, parents=None: enumerate(replies))),
    ("failures_earn_nothing_and_say_why", failing(reward=-1.0)),
    ("failures_earn_nothing_and_say_why", failing(message=" ")),
    ("failures_earn_nothing_and_say_why", failing(status="ok")),
    ("numbers_are_finite", changed(reward=math.nan)),
    ("numbers_are_finite", changed(score=math.inf)),
    ("numbers_are_finite", changed(rank_key=math.inf)),
    ("seconds_are_between_floor_and_limit", failing(seconds=0.05)),
    ("seconds_are_between_floor_and_limit", changed(seconds=99.0)),
    ("a_reply_twice_is_two_attempts", method("stream", remembering)),
    ("other_rewards_are_finite", method("extra_reward", lambda self, outcome, priced: math.nan)),
    ("other_rewards_are_finite", method("ranking_reward", lambda self, outcome, priced: -math.inf)),
    ("other_rewards_are_finite", method("vanilla_reward", lambda self, outcome: math.nan)),
    ("known_solutions_are_valid", known("a", "a")),
    ("known_solutions_are_valid", known("")),
    ("known_solutions_are_valid", known("a", valid=False)),
    ("the_final_evaluation_is_an_outcome", method("final_evaluation", lambda self, code: 1.0)),
    ("stopping_early_leaves_nothing_running", method("stream", leaving)),
]


@pytest.mark.parametrize(("name", "make"), BROKEN, ids=lambda value: value if isinstance(value, str) else "")
def test_a_broken_promise_is_found(name, make, monkeypatch):
    monkeypatch.setattr(suite, "SETTLE_SECONDS", 0.2)
    with pytest.raises(ContractBroken):
        getattr(suite, name)(Subject(make, ["4"], FACTS))


def test_an_exception_reaches_whoever_checks():
    with pytest.raises(ValueError, match="a NUL"):
        suite.odd_replies_are_outcomes(Subject(method("outcome", raising)))
    with pytest.raises(AssertionError):
        suite.parents_may_be_given(Subject(method("stream", without_parents)))


@pytest.mark.parametrize(
    "facts", [{}, {"metric": "x"}, {"metric": "x", "direction": "up"}, FACTS | {"steps": 3}, FACTS | {"metric": ""}]
)
def test_facts_must_name_metric_and_direction(facts):
    with pytest.raises(ContractBroken):
        suite.facts_name_the_metric(Subject(Honest, [], facts))
