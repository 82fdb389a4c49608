"""SQL tuning as an environment: a proposal is applied to a copy of the database, its queries are timed and compared."""

from __future__ import annotations

import contextlib
import json
import math
import re
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from rewardrate.attempt import FLOOR_SECONDS, Message, Outcome, Parent
from rewardrate.config import AtLeast
from rewardrate.environments.environment import Environment, EnvironmentSettings, Outcomes, RunSetup, measured
from rewardrate.environments.fences import fence, unfenced
from rewardrate.environments.sqltuning import runner
from rewardrate.environments.sqltuning.workload import Split, Workload, find, load
from rewardrate.errors import InputError
from rewardrate.sandbox import Executor, Job, Limits, Pool, Result

BLOCK = re.compile(r"```[ \t]*(?:sql(?:ite3?)?[ \t]*)?\n(.*?)```", re.DOTALL | re.IGNORECASE)
PART = re.compile(r"^[ \t]*--[ \t]*(setup|q\d{1,4})\b.*$", re.MULTILINE | re.IGNORECASE)
LONGEST_REPLY, LONGEST_SQL = 200_000, 20_000
QUERY_FLOOR_SECONDS = 1e-4  # a query that is quicker counts as this: below it the clock is noise
LEAST_SPEED_UP = 1.1  # less is within the spread of the clock, and no gain
MOST_REWARD = 2.0
RUNS = 2  # of baseline and reference: they ran eight times within 4 % on a busy machine
TASK = """\
Make this SQLite database answer its queries faster. Reply with one ```sql block: first statements that prepare the
database (CREATE INDEX, ANALYZE, PRAGMA, new tables), then, where you want to replace a query, a line `-- Q3` and the
new query, which must return the same rows for all values of its parameters. Queries you do not replace run as they
stand. They are timed with other values than those shown; the time that your statements take counts too."""


@dataclass(frozen=True)
class Yardstick:
    """CPU seconds of every query without tuning, and the speed-up of the reference: gain 0 and gain 1."""

    baseline: Mapping[str, float]
    reference: float

    def speed_up(self, seconds: Mapping[str, float]) -> float:
        """Geometric mean over the queries of baseline / seconds, as in TPC-H's power metric."""
        ratios = [slow / max(QUERY_FLOOR_SECONDS, seconds[name]) for name, slow in self.baseline.items()]
        return math.exp(sum(map(math.log, ratios)) / len(ratios))

    def gain(self, speed_up: float) -> float:
        """Of the speed-up, on a log scale: 0 without tuning, 1 for the reference, at most MOST_REWARD."""
        return min(MOST_REWARD, max(0.0, math.log(speed_up) / math.log(self.reference)))


@dataclass(frozen=True)
class SqlTuningSettings(EnvironmentSettings):
    """How a SQLite database is tuned: limits, and the form of the prompt."""

    kind: Literal["sql-tuning"] = "sql-tuning"
    time_limit: Annotated[float, AtLeast(5)] = 30.0
    "Seconds for building and running."
    memory_bytes: int = 2**30
    "Memory of one attempt, its copy of the database included."
    minimum: str = "namespaces"
    "The weakest isolation to accept (docs/sandbox.md)."
    prompt: Literal["full", "compact"] = "full"
    "Compact: fewer words, for small models."

    def check(self, task: str) -> None:
        """InputError for a workload that there is not."""
        find(task)

    def setup(self, task: str, clock: str) -> SqlTuningSetup:
        """The workload, prepared and measured without tuning and with the reference."""
        workload = load(task)
        return SqlTuningSetup(self, workload, measure(workload, self))


