"""The referee: launches an attempt, times it, reads its log, recomputes its loss, and says what it came to."""

from __future__ import annotations

import secrets
import zlib
from collections import Counter
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace

from rewardrate.attempt import FLOOR_SECONDS, SANDBOX_FAILURE, Status
from rewardrate.environments.cache import default_folder
from rewardrate.environments.speedrun import data, devices, logs, messages, reevaluation, splits
from rewardrate.environments.speedrun.copies import hidden_paths
from rewardrate.environments.speedrun.race import Race
from rewardrate.environments.speedrun.reevaluation import Claim, LossFinding
from rewardrate.environments.speedrun.verdict import Verdict
from rewardrate.errors import InfrastructureError, InputError
from rewardrate.sandbox import Executor, Job, Limits, Pool, Result, cores, levels

OUTPUT = "stdout.log"
OUTPUT_BYTES = 64 * 2**20
OUTPUT_CHARACTERS = 2000
MODEL = "model.pt"
FIRST_NUMBER = 1337  # of a script's repeats, which differ in their random seeds
SPOTS = 2  # earlier validations that are recomputed, drawn from those that were printed
LEAST_KEPT = 64  # validations before the last one whose models come back
TOGETHER = 16  # attempts whose models are kept at once, at most
ENOUGH = 0.9  # of the promised memory: whoever had more was killed for going beyond it
PROOF = "import torch\ntorch.zeros(1, device='cuda').item()\n"
Verdicts = Generator[tuple[int, Verdict], None, None]
"(index, verdict) as verdicts are final."

# The main process of the box: it becomes torchrun. Standard output goes to a file, because a pipe's reader keeps only
# the ends of a long log. Every cache lies in the attempt's own folder, so that no attempt profits from another.
LAUNCH = """\
import os, socket, sys
for name in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "CUDA_CACHE_PATH", "TORCH_EXTENSIONS_DIR"):
    os.environ[name] = os.path.join(os.getcwd(), "caches", name.lower())
os.dup2(os.open("stdout.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), 1)
with socket.create_server(("127.0.0.1", 0)) as free:
    port = free.getsockname()[1]
where = ["--nnodes=1", "--node_rank=0", "--master_addr=127.0.0.1", f"--master_port={port}"]
command = ["-m", "torch.distributed.run", *where, "--nproc_per_node={processes}", "train_gpt.py"]
os.execv(sys.executable, [sys.executable, *command])
"""


@dataclass(frozen=True)
class _Attempt:
    """One run with what was known before it."""

    job: Job
    starved: bool = False
    """Whether the machine had less memory to give than the race promises, and the kernel killed for want of it while
    the attempt ran."""


