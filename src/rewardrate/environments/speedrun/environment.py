"""The race as an environment: a reply is implemented on its parent, judged, run by the referee, rewarded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from rewardrate.attempt import FLOOR_SECONDS, Message, Outcome, Parent, Status
from rewardrate.config import AtLeast
from rewardrate.environments.speedrun import hardware, prompts
from rewardrate.environments.speedrun.implementer import (
    DirectImplementer,
    EndpointImplementer,
    Implemented,
    Implementer,
    ImplementerSettings,
)
from rewardrate.environments.speedrun.judge import judge
from rewardrate.environments.speedrun.messages import UNRUN
from rewardrate.environments.speedrun.race import Race
from rewardrate.environments.speedrun.referee import FIRST_NUMBER, Referee
from rewardrate.environments.speedrun.replies import PaidReplies
from rewardrate.environments.speedrun.rewards import RaceRewards, RewardSettings
from rewardrate.environments.speedrun.validation import Aspect
from rewardrate.environments.speedrun.verdict import Verdict
from rewardrate.environments.speedrun.votes import ModelJudge, VoteSettings
from rewardrate.errors import InfrastructureError, InputError
from rewardrate.sandbox import Executor

STATUSES: dict[str, Status] = {"valid": "ok", "crash": "error", "infrastructure": "sandbox-failure"}
"The referee's words for what the record calls by another; the others are the same."

UNREACHED = ("endpoint", "prompt-refused")
MESSAGE_CHARACTERS = 300  # of what a parent came to, in the prompt that shows it
"Reasons for which an implementer gave no reply at all."

OnDone = Callable[[int, Outcome], None]


@dataclass(frozen=True)
class DirectSettings:
    """The CHANGE section carries the edit blocks itself."""

    kind: Literal["direct"] = "direct"


@dataclass(frozen=True)
class RaceSettings:
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


class Speedrun:
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
        if settings.static_judge == "off" and settings.votes is None and not race.recompute:
            rule = f"without it nobody would judge the scripts of {race.name}, whose printed losses are believed"
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

    @property
    def base_code(self) -> str:
        """What a proposal without a parent changes: the race's own script."""
        return self.race.baseline

    @property
    def limit_seconds(self) -> float:
        """The cap: what a failure is charged for."""
        return self.race.cap_seconds

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

    def execute(
        self,
        replies: Sequence[str],
        on_done: OnDone | None = None,
        parents: Sequence[Parent | None] | None = None,
    ) -> list[Outcome]:
        """Implement every reply on its parent, judge what came out, run what may run.

        Raises InfrastructureError when the implementer or the judge could be had for none of several replies: nothing
        is charged, and the same command goes on.
        """
        codes = [self.base_code if one is None else one.code for one in parents or [None] * len(replies)]
        outcomes: dict[int, Outcome] = {}

        def done(place: int, outcome: Outcome) -> None:
            outcomes[place] = outcome
            if on_done is not None:
                on_done(place, outcome)

        made = self._implementer.implement(replies, codes)
        asked = [one for one in made if one.asked or one.fault == "infrastructure"]  # the others never reached a model
        _someone_answered([one.message for one in asked if one.reason in UNREACHED], len(asked))
        for place, one in enumerate(made):
            refusal = _not_implemented(one) or self._static(codes[place], one.code) or self._unshowable(one.code)
            if refusal is not None:
                done(place, refusal)
        left = [place for place in range(len(made)) if place not in outcomes]
        for place, refusal in self._voted([made[place].code for place in left]).items():
            done(left[place], refusal)
        left = [place for place in left if place not in outcomes]
        self.run([made[place].code for place in left], lambda at, outcome: done(left[at], outcome))
        if replies:  # a step that is worked through again from the record executes nothing, and pays for nothing
            self._replies.clear()
        return [outcomes[place] for place in range(len(replies))]

    def run(
        self, codes: Sequence[str], on_done: OnDone | None = None, *, numbers: Sequence[int] | None = None
    ) -> list[Outcome]:
        """Run scripts as they are, unjudged but by the referee; `numbers` tell repeats of a script apart."""
        outcomes: dict[int, Outcome] = {}

        def done(place: int, verdict: Verdict) -> None:
            outcomes[place] = self.outcome(codes[place], verdict)
            if on_done is not None:
                on_done(place, outcomes[place])

        if codes:
            self.referee.run(codes, done, numbers=numbers)
        return [outcomes[place] for place in range(len(codes))]

    def last_word(self, code: str) -> Outcome | None:
        """The run's best script once more, with another random seed: the best of many had luck with its own."""
        return self.run([code], numbers=[FIRST_NUMBER - 1])[0]

    def outcome(self, code: str, verdict: Verdict) -> Outcome:
        """A verdict as an outcome; its reward is L_ref - L, without bonuses: they never enter the rate.

        Valid attempts are ranked by the race's own objective, whatever the arm.
        """
        valid = verdict.valid and verdict.val_loss is not None
        seconds = max(FLOOR_SECONDS, verdict.seconds)
        return Outcome(
            valid,
            self.rewards.earned(verdict.val_loss) if valid and verdict.val_loss is not None else 0.0,
            verdict.val_loss,
            seconds,
            verdict.message,
            STATUSES.get(verdict.status, verdict.status),  # type: ignore[arg-type]
            code,
            wall_seconds=verdict.wall_seconds,
            cpu_seconds=verdict.cpu_seconds,
            peak_memory_bytes=verdict.peak_memory_bytes,
            level=verdict.level,
            contaminated=verdict.contaminated,
            trains=True if valid else None,
            output=verdict.output,
            rank_key=self.rewards.vanilla(verdict.val_loss, seconds, valid=True) if valid else None,
        )

    def _static(self, parent: str, code: str) -> Outcome | None:
        """The static judge's refusal, if it has one."""
        if self.settings.static_judge == "off":
            return None
        found = judge(parent, code, self.settings.trust)
        if not found:
            return None
        return _refusal("modified", f"the judge refused it: {'; '.join(map(str, found[:3]))}", code)

    def _unshowable(self, code: str) -> Outcome | None:
        """A refusal for a script that no prompt could show: as a parent it would end the run."""
        try:
            self.prompt(Parent(code, "x" * MESSAGE_CHARACTERS))
        except InputError as error:
            return _refusal("edit", f"too-long: {error}", code)
        return None

    def _voted(self, codes: Sequence[str]) -> dict[int, Outcome]:
        """The refusals of the model judge, by place; no usable vote is nobody's fault."""
        if self._votes is None:
            return {}
        rulings = self._votes.judge(codes)
        _someone_answered([one.reason for one in rulings if one.ruling == "no-vote"], len(codes))
        found: dict[int, Outcome] = {}
        for place, one in enumerate(rulings):
            if one.ruling == "modified":
                found[place] = _refusal("modified", f"the judge refused it: {one.reason}", codes[place])
            elif one.ruling == "no-vote":
                found[place] = _refusal("sandbox-failure", f"the judge cannot be had: {one.reason}", codes[place])
        return found


def _not_implemented(made: Implemented) -> Outcome | None:
    if not made.fault:
        return None
    return _refusal("sandbox-failure" if made.fault == "infrastructure" else made.fault, made.message)


def _refusal(status: Status, message: str, code: str = "") -> Outcome:
    return Outcome(False, 0.0, None, FLOOR_SECONDS, message, status, code)


def _someone_answered(failures: Sequence[str], rows: int) -> None:
    """An endpoint that failed every one of several rows is not there: the run stops before anything is lost."""
    if rows > 1 and len(failures) == rows:
        raise InfrastructureError(f"{failures[0]} (all {rows} rows); nothing was charged")
