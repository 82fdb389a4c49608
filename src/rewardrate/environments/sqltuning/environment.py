"""SQL tuning as an environment: a proposal is applied to a copy of the database, its queries are timed and compared."""

from __future__ import annotations

import json
import math
import re
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import geometric_mean
from typing import Annotated, Any, Literal

from rewardrate.attempt import Message, Outcome, Parent
from rewardrate.config import AtLeast
from rewardrate.environments.environment import EnvironmentSettings, RunSetup, measured
from rewardrate.environments.fences import fenced, unfenced
from rewardrate.environments.sandboxed import SandboxedEnvironment, Split
from rewardrate.environments.sqltuning import runner
from rewardrate.environments.sqltuning.workload import CASES, Workload, find, load
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
    reference: float = math.e

    def speed_up(self, seconds: Mapping[str, float]) -> float:
        """Geometric mean over the queries of baseline / seconds, as in TPC-H's power metric."""
        return geometric_mean(slow / max(QUERY_FLOOR_SECONDS, seconds[name]) for name, slow in self.baseline.items())

    def gain(self, speed_up: float) -> float:
        """Of the speed-up, on a log scale: 0 without tuning, 1 for the reference, at most MOST_REWARD."""
        return min(MOST_REWARD, max(0.0, math.log(speed_up, self.reference)))


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
        baseline = [f"{name} {1000 * seconds:.3f} ms" for name, seconds in self.yardstick.baseline.items()]
        return {
            "metric": "speed-up",
            "direction": "maximize",
            "workload": self.workload.database.parent.name,
            "sqlite": sqlite3.sqlite_version,
            "baseline": ", ".join(baseline),
            "reference": f"{self.yardstick.reference:.4g}",
        }

    def example_replies(self) -> list[str]:
        """The reference."""
        return [f"```sql\n{self.workload.reference}\n```"]

    def environment(self, executor: Executor, count: Callable[[str], int]) -> SqlTuning:
        """The environment."""
        return SqlTuning(self.workload, executor, self.settings, self.yardstick)


