"""Seeds: scripts of known speed that the solution buffer starts with. Paper, appendix "NanoGPT", "Seeds".

A folder of records, one folder each:

    NAME/train_gpt.py    the script; or
    NAME/edits.txt       edit blocks (`edits`) that make it from the race's own script, or the word NO_CHANGE
    NAME/record.toml     what it came to on this machine: valid, loss, seconds, message

`rewardrate speedrun rescore` runs them all and writes the records anew: a time from another machine is another clock.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from rewardrate import config
from rewardrate.attempt import FLOOR_SECONDS, Outcome, Status
from rewardrate.config import AtLeast
from rewardrate.environments.speedrun import edits
from rewardrate.environments.speedrun.edits import CHARACTERS, EditRefused
from rewardrate.environments.speedrun.race import Race
from rewardrate.environments.speedrun.rewards import RaceRewards
from rewardrate.environments.speedrun.verdict import Verdict
from rewardrate.errors import InputError

SCRIPT, EDITS, RECORD = "train_gpt.py", "edits.txt", "record.toml"
NO_CHANGE = "NO_CHANGE"
FOLDER = "seeds"  # of a run folder: what its buffer began with
BASE = "baseline.py"  # of a run folder: the race's own script, which proposals without a parent change


@dataclass(frozen=True)
class Record:
    """What a seed came to when it was last run."""

    valid: bool = False
    "Only valid seeds enter the buffer."
    loss: Annotated[float, AtLeast(0)] | None = None
    seconds: Annotated[float, AtLeast(0)] = 0.0
    message: str = ""
    "What a model is told about it."
    about: str = ""
    "What the script does, for people."
    machine: str = ""
    "Where it was run."
    runs: Annotated[int, AtLeast(0)] = 0
    "How often; loss and seconds are means."


@dataclass(frozen=True)
class Seed:
    """One script with its record."""

    name: str
    code: str
    record: Record

    def outcome(self, rewards: RaceRewards) -> Outcome:
        """The seed as if it were an attempt: what it earned, and in how many seconds."""
        record = self.record
        usable = record.valid and record.loss is not None and record.seconds > 0
        earned = rewards.earned(record.loss) if usable and record.loss is not None else 0.0
        seconds = max(FLOOR_SECONDS, record.seconds)
        message = record.message or f"val_loss {record.loss} in {record.seconds:g} s"
        key = rewards.vanilla(record.loss, seconds, valid=True) if usable else None
        status: Status = "ok" if usable else "error"
        return Outcome(
            valid=usable,
            reward=earned,
            score=record.loss,
            seconds=seconds,
            message=message,
            status=status,
            code=self.code,
            rank_key=key,
        )


def of_run(race: Race, run: Path, given: str | None) -> list[Seed]:
    """The seeds of a run: those that its folder keeps, or at its beginning those that its recipe names or the race has.

    Kept in the run's folder, so that a resumed run has its own. Only valid ones are kept.
    """
    kept = run / FOLDER
    if not kept.is_dir():
        known = _known(race, given)
        run.mkdir(parents=True, exist_ok=True)
        (run / BASE).write_text(race.baseline, encoding="utf-8")
        write(kept, known)
    return read(kept)


def _known(race: Race, given: str | None) -> list[Seed]:
    """The seeds in the folder that a recipe names, or the race's own. Those of another race had another size."""
    if given:
        found = read(Path(given), race)
        if not any(seed.record.valid for seed in found):
            rule = f"of the {len(found)} seeds (NAME/train_gpt.py or NAME/edits.txt) there none has a valid record"
            remedy = f"rewardrate speedrun rescore {race.name} --out DIR writes them to DIR/records"
            raise InputError("environment.seeds", given, rule, remedy)
    else:
        own = race.folder.resolve() in race.seeds.parents
        shared = read(race.seeds, race) if own else []
        found = [replace(seed, code=race.with_constants(seed.code)) for seed in shared]
    return [seed for seed in found if seed.record.valid]


def read(folder: Path, race: Race | None = None) -> list[Seed]:
    """The seeds of a folder, by name; none when there is no such folder. Raises InputError for one that is broken.

    `race`: whose script the seeds that are edits are made from.
    """
    if not folder.is_dir():
        return []
    found = {path.parent for name in (SCRIPT, EDITS) for path in folder.glob(f"*/{name}")}
    return [read_one(path, race) for path in sorted(found)]


def read_one(folder: Path, race: Race | None = None) -> Seed:
    """The seed in a folder of its own. Raises InputError for one that is broken."""
    whole = folder / SCRIPT
    code = _text(whole) if whole.exists() or not (folder / EDITS).exists() else _edited(folder, race)
    if len(code) > CHARACTERS:
        raise InputError("seed", folder.name, f"its script has {len(code):,} characters; at most {CHARACTERS:,}")
    path = folder / RECORD
    record = config.build(Record, config.read_toml(path), f"{folder.name}: ") if path.exists() else Record()
    if record.valid and (record.loss is None or record.seconds <= 0):
        remedy = "run rewardrate speedrun rescore"
        raise InputError("seed", folder.name, "its record is valid and has no loss or no seconds", remedy)
    return Seed(folder.name, code, record)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError("seed", path.parent.name, f"{path} cannot be read as text ({error})") from None


def _edited(folder: Path, race: Race | None) -> str:
    """The race's script with the seed's edits, on the same terms as a policy's, and with the race's constants."""
    text = _text(folder / EDITS)
    if race is None:
        raise InputError("seed", folder.name, f"{EDITS} changes a race's script, and no race is given", f"add {SCRIPT}")
    if text.strip() == NO_CHANGE:
        return race.baseline
    try:
        return race.with_constants(edits.apply(race.script_text, text).code)
    except (EditRefused, InputError) as error:
        why = error.reason if isinstance(error, EditRefused) else "constants"
        rule = f"{folder / EDITS} does not fit {race.script} ({why}): {error}"
        raise InputError("seed", folder.name, rule, f"mend it, or put the whole {SCRIPT} there") from None


def write(folder: Path, seeds: Sequence[Seed]) -> None:
    """Write seeds as a folder of records: as a whole, or not at all where there is none yet."""
    partial = folder.with_name(folder.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    for seed in seeds:
        place = partial / seed.name
        place.mkdir(parents=True)
        (place / SCRIPT).write_text(seed.code, encoding="utf-8")
        (place / RECORD).write_text(config.dumps(seed.record), encoding="utf-8")
    partial.mkdir(parents=True, exist_ok=True)
    if folder.exists():
        shutil.rmtree(folder)
    os.replace(partial, folder)


def retimed(seed: Seed, verdicts: Sequence[Verdict], machine: str) -> Seed:
    """A seed with the record of new runs: means over the valid ones; invalid if any of them was not.

    Runs that failed by our own fault do not count; with none left the record stays as it is.
    """
    counted = [verdict for verdict in verdicts if verdict.charged]
    if not counted:
        return seed
    losses = [verdict.score for verdict in counted if verdict.score is not None]
    record = replace(
        seed.record,
        valid=all(verdict.valid for verdict in counted) and len(losses) == len(counted),
        loss=sum(losses) / len(losses) if losses else None,
        seconds=sum(verdict.seconds for verdict in counted) / len(counted),
        message=counted[-1].message,
        machine=machine,
        runs=len(counted),
    )
    return replace(seed, record=record)
