"""What environments with one job a reply have in common, with real scripts in the sandbox."""

from dataclasses import replace

import pytest

from rewardrate.environments import SandboxedEnvironment, measured
from rewardrate.errors import InputError
from rewardrate.sandbox import Job, Limits, Pool
from rewardrate.sandbox.runner import isolation

pytestmark = pytest.mark.skipif(
    not isolation().level.name.startswith("namespaces"), reason="this machine allows no namespaces"
)


class Echo(SandboxedEnvironment):
    limit_seconds = 20.0

    def __init__(self, executor):
        self.executor = executor

    def prompt(self, parent=None):
        return [{"role": "user", "content": "a word?"}]

    def extract(self, reply):
        if not reply:
            raise InputError("reply", reply, "it needs a word")
        return reply.upper()

    def job(self, code, split):
        return Job(f"print({f'{split}: {code}'!r})", Limits(seconds=self.limit_seconds, cores=1, memory_bytes=2**28))

    def judge(self, code, result, split="reward"):
        return replace(measured(result, code), valid=True, message=f"{result.stdout.strip()}, {split}")


def test_each_reply_is_run_and_one_without_code_is_a_failure_whose_words_are_the_rule():
    with Pool(1, repeats=0) as pool:
        environment = Echo(pool)
        first, none, last = environment.execute(["a", "", "b"])
        (report,) = environment.run(["c"], split="report")
    assert [one.message for one in (first, last, report)] == [
        "reward: A, reward",
        "reward: B, reward",
        "report: c, report",
    ]
    assert (first.code, last.code, none.code) == ("A", "B", "")
    assert (none.valid, none.status, none.message, none.seconds) == (False, "format", "it needs a word", 0.1)
