"""Recomputing what an attempt claims: saved models in, losses out, in a box that runs none of the attempt's code."""

from __future__ import annotations

import contextlib
import json
import math
import secrets
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rewardrate.environments.speedrun import devices, recompute
from rewardrate.environments.speedrun.data import HIDDEN
from rewardrate.environments.speedrun.race import Race
from rewardrate.sandbox import Job, Limits, Result


@dataclass(frozen=True)
class Claim:
    """A printed loss and the model it is said to be of."""

    step: int
    loss: float
    model: bytes
    final: bool
    "Whether it is the last one, which is also tried on hidden tokens and looked at for looking ahead."


@dataclass(frozen=True)
class LossFinding:
    """What came of recomputing the claims of one attempt."""

    problem: str = ""
    "Which rule the attempt broke; empty when none."
    failure: str = ""
    "What failed on our side; the attempt is not charged."
    open_loss: float | None = None
    hidden_loss: float | None = None

    @property
    def believed(self) -> float | None:
        """The loss that counts: on hidden tokens where there are some."""
        return self.open_loss if self.hidden_loss is None else self.hidden_loss


@dataclass(frozen=True)
class Recomputation:
    """One box to be run, and what is needed to read its answer."""

    job: Job
    claims: tuple[Claim, ...]
    answer: str
    timed_out: bool


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    """A folder for models on their way into boxes; gone afterwards."""
    path = Path(tempfile.mkdtemp(prefix="rewardrate-models-"))
    path.chmod(0o755)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def job_of(race: Race, claims: Sequence[Claim], place: Path, *, minimum: str, timed_out: bool = False) -> Recomputation:
    """The box that recomputes these claims; models are put below `place`, which must outlive it."""
    models = place / secrets.token_hex(8)
    models.mkdir()
    models.chmod(0o755)
    checks = []
    for number, claim in enumerate(claims):
        (models / f"{number}.pt").write_bytes(claim.model)
        (models / f"{number}.pt").chmod(0o644)
        checks.append({"file": f"{number}.pt", "final": claim.final})
    hidden = race.private / HIDDEN
    data: dict[str, Path | str] = {"models": models, "open": race.public}
    if hidden.is_file():
        shown = place / HIDDEN
        if not shown.exists():
            shutil.copyfile(hidden, shown)
            shown.chmod(0o644)
        data["hidden.bin"] = shown
    answer = f"answer-{secrets.token_hex(16)}.json"
    request = {
        "answer": answer,
        "device": race.device,
        "checks": checks,
        "tokens": race.validation_tokens,
        "open": [f"data/open/{path.name}" for path in sorted(race.public.glob(race.validation_files))],
        "hidden": ["data/hidden.bin"] if hidden.is_file() else [],
        "probes": race.probes,
        "seed": secrets.randbelow(2**31),
    }
    job = Job(
        Path(recompute.__file__).read_text(encoding="utf-8"),
        Limits(seconds=race.recompute_seconds, memory_bytes=race.memory_bytes, cores=race.cores, processes=512),
        data=data,
        files={recompute.REQUEST: json.dumps(request).encode()},
        collect=[answer],
        minimum=minimum,
        environment=devices.variables(race),
        devices=devices.files(race),
    )
    return Recomputation(job, tuple(claims), answer, timed_out)


def read(race: Race, asked: Recomputation, result: Result) -> LossFinding:
    """What the box found, held against the claims."""
    if result.status == "sandbox-failure":
        return LossFinding(failure=f"recomputing failed: {result.message}")
    if result.status == "timeout" and result.contaminated:
        return LossFinding(failure="recomputing was not done in time, and others used its cores meanwhile")
    if result.status == "timeout":
        return LossFinding(f"recomputing its loss took longer than {race.recompute_seconds:g} s")
    if result.status != "ok" or asked.answer not in result.files:
        words = " ".join(result.stderr.split())[-300:]
        return LossFinding(f"its saved model could not be evaluated: {result.message or words or 'no answer'}")
    try:
        answers: Any = json.loads(result.files[asked.answer])
        if isinstance(answers, dict):  # written before any model was loaded
            return LossFinding(failure=f"recomputing failed: {answers['failure']!s}")
        findings = [_held(race, claim, answer, asked) for claim, answer in zip(asked.claims, answers, strict=True)]
    except (ValueError, KeyError, TypeError, AttributeError):  # the program got at the process that judged it
        return LossFinding("its saved model could not be evaluated: the answer makes no sense")
    final = next(found for found, claim in zip(findings, asked.claims, strict=True) if claim.final)
    first = next((found.problem for found in findings if found.problem), "")
    if excuse := devices.excuses(race, first):
        return LossFinding(failure=f"recomputing failed ({first}), and {excuse}")
    return LossFinding(first, "", final.open_loss, final.hidden_loss)


def _held(race: Race, claim: Claim, answer: dict[str, Any], asked: Recomputation) -> LossFinding:
    found, hidden = answer.get("open_loss"), answer.get("hidden_loss")
    problem = str(answer["problem"])
    if not problem and (found is None or not math.isfinite(found)):
        problem = "its saved model has no finite loss"
    if not problem:
        problem = _broken(race, claim, answer, asked)
    return LossFinding(problem, "", found, hidden)


def _broken(race: Race, claim: Claim, answer: dict[str, Any], asked: Recomputation) -> str:
    """Which rule the answer shows to be broken."""
    found, hidden = answer["open_loss"], answer.get("hidden_loss")
    ahead = answer["step"] - claim.step
    later = asked.timed_out and claim.final and 0 < ahead <= race.cadence  # killed between saving and printing
    if not later and abs(found - claim.loss) > race.loss_tolerance + 5e-5:
        return f"it printed val_loss {claim.loss:.4f} at step {claim.step}, and its saved model has {found:.4f}"
    if answer.get("leak", 0.0) > race.causal_tolerance:
        return f"its predictions change by {answer['leak']:.3f} when only later tokens change: it looks ahead"
    if answer.get("gain", 0.0) > race.gain_tolerance:
        words = f"its loss is lower by {answer['gain']:.4f} on average than without sight of later tokens"
        return f"{words}: it looks ahead"
    if answer["drift"] > max(race.causal_tolerance, recompute.REPEAT_TOLERANCE):
        return f"its saved model answers the same question differently the second time (by {answer['drift']:.3f})"
    if hidden is not None and abs(hidden - found - race.hidden_gap) > race.hidden_tolerance:
        words = f"its loss is {found:.4f} on the validation tokens it can read, and {hidden:.4f} on others like them"
        worse = hidden - found > race.hidden_gap
        return f"{words}: {'it was fitted to the former' if worse else 'no honest model knows the latter so well'}"
    return ""
