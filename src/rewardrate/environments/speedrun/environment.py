"""The race as an environment: a reply is implemented on its parent, judged, run by the referee, rewarded."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Literal

from rewardrate.attempt import SANDBOX_FAILURE, Message, Outcome, Parent, collect
from rewardrate.config import AtLeast
from rewardrate.environments.environment import (
    Environment,
    EnvironmentSettings,
    KnownSolution,
    Outcomes,
    RunSetup,
    unrun,
)
from rewardrate.environments.speedrun import data, hardware, prompts, seeds
from rewardrate.environments.speedrun.implementer import (
    DirectImplementer,
    EndpointImplementer,
    Implemented,
    Implementer,
    ImplementerSettings,
)
from rewardrate.environments.speedrun.judge import judge
from rewardrate.environments.speedrun.messages import UNRUN
from rewardrate.environments.speedrun.race import Race, load
from rewardrate.environments.speedrun.referee import FIRST_NUMBER, Referee
from rewardrate.environments.speedrun.replies import PaidReplies
from rewardrate.environments.speedrun.rewards import RaceRewards, RewardSettings
from rewardrate.environments.speedrun.validation import Aspect
from rewardrate.environments.speedrun.verdict import Verdict
from rewardrate.environments.speedrun.votes import ModelJudge, VoteSettings
from rewardrate.errors import InfrastructureError, InputError
from rewardrate.sandbox import Executor

UNREACHED = ("endpoint", "prompt-refused")
MESSAGE_CHARACTERS = 300  # of what a parent came to, in the prompt that shows it
"Reasons for which an implementer gave no reply at all."

PAID = "paid-replies.jsonl"  # of a run folder: of implementer and judge, for the step under way


@dataclass(frozen=True)
class DirectSettings:
    """The CHANGE section carries the edit blocks itself."""

    kind: Literal["direct"] = "direct"


@dataclass(frozen=True)
class RaceSettings(EnvironmentSettings):
    """How attempts at a race are proposed, implemented, judged and rewarded."""

    kind: Literal["speedrun"] = "speedrun"
    prompt: Literal["full", "compact"] = "full"
    "Compact: the result and the lines that differ from the baseline, for small models."
    prompt_tokens: Annotated[int, AtLeast(1)] | None = None
    "A longer prompt is refused; 40960 in the paper."
    minimum: str = "namespaces"
    "The weakest isolation to accept (docs/sandbox.md)."
    seeds: str | None = None
    "Folder of records that the buffer starts with; the race's own unless given."
    static_judge: Literal["on", "off"] = "on"
    "Off: the votes alone rule, as in the paper; refused where there are none and printed losses are believed."
    trust: tuple[Aspect, ...] = ()
    "Aspects that the static judge leaves to the votes (docs/speedrun-policy.md)."
    rewards: RewardSettings = field(default_factory=RewardSettings)
    implementer: DirectSettings | ImplementerSettings = field(default_factory=DirectSettings)
    votes: VoteSettings | None = None
    "The model judge; without it only the static judge rules."

    def check(self, task: str) -> None:
        """InputError for a race that there is not."""
        load(task)

    def setup(self, task: str, clock: str) -> RaceSetup:
        """The race, its data prepared."""
        return RaceSetup(task, self, clock)


class Speedrun(Environment):
    """One race as an environment. `implementer`, `votes` and `machine` replace what the settings would make."""

    def __init__(
        self,
        race: Race,
        executor: Executor,
        settings: RaceSettings = RaceSettings(),  # noqa: B008
        count: Callable[[str], int] = len,
        *,
        machine: hardware.Hardware | None = None,
    ) -> None:
        self.race, self.settings = race, settings
        self.base_code, self.limit_seconds = race.baseline, race.cap_seconds
        if settings.static_judge == "off" and settings.votes is None and not race.recompute:
            rule = f"without it nothing would judge the scripts of {race.name}, whose printed losses are believed"
            raise InputError("environment.static_judge", "off", rule, "leave it on, or set [environment.votes]")
        self.machine = machine or hardware.here()
        self.rewards = RaceRewards(race.target_loss, race.credited_margin, race.cap_seconds, settings.rewards)
        self.referee = Referee(race, executor, minimum=settings.minimum)
        self._count = count
        wanted = settings.implementer
        self._implementer: Implementer = (
            EndpointImplementer(race, wanted, self.machine)
            if isinstance(wanted, ImplementerSettings)
            else DirectImplementer()
        )
        self._votes = None if settings.votes is None else ModelJudge(race, settings.votes, self.machine)
        self._replies = PaidReplies()

    def keep_replies(self, path: Path) -> None:
        """Write every reply of implementer and judge to a file as it comes, and ask for none again that stands there.

        The file is for the step under way: should it end in the middle, the next process finds what was paid for.
        """
        self._replies = PaidReplies(path)
        for asking in (self._implementer, self._votes):
            if isinstance(asking, EndpointImplementer | ModelJudge):
                asking.replies = self._replies

    def prompt(self, parent: Parent | None = None) -> list[Message]:
        """The prompt that asks to improve `parent`; without one, the race's own script."""
        return prompts.proposal(
            self.race,
            parent or Parent(self.race.baseline, UNRUN),
            self.machine,
            direct=self.settings.implementer.kind == "direct",
            exchange=self.settings.rewards.depth_seconds / 1000,
            compact=self.settings.prompt == "compact",
            limit_tokens=self.settings.prompt_tokens,
            count=self._count,
        )

    def stream(self, replies: Sequence[str], parents: Sequence[Parent | None] | None = None) -> Outcomes:
        """Implement every reply on its parent, judge what came out, run what may run.

        Raises InfrastructureError when the implementer or the judge could be had for none of several replies: nothing
        is charged, and the same command resumes.
        """
        codes = [self.race.baseline if one is None else one.code for one in parents or [None] * len(replies)]
        begun = self._replies.begin() if replies else None
        made = self._implementer.implement(replies, codes)
        asked = [one for one in made if one.asked or one.fault == SANDBOX_FAILURE]  # the others never reached a model
        _someone_answered([one.message for one in asked if one.reason in UNREACHED], len(asked))
        left = []
        for place, one in enumerate(made):
            refusal = _not_implemented(one) or self._static(codes[place], one.code) or self._unshowable(one.code)
            if refusal is None:
                left.append(place)
            else:
                yield place, refusal
        voted = self._voted([made[place].code for place in left])
        for at, refusal in voted.items():
            yield left[at], refusal
        left = [place for at, place in enumerate(left) if at not in voted]
        with contextlib.closing(self.run_each([made[place].code for place in left])) as ended:
            for at, outcome in ended:
                yield left[at], outcome
        if begun is not None:  # a step that is worked through again from the record pays for nothing
            self._replies.end(begun)

    def run(self, codes: Sequence[str], *, numbers: Sequence[int] | None = None) -> list[Outcome]:
        """Run scripts as they are, unjudged but by the referee; `numbers` tell repeats of a script apart."""
        return collect(self.run_each(codes, numbers))

    def run_each(self, codes: Sequence[str], numbers: Sequence[int] | None = None) -> Outcomes:
        """The same; (index, outcome) as each is final."""
        if codes:
            with contextlib.closing(self.referee.stream(codes, numbers=numbers)) as ended:
                for place, verdict in ended:
                    yield place, self.rewarded(verdict)

    def known_solutions(self, folder: Path) -> list[KnownSolution]:
        """The run's seeds. From here on replies of implementer and judge are kept in the run's folder too."""
        self.keep_replies(folder / PAID)
        found = [
            (seed.name, seed.outcome(self.rewards)) for seed in seeds.of_run(self.race, folder, self.settings.seeds)
        ]
        return [KnownSolution(name, outcome) for name, outcome in found if outcome.valid]

    def ranking_reward(self, outcome: Outcome, *, priced: bool) -> float:
        """As the race's rewards say."""
        return self.rewards.ranking_reward(outcome, priced=priced)

    def extra_reward(self, outcome: Outcome, *, priced: bool) -> float:
        """As the race's rewards say."""
        return self.rewards.extra_reward(outcome, priced=priced)

    def vanilla_reward(self, outcome: Outcome) -> float:
        """As the race's rewards say."""
        return self.rewards.vanilla_reward(outcome)

    def final_evaluation(self, code: str) -> Outcome | None:
        """The script once more, with another random seed: the best of many had luck with its own."""
        return self.run([code], numbers=[FIRST_NUMBER - 1])[0]

    def rewarded(self, verdict: Verdict) -> Outcome:
        """The verdict with its reward: L_ref - L, without bonuses, which never enter the rate.

        Valid attempts are ranked by the race's own objective, whatever the arm.
        """
        loss = verdict.score
        if not verdict.valid or loss is None:
            return verdict
        rank_key = self.rewards.vanilla(loss, verdict.seconds, valid=True)
        return replace(verdict, reward=self.rewards.earned(loss), trains=True, rank_key=rank_key)

    def _static(self, parent: str, code: str) -> Outcome | None:
        """The static judge's refusal, if it has one."""
        if self.settings.static_judge == "off":
            return None
        found = judge(parent, code, self.settings.trust)
        if not found:
            return None
        return unrun("modified", f"the judge refused it: {'; '.join(map(str, found[:3]))}", code)

    def _unshowable(self, code: str) -> Outcome | None:
        """A refusal for a script that no prompt could show: as a parent it would end the run."""
        try:
            self.prompt(Parent(code, "x" * MESSAGE_CHARACTERS))
        except InputError as error:
            return unrun("edit", f"too-long: {error}", code)
        return None

    def _voted(self, codes: Sequence[str]) -> dict[int, Outcome]:
        """The refusals of the model judge, by place; without a usable vote an attempt is not charged."""
        if self._votes is None:
            return {}
        rulings = self._votes.judge(codes)
        _someone_answered([one.reason for one in rulings if one.ruling == "no-vote"], len(codes))
        found: dict[int, Outcome] = {}
        for place, one in enumerate(rulings):
            if one.ruling == "modified":
                found[place] = unrun("modified", f"the judge refused it: {one.reason}", codes[place])
            elif one.ruling == "no-vote":
                found[place] = unrun("sandbox-failure", f"the judge cannot be had: {one.reason}", codes[place])
        return found