@dataclass(frozen=True)
class SqlTuningSetup(RunSetup):
    """A workload on this machine."""

    must_match = ("workload", "sqlite", "baseline", "reference")
    settings: SqlTuningSettings
    workload: Workload
    yardstick: Yardstick

    def facts(self) -> Mapping[str, str]:
        """The record of it."""
        baseline = ", ".join(f"{name} {1000 * seconds:.3f} ms" for name, seconds in self.yardstick.baseline.items())
        return {
            "metric": "speed-up",
            "direction": "maximize",
            "workload": self.workload.database.parent.name,
            "sqlite": sqlite3.sqlite_version,
            "baseline": baseline,
            "reference": f"{self.yardstick.reference:.4g}",
        }

    def example_replies(self) -> list[str]:
        """The reference."""
        return [f"```sql\n{self.workload.reference}\n```"]

    def environment(self, executor: Executor, count: Callable[[str], int]) -> SqlTuning:
        """The environment."""
        return SqlTuning(self.workload, self.yardstick, executor, self.settings)


class SqlTuning(Environment):
    """One workload: prompts, execution in the sandbox, comparison of rows, reward, message."""

    def __init__(self, workload: Workload, yardstick: Yardstick, executor: Executor, settings: SqlTuningSettings):
        self.workload, self.yardstick = workload, yardstick
        self.executor, self.settings, self.limit_seconds = executor, settings, settings.time_limit

    def prompt(self, parent: Parent | None = None) -> list[Message]:
        """Schema, queries, rules; the parent with its message."""
        queries = [
            f"-- {name}: {query.about}; for example {json.dumps(dict(query.cases[0]))}\n{query.sql}"
            for name, query in self.workload.queries.items()
        ]
        parts = [self.workload.schema, *queries]
        if self.settings.prompt == "full":
            limit = f"Building and running may take {self.limit_seconds:g} s; SQLite {sqlite3.sqlite_version}."
            parts = [f"{TASK}\n{limit}", *parts]
        if parent is not None:
            marks = fence(parent.code)
            parts.append(f"Your last answer was\n{marks}sql\n{parent.code.rstrip()}\n{marks}")
            parts.append(f"Its result: {unfenced(parent.message)}\nGive a better one, complete.")
        return [{"role": "user", "content": "\n\n".join(parts)}]

    def stream(self, replies: Sequence[str], parents: Sequence[Parent | None] | None = None) -> Outcomes:
        """Tune, run and judge one reply each."""
        found = []
        for index, reply in enumerate(replies):
            try:
                code = extract(reply)
                found.append((index, code, job(self.workload, code, "reward", self.settings)))
            except InputError as error:
                yield (
                    index,
                    Outcome(
                        valid=False,
                        reward=0.0,
                        score=None,
                        seconds=FLOOR_SECONDS,
                        message=str(error),
                        status="format",
                        code="",
                    ),
                )
        with contextlib.closing(self.executor.stream([one for _, _, one in found])) as ended:
            for at, result in ended:
                yield found[at][0], self.judge(found[at][1], result)

    def final_evaluation(self, code: str) -> Outcome | None:
        """The run's best proposal with parameters that no reward has seen."""
        return self.judge(code, self.executor.run([job(self.workload, code, "report", self.settings)])[0], "report")

    def judge(self, code: str, result: Result, split: Split = "reward") -> Outcome:
        """Valid: it ended in time, all rows are right, and the queries are faster than without tuning."""
        outcome = measured(result, code)
        if result.status != "ok":
            return outcome
        try:
            return self._compared(outcome, json.loads(result.files["report.json"]), split)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            return replace(outcome, status="error", message=f"its results cannot be read ({type(error).__name__})")

    def _compared(self, outcome: Outcome, report: Any, split: Split) -> Outcome:
        if "error" in report:
            words = f"{report['stage']}: {report['error']}"
            if report["late"]:
                return replace(outcome, status="timeout", message=words, seconds=self.limit_seconds)
            return replace(outcome, status="error", message=words)
        found = report["queries"]
        if name := self.workload.wrong(found, split):
            words = f"{name} does not return the rows of the original query"
            return replace(outcome, status="wrong-result", message=words)
        times = {name: float(found[name]["seconds"]) for name in self.workload.queries}
        if not all(0 <= seconds < math.inf for seconds in times.values()):
            raise ValueError("no seconds")
        speed_up = self.yardstick.speed_up(times)
        words = self._message(speed_up, times, found, outcome.seconds)
        if speed_up < LEAST_SPEED_UP:
            return replace(outcome, score=speed_up, status="no-gain", message=f"no gain: {words}")
        return replace(outcome, valid=True, reward=self.yardstick.gain(speed_up), score=speed_up, message=words)

    def _message(self, speed_up: float, times: Mapping[str, float], found: Mapping[str, Any], seconds: float) -> str:
        """Milliseconds of every query before and after, and the plans of the two that are slowest."""
        before = self.yardstick.baseline
        each = [f"{name} {1000 * before[name]:.3g} -> {1000 * after:.2g}" for name, after in times.items()]
        slowest = sorted((name for name in times if times[name] > QUERY_FLOOR_SECONDS), key=lambda n: -times[n])[:2]
        plans = "".join(f"; plan of {name}: {' | '.join(found[name]['plan'])[:160]}" for name in slowest)
        reference = f"{self.yardstick.reference:.3g}"
        return f"speed-up {speed_up:.3g} (by hand {reference}) in {seconds:.2f} s; ms: {', '.join(each)}{plans}"


