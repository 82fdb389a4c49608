"""Algorithm 1 for chains that do not wait for each other: each begins its next attempt when its own has ended.

Attempts are numbered as they begin, and an update learns from the next batch in that order, as soon as all of it has
ended: a fair sample, however long each takes (docs/theory.md, "Chains that do not wait"). Meanwhile other chains
continue, and scripts run while the policy writes and learns. No attempt is dropped; how old one may be when it is
learned from is bounded by admission: it begins only when its update is at most so many updates away.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rewardrate.attempt import Outcome, Proposal
from rewardrate.errors import InputError
from rewardrate.rates import Stream
from rewardrate.runlog import Recorded
from rewardrate.sandbox import cores
from rewardrate.training.buffer import Solution, restored, state_of
from rewardrate.training.loop import Loop, Step, Steps, origin_of, parent_of, seed_of
from rewardrate.training.pricer import Priced
from rewardrate.training.under_way import Ended, UnderWay

STATE = "stream"  # of the loop, among the states of a resume point


@dataclass
class Open:
    """An attempt that no update has taken yet."""

    chain: int
    parent: Solution | None
    proposal: Proposal
    outcome: Outcome | None = None


@dataclass
class StreamLoop(Loop):
    """One run whose chains do not wait: the verbs of `Loop`, a batch being whatever the next update is to learn from.

    Attempt numbers are the record's, from 1; the stream counts from 0. What a run does next depends on the record and
    the order in which attempts end, not on when: after a kill the ends that are on record come again in their order.
    """

    stream: Stream = field(kw_only=True)
    together: int = 1
    "Groups of chains that are written for at once: more where attempts wait for a slot anyway, since that is quicker."
    own_cores: int = 0
    "Cores that the policy takes for itself while it writes or learns, as a script does; 0: it needs none of them."
    make_under_way: Callable[..., UnderWay] = UnderWay
    "What runs attempts side by side: threads; or a simulation with a clock of its own."
    usage: Callable[[], tuple[float, int]] | None = None
    "Seconds that scripts have been running for, added up, and how many at once at most."
    _idle: deque[int] = field(default_factory=deque)
    "Groups of chains that wait for their next attempt; one chain each, unless the attempts at a prompt are compared."
    _open: dict[int, Open] = field(default_factory=dict)
    _recorded: dict[int, Recorded] = field(default_factory=dict)
    "What is on record of attempts that the resume point knows nothing of, or not the end of."
    _told: set[int] = field(default_factory=set)
    "Attempts whose end was on record when this process began."
    _committed: int = 0
    "The latest step on record when this process began."
    _ended: deque[Ended] = field(default_factory=deque)
    "Ends that are on record and not worked through yet, in their order."
    _parents: dict[int, Solution | None] = field(default_factory=dict)
    "What the attempts that were open at the resume point were to improve."
    _arrivals: int = 0
    "How many ends were worked through."
    _killed: list[int] = field(default_factory=list)
    "Attempts that were running when the run was killed."
    _ages: list[int] = field(default_factory=list)
    _since: tuple[float, float] = (0.0, 0.0)
    "Seconds of scripts and of the clock, when the latest update was done."

    def run(self) -> None:
        """Algorithm 1 of the paper, for chains with clocks of their own, until the budget is used up."""
        recorded, start = self.resume()
        before = self._read(recorded)
        self._since = (self.usage()[0] if self.usage is not None else 0.0, time.monotonic())
        with self.make_under_way(self.environment, self.log.ended, before=before) as under_way:
            for step in self.steps(start):
                batch = self.collect(step, under_way)  # s_t, a_t ~ pi(. | s_t); r_{t+1}, delta_{t+1} as they come
                priced = self.price_batch(step, batch)  # rho_{t+1} = f_rho(B); r - rho * delta; B anew
                metrics = self.learn([one.proposal for one in batch], priced) | self.pace()  # PPO
                self.commit(step, priced, metrics)
                if self.on_step is not None:
                    self.on_step(Step(step, priced.outcomes, priced.rate, metrics, self.phases))
                self.stop_if_broken(step, priced.outcomes, recorded)
        self.checkpoint_last()

    def collect(self, step: int, under_way: UnderWay) -> list[Open]:
        """Let chains begin and end attempts until all of the next update's have ended."""
        for attempt in self._killed:
            self._execute(attempt, under_way)
        self._killed = []
        while self.stream.batch() is None:
            if not self._ended or self._ended[0][0] in self._told:
                self.begin(step, under_way)  # ends of a record one by one, since each may have let an attempt begin
            if not self._ended:
                with self._timed("execute"):
                    self._ended.extend(under_way.arrived())
            free = self.end(step, *self._ended.popleft())
            if self.stream.batch() is not None:
                self.begin(step, under_way)  # whoever was free before the last end is still written by this policy
            self._idle.extend(free)
        return [self._open[number + 1] for number in self.stream.batch() or ()]

    def begin(self, step: int, under_way: UnderWay) -> None:
        """Start the next attempts of idle chains, as far as age allows: proposals that are on record, or new ones."""
        group = self.pricer.attempts_per_prompt
        started: dict[int, int] = {}
        new: list[int] = []
        while self._idle and self.stream.may_start() and self._may_begin(step, bool(new)):
            first, number = self._idle.popleft() * group, self.stream.started + 1
            new += [] if number in self._recorded else range(number, number + group)
            started |= {self.stream.start(chain) + 1: chain for chain in range(first, first + group)}
        if not started:
            return
        places = self.pricer.parents()
        parents = {attempt: places[(attempt - 1) % len(places)] for attempt in started}
        proposals = {attempt: self._recorded[attempt].proposal for attempt in started if attempt in self._recorded}
        if new:
            proposals |= self._propose(step, new, parents, [started[attempt] for attempt in new])
        for attempt, chain in started.items():
            self._open[attempt] = Open(chain, parents[attempt], proposals[attempt])
            self._execute(attempt, under_way)

    def _may_begin(self, step: int, others: bool) -> bool:
        """Whether the next attempt begins now; `others`: new ones that are written for at the same time.

        One that is on record begins with the policy that wrote it, whatever `together` is by now (other cores).
        """
        known = self._recorded.get(self.stream.started + 1)
        if known is not None:
            return known.updates == self.stream.version
        if step <= self._committed:
            return False  # steps that are worked through again had no further attempts
        return others or len(self._idle) >= self.together or not self.stream.running

    def end(self, step: int, attempt: int, outcome: Outcome) -> list[int]:
        """An attempt has ended. Returns the group of chains that is free now, where all of it is."""
        if attempt not in self._open:
            rule = "it ends there before it has begun, so the run cannot be worked through again"
            raise InputError("run log", f"attempt {attempt}", rule, "restore the folder from a copy")
        one, size = self._open[attempt], self.pricer.attempts_per_prompt
        one.outcome = outcome
        self._arrivals += 1
        reward = outcome.reward if outcome.valid else 0.0
        self.stream.end(attempt - 1, reward, outcome.seconds, valid=outcome.valid, charged=outcome.charged)
        if attempt not in self._told:
            if self.on_attempt is not None:
                self.on_attempt((attempt - 1) % self.stream.batch_size, outcome)
            if not outcome.charged:
                self.log.note("sandbox-failure", f"attempt {attempt}: {outcome.message}")
        group = one.chain // size
        others = (other for other in self._open.values() if other.chain // size == group) if size > 1 else ()
        return [] if any(other.outcome is None for other in others) else [group]

    def price_batch(self, step: int, batch: Sequence[Open]) -> Priced:
        """Fit the rate, charge every attempt of the update for its time, feed the buffer."""
        numbers = self.stream.batch() or ()
        self.attempts = [number + 1 for number in numbers]
        self._ages = [self.stream.age_of(number) for number in numbers]
        with self._timed("fit"):
            priced = self.pricer.price(
                [one.outcome for one in batch if one.outcome is not None],
                step=step,
                attempts=self.attempts,
                parent_codes=[None if one.parent is None else one.parent.code for one in batch],
                generation_seconds=[one.proposal.seconds for one in batch],
                chains=[one.chain for one in batch],
            )
            self.stream.advance()
        for attempt in self.attempts:
            del self._open[attempt]
        return priced

    def learn(self, proposals: Sequence[Proposal], priced: Priced) -> dict[str, float]:
        """One update of the policy; the ratio of an attempt is to the policy that wrote it."""
        with self._cores():
            return super().learn(proposals, priced)

    def pace(self) -> dict[str, float]:
        """How old the attempts of this update were, and which share of the slots' time was idle since the last one."""
        found = {"age": sum(self._ages) / len(self._ages), "age_max": float(max(self._ages))}
        if self.usage is not None:
            (busy, most), now = self.usage(), time.monotonic()
            before, then = self._since
            if most:
                found["idle_share"] = max(0.0, 1.0 - (busy - before) / (most * (now - then)))
            self._since = busy, now
        return found

    def restore(self, states: Mapping[str, Any]) -> None:
        """The chains as they were, with the attempts that no update had taken."""
        super().restore(states)
        state = states.get(STATE)
        if not isinstance(state, Mapping):
            raise InputError("state", sorted(states), f"it lacks {STATE}: the run was begun with another schedule")
        self.stream.load_state_dict(state["stream"])
        self._idle, self._arrivals = deque(state["idle"]), state["arrivals"]
        self._parents = {int(attempt): None if one is None else restored(one) for attempt, one in state["open"].items()}

    def _read(self, recorded: Steps) -> int:
        """Take up what is on record beyond the resume point; returns how many ends the record has."""
        rows = [row for step in sorted(recorded) for row in recorded[step]]
        self._recorded = {row.attempt: row for row in rows}
        self._told = {row.attempt for row in rows if row.outcome is not None}
        self._committed = self.log.last_step()
        if not self.stream.started:
            self._idle.extend(range(self.stream.chains // self.pricer.attempts_per_prompt))
        ends = [(row.arrival, row.attempt, row.outcome) for row in rows if row.arrival is not None]
        later = sorted(end for end in ends if end[0] > self._arrivals)
        for attempt, parent in self._parents.items():
            row = self._recorded[attempt]
            before = row.arrival is not None and row.arrival <= self._arrivals
            self._open[attempt] = Open(row.chain, parent, row.proposal, row.outcome if before else None)
        self._killed = [attempt for attempt in self._open if self._recorded[attempt].outcome is None]
        self._ended.extend((attempt, outcome) for _, attempt, outcome in later if outcome is not None)
        return max([arrival for arrival, _, _ in ends] + [self._arrivals])

    def _propose(
        self, step: int, new: Sequence[int], parents: Mapping[int, Solution | None], chains: Sequence[int]
    ) -> dict[int, Proposal]:
        """New proposals, on record before any is executed."""
        with self._timed("propose"), self._cores():
            prompts = [self.environment.prompt(parent_of(parents[attempt])) for attempt in new]
            proposals = self.policy.propose(prompts, seed_of(self.seed, step), first=new[0])
        origins = [origin_of(prompt, parents[attempt]) for prompt, attempt in zip(prompts, new, strict=True)]
        numbers = self.log.begin(step, proposals, origins, chains)
        assert numbers == list(new), (numbers, new)
        return dict(zip(new, proposals, strict=True))

    def _execute(self, attempt: int, under_way: UnderWay) -> None:
        """Run an attempt whose outcome is not on record."""
        one = self._open[attempt]
        if attempt not in self._told:
            seconds = one.proposal.seconds
            under_way.start(
                attempt, one.proposal.text, parent_of(one.parent), lambda found: self.pricer.charged(found, seconds)
            )

    def _commit(self, step: int, priced: Priced, **options: Any) -> None:
        super()._commit(step, priced, attempts=self.attempts, **options)

    def _saved(self, step: int) -> tuple[dict[str, Any], str | None]:
        states, checkpoint = super()._saved(step)
        parents = {str(n): None if one.parent is None else state_of(one.parent) for n, one in self._open.items()}
        own = {"stream": self.stream.state_dict(), "idle": list(self._idle), "arrivals": self._arrivals}
        return states | {STATE: own | {"open": parents}}, checkpoint

    @contextlib.contextmanager
    def _cores(self) -> Iterator[None]:
        """Cores that no script is timed on meanwhile, where the policy computes on this machine's."""
        if not self.own_cores:
            yield
            return
        with cores.owned(self.own_cores) as mine, cores.pinned(mine):
            yield