class SqlTuning(SandboxedEnvironment):
    """One workload: prompts, execution in the sandbox, comparison of rows, reward, message."""

    def __init__(self, workload: Workload, executor: Executor, settings: SqlTuningSettings, yardstick: Yardstick):
        self.workload, self.executor, self.settings, self.yardstick = workload, executor, settings, yardstick
        self.limit_seconds = settings.time_limit

    def prompt(self, parent: Parent | None = None) -> list[Message]:
        """Schema, queries, rules; the parent with its message."""
        limit = f"Building and running may take {self.limit_seconds:g} s; SQLite {sqlite3.sqlite_version}."
        parts = [f"{TASK}\n{limit}"] if self.settings.prompt == "full" else []
        parts.append(self.workload.schema)
        for name, query in self.workload.queries.items():
            parts.append(f"-- {name}: {query.about}; for example {json.dumps(query.cases[0])}\n{query.sql}")
        if parent is not None:
            parts.append(f"Your last answer was\n{fenced(parent.code, 'sql')}")
            parts.append(f"Its result: {unfenced(parent.message)}\nGive a better one, complete.")
        return [{"role": "user", "content": "\n\n".join(parts)}]

    def extract(self, reply: str) -> str:
        """The SQL of the last block."""
        code: str = ["", *BLOCK.findall(reply[-LONGEST_REPLY:])][-1].replace("\0", "").strip()
        if not 0 < len(code) <= LONGEST_SQL:
            raise InputError("reply", code, f"it needs a ```sql block of 1 to {LONGEST_SQL:,} characters")
        self.job(code)  # refuses a query that there is not
        return code.encode("utf-8", "replace").decode()

    def job(self, code: str, split: Split = "reward") -> Job:
        """Our runner, with the proposal as data. It stops first, to say what was under way."""
        first, *parts = PART.split(code)
        setup, queries = first, {name: query.sql for name, query in self.workload.queries.items()}
        for name, sql in zip(map(str.upper, parts[::2]), parts[1::2], strict=True):
            if name == "SETUP":
                setup += sql
            elif name not in queries:
                raise InputError("query", name, f"there is no query {name}")
            elif sql.strip("; \t\n"):
                queries[name] = sql.strip("; \t\n")
        cases = {name: query.cases[CASES[split]] for name, query in self.workload.queries.items()}
        request = {"setup": setup, "queries": queries, "cases": cases, "seconds": self.limit_seconds - 1}
        return Job(
            Path(runner.__file__).read_text(encoding="utf-8"),
            Limits(seconds=self.limit_seconds, cores=1, memory_bytes=self.settings.memory_bytes),
            data={"workload.db": self.workload.database},
            files={"request.json": json.dumps(request).encode()},
            collect=("report.json",),
            minimum=self.settings.minimum,
        )

    def final_evaluation(self, code: str) -> Outcome:
        """The run's best proposal with parameters that no reward has seen."""
        return self.run([code], split="report")[0]

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
            outcome = replace(outcome, status="error", message=f"{report['stage']}: {report['error']}")
            return replace(outcome, status="timeout", seconds=self.limit_seconds) if report["late"] else outcome
        found = report["queries"]
        if name := self.workload.wrong(found, split):
            return replace(outcome, status="wrong-result", message=f"{name} does not return the rows of the original")
        seconds = {name: float(found[name]["seconds"]) for name in self.workload.queries}
        if not all(0 <= one < math.inf for one in seconds.values()):
            raise ValueError("no seconds")
        speed_up = self.yardstick.speed_up(seconds)
        words = self._message(speed_up, seconds, {name: found[name]["plan"] for name in seconds}, outcome.seconds)
        if speed_up < LEAST_SPEED_UP:
            return replace(outcome, score=speed_up, status="no-gain", message=f"no gain: {words}")
        return replace(outcome, valid=True, reward=self.yardstick.gain(speed_up), score=speed_up, message=words)

    def _message(self, speed_up: float, after: Mapping[str, float], plans: Mapping[str, Any], took: float) -> str:
        """Milliseconds of every query before and after, and the plans of the two that are slowest."""
        each = [f"{name} {1000 * ms:.3g} -> {1000 * after[name]:.2g}" for name, ms in self.yardstick.baseline.items()]
        slowest = sorted((name for name in after if after[name] > QUERY_FLOOR_SECONDS), key=lambda n: -after[n])[:2]
        shown = "".join(f"; plan of {name}: {' | '.join(plans[name])[:160]}" for name in slowest)
        by_hand = f"(by hand {self.yardstick.reference:.3g})"
        return f"speed-up {speed_up:.3g} {by_hand} in {took:.2f} s; ms: {', '.join(each)}{shown}"


def measure(workload: Workload, settings: SqlTuningSettings) -> Yardstick:
    """Baseline and reference on this machine: the fastest of RUNS runs each, kept beside the database."""
    kept = workload.database.with_name(f"yardstick-{sqlite3.sqlite_version}.json")
    if not kept.exists():
        with Pool(1) as pool:
            environment = SqlTuning(workload, pool, settings, Yardstick({}))
            results = pool.run([environment.job(code) for code in ("", workload.reference) for _ in range(RUNS)])
        found = [json.loads(result.files.get("report.json", b"{}")).get("queries") for result in results]
        if any(one is None or workload.wrong(one, "reward") for one in found):
            raise InputError("task", workload.name, "it or its reference did not run", results[-1].message)
        baseline, tuned = (
            {name: max(QUERY_FLOOR_SECONDS, min(one[name]["seconds"] for one in runs)) for name in workload.queries}
            for runs in (found[:RUNS], found[RUNS:])
        )
        reference = Yardstick(baseline).speed_up(tuned)
        if reference < LEAST_SPEED_UP:
            raise InputError("task", workload.name, f"its reference is no faster than no tuning ({reference:.3g})")
        kept.write_text(json.dumps([baseline, reference]), encoding="utf-8")
    return Yardstick(*json.loads(kept.read_text(encoding="utf-8")))