def extract(reply: str) -> str:
    """The SQL of the last block of a reply. InputError where there is none."""
    code = ["", *BLOCK.findall(reply[-LONGEST_REPLY:])][-1].replace("\0", "").strip()
    if not 0 < len(code) <= LONGEST_SQL:
        raise InputError("reply", code, f"it needs a ```sql block of 1 to {LONGEST_SQL:,} characters")
    return str(code.encode("utf-8", "replace").decode())


def job(workload: Workload, code: str, split: Split, settings: SqlTuningSettings) -> Job:
    """What the sandbox is asked: our runner, with the proposal as data. InputError names what cannot be read."""
    first, *parts = PART.split(code)
    setup, queries = first, {name: query.sql for name, query in workload.queries.items()}
    for name, sql in zip(map(str.upper, parts[::2]), parts[1::2], strict=True):
        if name == "SETUP":
            setup += sql
        elif name not in queries:
            raise InputError("query", name, "there is no such query")
        elif sql.strip("; \t\n"):
            queries[name] = sql.strip("; \t\n")
    patience = settings.time_limit - 1.0  # so that the message can say what was under way
    request = {"setup": setup, "queries": queries, "cases": workload.cases(split), "seconds": patience}
    return Job(
        Path(runner.__file__).read_text(encoding="utf-8"),
        Limits(seconds=settings.time_limit, cores=1, memory_bytes=settings.memory_bytes),
        data={"workload.db": workload.database},
        files={"request.json": json.dumps(request).encode()},
        collect=("report.json",),
        minimum=settings.minimum,
    )


def measure(workload: Workload, settings: SqlTuningSettings) -> Yardstick:
    """Baseline and reference on this machine: the fastest of RUNS runs each, kept beside the database."""
    kept = workload.database.with_name(f"yardstick-{sqlite3.sqlite_version}.json")
    if not kept.exists():
        jobs = [job(workload, code, "reward", settings) for code in ("", workload.reference) for _ in range(RUNS)]
        with Pool(1) as pool:
            results = pool.run(jobs)
        found = [json.loads(result.files.get("report.json", b"{}")).get("queries") for result in results]
        if any(one is None or workload.wrong(one, "reward") for one in found):
            raise InputError("task", workload.name, "it or its reference did not run", results[-1].message)
        fastest = [
            {name: min(one[name]["seconds"] for one in half) for name in workload.queries}
            for half in (found[:RUNS], found[RUNS:])
        ]
        baseline = {name: max(QUERY_FLOOR_SECONDS, seconds) for name, seconds in fastest[0].items()}
        reference = Yardstick(baseline, math.e).speed_up(fastest[1])
        if reference < LEAST_SPEED_UP:
            raise InputError("task", workload.name, f"its reference is no faster than no tuning ({reference:.3g})")
        kept.write_text(json.dumps([baseline, reference]), encoding="utf-8")
    return Yardstick(*json.loads(kept.read_text(encoding="utf-8")))