class RaceSetup(RunSetup):
    """A race for a recipe."""

    must_match = ("split", "target_loss")

    def __init__(self, task: str, settings: RaceSettings, clock: str) -> None:
        self.race, self.settings = load(task), settings
        self.cores = self.race.cores
        if clock != "wall":
            raise InputError("sandbox.clock", clock, "a race is run against the wall clock", "wall")
        if self.race.text:
            data.make(self.race)
        data.require(self.race)

    def facts(self) -> Mapping[str, str]:
        """What the record says of it; reports of a race need its target and its cap."""
        rules = self.race
        return {
            "metric": "validation loss",
            "direction": "minimize",
            "race": rules.name,
            "split": data.split_name(rules),
            "target_loss": f"{rules.target_loss:g}",
            "credited_loss": f"{rules.credited_loss:g}",
            "cap_seconds": f"{rules.cap_seconds:g}",
        }

    def environment(self, executor: Executor, count: Callable[[str], int]) -> Speedrun:
        """The race, run by the executor."""
        return Speedrun(self.race, executor, self.settings, count)


def _not_implemented(made: Implemented) -> Outcome | None:
    if not made.fault:
        return None
    return unrun(made.fault, made.message)


def _someone_answered(failures: Sequence[str], rows: int) -> None:
    """An endpoint that failed every one of several rows is not there: the run stops before anything is lost."""
    if rows > 1 and len(failures) == rows:
        raise InfrastructureError(f"{failures[0]} (all {rows} rows); nothing was charged")