class Referee:
    """Runs scripts of one race and judges them by the paper's rules, and by what it recomputes itself.

    `minimum` is the weakest isolation to accept. An attempt on a GPU sees the driver's device files besides.

    An executor whose attribute `local` is false runs attempts on other machines: the state of this machine's GPUs and
    memory then neither refuses nor excuses anything.
    """

    def __init__(self, race: Race, executor: Executor, *, minimum: str = "namespaces") -> None:
        data.require(race)
        self.race, self.executor, self.minimum = race, executor, minimum
        self.local = executor.local
        if not self.local and race.device == "cuda" and not devices.files(race):
            rule = "attempts are given the GPU device files that this machine has, and it has none"
            raise InputError("race", race.name, rule, "train on a machine with the GPUs of those that run attempts")
        # Shards that the user brings may lie where nothing can be written.
        self._key = splits.key(race.prepared.parent if race.text else default_folder("races"))
        self._fingerprint, self._proven = data.fingerprint(race), race.device == "cpu" or not self.local

    def run(self, codes: Sequence[str], *, numbers: Sequence[int] | None = None) -> list[Verdict]:
        """Run every script as train_gpt.py and judge it; verdicts in the order of the scripts."""
        return [verdict for _, verdict in self.stream(codes, numbers=numbers)]

    def stream(self, codes: Sequence[str], *, numbers: Sequence[int] | None = None) -> Verdicts:
        """Run every script as train_gpt.py and judge it; (index, verdict) in order, after every `at_once` attempts.

        `numbers` tell repeats of a script apart: by them, the script and the installation's key a run gets its random
        seed (RACE_SEED). Unless given, equal scripts are counted.

        A script that carries too much is refused unrun. What failed on our side is tried once more.
        Raises InfrastructureError when the shards are no longer those it began with (no verdict could be compared), or
        the GPUs of this machine cannot be had: what was judged before stands.
        """
        if data.fingerprint(self.race) != self._fingerprint:
            remedy = data.remedy(self.race)
            raise InfrastructureError(f"the shards in {self.race.prepared} have changed since the race began; {remedy}")
        tries = [self._attempt(*pair) for pair in zip(codes, numbers or _repeats(codes), strict=True)]
        verdicts: dict[int, Verdict] = {}
        together = self.at_once()
        for start in range(0, len(codes), together):
            places = list(range(start, min(start + together, len(codes))))
            verdicts.update({place: found for place in places if (found := self._overloaded(codes[place]))})
            fit = [place for place in places if place not in verdicts]
            verdicts.update(zip(fit, self._judged([tries[place] for place in fit]), strict=True))
            again = [place for place in fit if not verdicts[place].charged]
            if again:
                verdicts.update(zip(again, self._judged([tries[place] for place in again]), strict=True))
            for place in places:
                yield place, replace(verdicts.pop(place), code=codes[place])

    def _overloaded(self, code: str) -> Verdict | None:
        """The refusal of a script that carries more than code: weights, or the text. Its file is all it brings along.

        Whatever they are written as (literals, comments, names, spaces), they take as much once it is compressed.
        """
        carried = len(zlib.compress(code.encode("utf-8", "surrogatepass"), 9))
        if carried <= self.race.script_bytes:
            return None
        most = f"at most {self.race.script_bytes:,} (script_bytes)"
        words = f"the script carries {carried:,} bytes (its file, compressed), and {most} are allowed: it must train"
        return _unrun("modified", words)

    def at_once(self) -> int:
        """Attempts whose verdicts come together: as many as a pool runs side by side, so that a kill loses no others.

        At most TOGETHER, for their models are in memory meanwhile; so many where the executor is no pool. One where a
        pool's attempts need GPUs: all of them use the first ones.
        """
        if not isinstance(self.executor, Pool):
            return TOGETHER
        if self.race.device == "cuda":
            return 1
        most = max(1, len(cores.usable()) // self.race.cores)
        return max(1, min(self.executor.slots or most, most, TOGETHER))

    def _judged(self, attempts: Sequence[_Attempt]) -> list[Verdict]:
        if not attempts:
            return []
        trouble = devices.trouble(self.race, devices.WAIT_SECONDS) if self.local else ""
        if trouble:
            raise InfrastructureError(f"{trouble}; nothing is charged, and the same command resumes")
        self._prove()
        short = self.local and devices.available_bytes() < self.race.memory_bytes
        kills = devices.memory_kills()
        results = self.executor.run([attempt.job for attempt in attempts])
        starved = short and devices.memory_kills() > kills
        attempts = [replace(attempt, starved=starved) for attempt in attempts]
        changed = data.fingerprint(self.race) != self._fingerprint
        first = [self._read(*pair) for pair in zip(attempts, results, strict=True)]
        if changed:
            return [self._tampered(verdict) for verdict, _ in first]
        return self._recomputed(first)

    def _prove(self) -> None:
        """Once, before the first attempt: a box can use the GPU. Else every script would be charged for its lack."""
        if self._proven:
            return
        limits = Limits(seconds=120, memory_bytes=self.race.memory_bytes, cores=self.race.cores, processes=512)
        names, files = devices.variables(self.race), devices.files(self.race)
        job = Job(PROOF, limits, minimum=self.minimum, environment=names, devices=files)
        (result,) = self.executor.run([job])
        if result.status != "ok":
            why = " ".join((result.stderr or result.message).split())[-300:]
            remedy = "does the machine itself see it (python -c 'import torch; torch.zeros(1).cuda()'), and are"
            raise InfrastructureError(f"a box cannot use the GPU ({why}); {remedy} /dev/nvidia* open to all users?")
        self._proven = True

    def _attempt(self, code: str, number: int) -> _Attempt:
        race = self.race
        models = [MODEL, *(checkpoint(number * race.cadence) for number in range(kept(race)))]
        limits = Limits(
            seconds=race.cap_seconds,
            memory_bytes=race.memory_bytes,
            cores=race.cores,
            processes=1024,
            disk_bytes=max(2**30, (16 if race.recompute else 64) * race.model_bytes),  # all models come back at once
            file_bytes=max(race.model_bytes, OUTPUT_BYTES) if race.recompute else OUTPUT_BYTES,
        )
        threads = str(max(1, race.cores // race.processes))
        job = Job(
            LAUNCH.replace("{processes}", str(race.processes)),
            limits,
            data={race.data: race.public},
            files={"train_gpt.py": code.encode("utf-8", "surrogatepass")},
            collect=[OUTPUT, *models] if race.recompute else [OUTPUT],
            environment={
                "DATA_PATH": ".",
                "RACE_SEED": str(splits.attempt_seed(self._key, code, number)),
                "OMP_NUM_THREADS": threads,
                "MKL_NUM_THREADS": threads,
                "GLOO_SOCKET_IFNAME": "lo",
                "NCCL_SOCKET_IFNAME": "lo",
                **devices.variables(race),
            },
            hide=hidden_paths(race),
            minimum=self.minimum,
            devices=devices.files(race),
        )
        return _Attempt(job)

    def _read(self, attempt: _Attempt, result: Result) -> tuple[Verdict, list[Claim]]:
        """The verdict as far as clock and log tell, and the claims that are still to be recomputed."""
        log = logs.read(result.files.get(OUTPUT, b"")[:OUTPUT_BYTES])
        status, message = self._by_log(attempt, result, log)
        final = log.final
        verdict = Verdict(
            valid=False,
            reward=0.0,
            score=None,
            seconds=max(FLOOR_SECONDS, result.seconds),
            message=message,
            status=status,
            code="",
            output=_output(result),
            wall_seconds=result.seconds,
            cpu_seconds=result.cpu_seconds,
            peak_memory_bytes=result.peak_memory_bytes,
            level=result.level,
            contaminated=result.contaminated,
            printed_loss=final.loss if final else None,
            steps=final.step if final else 0,
            printed_seconds=final.train_ms / 1000 if final else None,
        )
        if message or final is None:
            return verdict, []
        if not self.race.recompute:
            return self._scored(verdict, final.loss), []
        if MODEL not in result.files:
            why = f"{MODEL}: {result.refused.get(MODEL, 'missing')}"
            return replace(verdict, status="reevaluation-mismatch", message=f"no saved model to believe ({why})"), []
        claims = [Claim(final.step, final.loss, result.files[MODEL], final=True)]
        earlier = log.validations[:-1]
        if len(earlier) > kept(self.race):
            why = f"it validated {len(earlier)} times before its last step, and {kept(self.race)} models are looked at"
            return replace(verdict, status="reevaluation-mismatch", message=why), []
        for line in secrets.SystemRandom().sample(earlier, min(SPOTS, len(earlier))):
            model = result.files.get(checkpoint(line.step))
            if model is None:
                why = f"it printed a loss at step {line.step} without saving the model"
                return replace(verdict, status="reevaluation-mismatch", message=why), []
            claims.append(Claim(line.step, line.loss, model, final=False))
        return verdict, claims

    def _by_log(self, attempt: _Attempt, result: Result, log: logs.Log) -> tuple[Status, str]:
        """Status, and why the attempt is not valid (empty while no reason is found).

        The order of the paper's authors: timeout, crash, no line, cadence.
        """
        race, timed_out = self.race, result.status == "timeout"
        if result.status == "sandbox-failure":
            return SANDBOX_FAILURE, f"the sandbox failed: {result.message}"
        if result.status not in ("ok", "timeout"):
            excuse = self._excuse(attempt, result) if not log.validations else ""
            if excuse:
                return SANDBOX_FAILURE, f"it could not start: {excuse}"
            return "error", messages.crash(result.stderr, result.message)
        status: Status = "timeout" if timed_out else "ok"
        if len(result.files.get(OUTPUT, b"")) > OUTPUT_BYTES or OUTPUT not in result.files:
            why = result.refused.get(OUTPUT, f"more than {OUTPUT_BYTES:,} bytes")
            return "timeout" if timed_out else "parse-failure", f"its output was not readable: {why}"
        if not log.validations:
            words = (
                f"no validation line was printed within {race.cap_seconds:g} s" if timed_out else "no validation line"
            )
            stray = f"; {log.stray} lines mention val_loss in another form" if log.stray else ""
            return "timeout" if timed_out else "parse-failure", words + stray
        if log.problem:
            return "parse-failure", log.problem
        problem = logs.cadence_problem(log, race.cadence, finished=not timed_out)
        return (
            ("cadence-violation", f"{problem} (every {race.cadence} steps and the last)") if problem else (status, "")
        )

    def _excuse(self, attempt: _Attempt, result: Result) -> str:
        """Why a crash at start-up is not the script's fault; empty when it is. Its own words prove nothing."""
        if attempt.starved and result.peak_memory_bytes < ENOUGH * self.race.memory_bytes:
            return "the machine had less memory than the race promises, and killed for want of it"
        return devices.excuses(self.race, result.stderr) if self.local else ""

    def _recomputed(self, first: Sequence[tuple[Verdict, list[Claim]]]) -> list[Verdict]:
        verdicts = [verdict for verdict, _ in first]
        places = [place for place, (_, claims) in enumerate(first) if claims]
        if not places:
            return verdicts
        with reevaluation.folder() as folder:
            recomputations = [
                reevaluation.job_of(
                    self.race,
                    first[place][1],
                    folder,
                    minimum=self.minimum,
                    timed_out=verdicts[place].status == "timeout",
                )
                for place in places
            ]
            results = self.executor.run([one.job for one in recomputations])
        for place, asked, result in zip(places, recomputations, results, strict=True):
            verdicts[place] = self._believed(verdicts[place], reevaluation.read(self.race, asked, result))
        return verdicts

    def _believed(self, verdict: Verdict, finding: LossFinding) -> Verdict:
        if finding.failure:
            return replace(verdict, status=SANDBOX_FAILURE, message=finding.failure)
        verdict = replace(verdict, public_loss=finding.open_loss)
        if finding.problem or finding.believed is None:
            return replace(verdict, status="reevaluation-mismatch", message=finding.problem)
        return self._scored(verdict, finding.believed)

    def _scored(self, verdict: Verdict, loss: float) -> Verdict:
        timed_out = verdict.status == "timeout"
        printed = loss if verdict.printed_loss is None else verdict.printed_loss
        words = messages.success(self.race, loss, printed, verdict.seconds, timed_out=timed_out)
        crossed = loss <= self.race.target_loss
        return replace(verdict, valid=True, score=loss, crossed=crossed, message=words)

    def _tampered(self, verdict: Verdict) -> Verdict:
        """The shards are not what they were. In a box no script can do that; without one it may have been this one."""
        words = f"the shards in {self.race.prepared} have changed"
        ran_at = levels.NAMED.get(verdict.level)
        if ran_at is not None and not ran_at.can.protects_files:
            return replace(verdict, status="tampered-data", valid=False, score=None, crossed=False, message=words)
        return replace(
            _unrun(SANDBOX_FAILURE, words), seconds=verdict.seconds, output=verdict.output, level=verdict.level
        )


def checkpoint(step: int) -> str:
    """The file that the model of a step is saved in."""
    return f"model_{step:06d}.pt"


def kept(race: Race) -> int:
    """Validations before the last one whose models come back: some are drawn from them after the run."""
    return max(LEAST_KEPT, 4 * race.baseline_steps // race.cadence)


def _repeats(codes: Sequence[str]) -> list[int]:
    """The number of each run: equal scripts are counted."""
    seen: Counter[str] = Counter()
    found = []
    for code in codes:
        found.append(FIRST_NUMBER + seen[code])
        seen[code] += 1
    return found


def _unrun(status: Status, words: str) -> Verdict:
    return Verdict(valid=False, reward=0.0, score=None, seconds=FLOOR_SECONDS, message=words, status=status, code="")


def _output(result: Result) -> str:
    """The end of what it printed, without characters that would do something to a terminal."""
    text = result.files.get(OUTPUT, b"")[-OUTPUT_CHARACTERS:].decode("utf-8", "replace") + result.stderr
    return "".join(c if c in "\n\t" or c.isprintable() else "\ufffd" for c in text[-OUTPUT_CHARACTERS:])
