"""Re-timing seeds on this machine: a time from another machine is another clock."""

from __future__ import annotations

import csv
import io
import os
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rewardrate.attempt import SANDBOX_FAILURE
from rewardrate.environments.speedrun import seeds, significance
from rewardrate.environments.speedrun.data import split_name
from rewardrate.environments.speedrun.race import Race
from rewardrate.environments.speedrun.referee import FIRST_NUMBER, Referee
from rewardrate.environments.speedrun.seeds import Seed
from rewardrate.environments.speedrun.significance import Claimed
from rewardrate.environments.speedrun.verdict import Verdict
from rewardrate.errors import InputError

COLUMNS = (
    "seed",
    "runs",
    "valid",
    "loss",
    "loss_sd",
    "printed",
    "open_loss",
    "seconds",
    "seconds_sd",
    "cpu_seconds",
    "steps",
    "p_below_target",
    "crossed",
    "disturbed",
    "status",
    "about",
)


@dataclass(frozen=True)
class RescoredSeed:
    """One seed, re-timed."""

    seed: Seed
    claimed: Claimed


def rescore(
    referee: Referee,
    found: Sequence[Seed],
    out: Path,
    runs: int,
    on_done: Callable[[RescoredSeed], None] | None = None,
) -> list[RescoredSeed]:
    """Run every seed `runs` times and write out/records (a folder of seeds), out/table.csv and out/table.md.

    Rounds go over all seeds in turn, so that a slow hour of the machine falls on all alike; every round has another
    RACE_SEED. Everything is written anew after each run: whoever stops it keeps what was done. A seed's constants are
    replaced by the race's own.
    """
    if not found:
        raise InputError(
            "records", str(referee.race.seeds), "there is no NAME/train_gpt.py or NAME/edits.txt in that folder"
        )
    race = referee.race
    _check_out(out)
    adapted = [replace(seed, code=race.with_constants(seed.code)) for seed in found]
    verdicts: list[list[Verdict]] = [[] for _ in adapted]
    rows: list[RescoredSeed] = []
    for number in range(FIRST_NUMBER, FIRST_NUMBER + runs):
        for place, seed in enumerate(adapted):
            verdicts[place] += referee.run([seed.code], numbers=[number])
            rows = [
                RescoredSeed(seeds.retimed(one, judged, machine()), significance.together(race, judged))
                for one, judged in zip(adapted, verdicts, strict=True)
            ]
            _write(out, rows, race)
            if on_done is not None:
                on_done(rows[place])
    return rows


def _check_out(out: Path) -> None:
    """Refuse a place that cannot be written, or where something else than records would be replaced."""
    records = out / "records"
    try:
        out.mkdir(parents=True, exist_ok=True)
        strange = [path.name for path in records.iterdir() if not (path / seeds.SCRIPT).is_file()]
    except FileNotFoundError:
        return
    except OSError as error:
        raise InputError("--out", str(out), f"it cannot be used ({error.strerror})") from None
    if strange:
        rule = f"{records} holds {sorted(strange)[0]}, which is no record, and would be replaced"
        raise InputError("--out", str(out), rule, "give another folder")


def machine() -> str:
    """The machine we run on, in a few words."""
    return f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"


def cells(row: RescoredSeed) -> dict[str, str]:
    """A row of the table as words."""
    claimed, counted = row.claimed, row.claimed.verdicts
    last = counted[-1] if counted else None
    cpu = [verdict.cpu_seconds for verdict in counted]

    def number(value: float | None, digits: int) -> str:
        return "" if value is None else f"{value:.{digits}f}"

    return {
        "seed": row.seed.name,
        "runs": str(len(counted)),
        "valid": str(claimed.valid),
        "loss": number(claimed.mean_loss, 4),
        "loss_sd": number(claimed.deviation_loss, 4),
        "printed": number(last.printed_loss if last else None, 4),
        "open_loss": number(last.public_loss if last else None, 4),
        "seconds": number(claimed.mean_seconds, 1),
        "seconds_sd": number(claimed.deviation_seconds, 1),
        "cpu_seconds": number(sum(cpu) / len(cpu) if cpu else None, 1),
        "steps": str(last.steps if last else 0),
        "p_below_target": "" if claimed.p_value is None else f"{claimed.p_value:.2g}",
        "crossed": "yes" if claimed.crossed else "no",
        "disturbed": str(sum(verdict.contaminated for verdict in counted)),
        "status": last.status if last else SANDBOX_FAILURE,
        "about": row.seed.record.about,
    }


def _write(out: Path, rows: Sequence[RescoredSeed], race: Race) -> None:
    out.mkdir(parents=True, exist_ok=True)
    seeds.write(out / "records", [row.seed for row in rows])
    lines = [cells(row) for row in rows if row.claimed.verdicts]
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    _replace(out / "table.csv", text.getvalue())
    shown = [
        f"Seeds of {race.name} on {machine()}; target {race.target_loss:g}, split {split_name(race) or 'unknown'}.\n",
        f"| {' | '.join(COLUMNS)} |",
    ]
    shown += ["|" + "---|" * len(COLUMNS)]
    shown += ["| " + " | ".join(line[column].replace("|", "/") for column in COLUMNS) + " |" for line in lines]
    _replace(out / "table.md", "\n".join(shown) + "\n")


def _replace(path: Path, text: str) -> None:
    part = path.with_name(path.name + ".part")
    part.write_text(text, encoding="utf-8")
    os.replace(part, path)
