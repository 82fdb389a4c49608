"""Remake what the docs show from the code itself (figures, tables, help pages), then check every link.

    make docs

A part between the lines `<!-- made: NAME -->` and `<!-- end -->` is written by the function of that name below.
"""

from __future__ import annotations

import contextlib
import csv
import functools
import importlib
import io
import json
import os
import re
import sys
from pathlib import Path

from rewardrate.cli.main import VERBS, main
from rewardrate.environments.mle.folder import load, shipped
from rewardrate.environments.mle.lite import table as lite_table
from rewardrate.environments.mle.preparation import prepare
from rewardrate.reports.rates import changepoint_table, draw_changepoint, over_pricing_table
from rewardrate.reports.tasks import draw as draw_task
from rewardrate.reports.tasks import draw_all, score_table
from rewardrate.reports.theory import draw
from rewardrate.reports.timed import draw_shares
from rewardrate.theory.check import CheckConfig, check_theory

DOCS = Path(__file__).parent
ROOT = DOCS.parent
PAGES = sorted([*DOCS.rglob("*.md"), *ROOT.glob("*.md"), *(ROOT / "results").rglob("*.md")])


def help_pages() -> str:
    """Every --help page, as it is printed."""
    calls = [["--help"]]
    for verb in VERBS:
        calls.append([verb, "--help"])
        calls += [[verb, name, "--help"] for name in importlib.import_module(f"rewardrate.cli.{verb}").commands()]
    return "\n\n".join(f"```text\n$ {' '.join(['rewardrate', *call])}\n{printed(call)}\n```" for call in calls)


def printed(call: list[str]) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
        main(call)
    return out.getvalue().rstrip()


def statements() -> str:
    """The findings of the published check."""
    lines = [
        "| statement | claim | tried | violations | smallest slack | tight example |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for finding in check_theory(CheckConfig()):
        tight = "-" if finding.tight is None else f"{finding.tight:.0e}"
        name, claim = finding.statement.name, finding.statement.claim.replace("|", "\\|")
        lines.append(
            f"| {name} | {claim} | {finding.tried:,} | {finding.violations} | {finding.smallest_slack:.0e} | {tight} |"
        )
    return "\n".join(lines)


def tasks() -> str:
    """Each task: what it is, its table, its figure."""
    parts = []
    for name in shipped():
        task = load(name)
        prepare(task)
        about = f"{task.goal} {task.metric.capitalize()}; {task.modality}; limit {task.limit_seconds:g} s."
        source = f"Source: {task.source.package}, {task.source.data}; licence: {task.source.licence}."
        draw_task(task, DOCS / "figures" / f"task-{name}")
        figure = f"![Gain against seconds of the reference scripts of {name}](../../docs/figures/task-{name}.png)"
        parts.append(f"### {name}\n\n{about} {source}\n\n{score_table(task)}\n\n{figure}")
    draw_all([load(name) for name in shipped()], DOCS / "figures" / "tasks")
    return "\n\n".join(parts)


def deadline(column: str) -> str:
    """A table of the newest comparison of prices with the exact optimum: `loss`, or `less_vanilla`."""
    path = max((ROOT / "results").glob("*-deadline-lab/deadline.json"))
    families = json.loads(path.read_text())["families"]
    head = [f"{one['family']} ({one['optimum']:.3f})" if column == "loss" else one["family"] for one in families]
    lines = [f"| price | {' | '.join(head)} |", "|---|" + "---:|" * len(families)]
    for name in dict.fromkeys(name for one in families for name in one["rules"]):
        found = [one["rules"].get(name, {}).get(column) for one in families]
        sign = "" if column == "loss" else "+"
        cells = [
            "-" if one is None else f"{one['mean']:{sign}.3f} ({one['low']:{sign}.3f}, {one['high']:{sign}.3f})"
            for one in found
        ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def stream_table(column: str, chains: int) -> str:
    """A table of the newest comparison of ways to learn from chains that do not wait: `share` or `rate`."""
    rows = [row for row in _streams("bias.csv") if int(row["chains"]) == chains]
    slow = list(dict.fromkeys(row["slow_seconds"] for row in rows))
    head = [f"{float(one):g} s, updates {when}" for one in slow for when in ("1-3", "31-60")]
    lines = [f"| way | {' | '.join(head)} |", "|---|" + "---:|" * len(head)]
    for way in dict.fromkeys(row["way"] for row in rows):
        found = {row["slow_seconds"]: row for row in rows if row["way"] == way}
        cells = [_plus_minus(found[one], f"{when}_{column}") for one in slow for when in ("early", "late")]
        lines.append(f"| {way} | {' | '.join(cells)} |")
    return "\n".join(lines)


def stream_costs(chains: int) -> str:
    """What a bound on age costs, in both orders."""
    rows = [row for row in _streams("cost.csv") if int(row["chains"]) == chains]
    names = ("speed", "busy", "mean age", "largest age")
    head = [f"{order}: {name}" for order in ("start", "finish") for name in names]
    lines = [f"| spread | bound on age | {' | '.join(head)} |", "|---:|---:|" + "---:|" * len(head)]
    for spread, age in dict.fromkeys((row["spread"], row["age"]) for row in rows):
        found = {row["order"]: row for row in rows if (row["spread"], row["age"]) == (spread, age)}
        cells = []
        for row in (found["start"], found["finish"]):
            speed, busy, mean_age = (float(row[name]) for name in ("speed", "busy", "mean_age"))
            cells.append(f"{speed:.1f} | {busy:.2f} | {mean_age:.1f} | {row['largest_age']}")
        lines.append(f"| {float(spread):g} | {age} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _streams(name: str) -> list[dict[str, str]]:
    return list(csv.DictReader(max((ROOT / "results").glob(f"*-stream-bias/{name}")).open()))


def _plus_minus(row: dict[str, str], name: str) -> str:
    mean, low = float(row[name]), float(row[f"{name}_low"])
    digits = 3 if mean < 2 else 2
    return f"{mean:.{digits}f} ± {mean - low:.{digits}f}"


def task_list() -> str:
    """Each task in a line."""
    lines = ["| task | goal | metric | modality | limit |", "|---|---|---|---|---:|"]
    for name in shipped():
        task = load(name)
        lines.append(f"| {name} | {task.goal} | {task.metric} | {task.modality} | {task.limit_seconds:g} s |")
    return "\n".join(lines)


PARTS = {
    "changepoint": changepoint_table,
    "deadline_less_vanilla": lambda: deadline("less_vanilla"),
    "deadline_loss": lambda: deadline("loss"),
    "help": help_pages,
    "lite": lite_table,
    "over_pricing": over_pricing_table,
    "statements": statements,
    **{f"stream_share_{chains}": functools.partial(stream_table, "share", chains) for chains in (16, 64, 128)},
    **{f"stream_rate_{chains}": functools.partial(stream_table, "rate", chains) for chains in (16, 64, 128)},
    **{f"stream_cost_{chains}": functools.partial(stream_costs, chains) for chains in (16, 64, 128)},
    "task_list": task_list,
    "tasks": tasks,
}


def fill(page: Path) -> None:
    text = page.read_text()

    def replace(match: re.Match[str]) -> str:
        return f"<!-- made: {match[1]} -->\n\n{PARTS[match[1]]()}\n\n<!-- end -->"

    made = re.sub(r"<!-- made: (\w+) -->.*?<!-- end -->", replace, text, flags=re.DOTALL)
    if made != text:
        page.write_text(made)
        print(f"remade {page.relative_to(ROOT)}")


def broken_links(page: Path) -> list[str]:
    """Relative links and images of a page that lead nowhere, and anchors that do not exist."""
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if not target.exists():
            broken.append(f"{page.relative_to(ROOT)}: {link}")
        elif anchor and target.suffix == ".md" and anchor not in anchors(target):
            broken.append(f"{page.relative_to(ROOT)}: {link} (no such heading)")
    return broken


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


if __name__ == "__main__":
    os.environ["COLUMNS"] = "110"  # help pages wrap at the width of the terminal
    draw(DOCS / "figures" / "theory")
    draw_changepoint(DOCS / "figures" / "changepoint")
    draw_shares(ROOT / "results" / "2026-11-16-timed-sb3" / "rows.csv", DOCS / "figures" / "timed-sb3")
    for page in PAGES:
        fill(page)
    problems = [line for page in PAGES for line in broken_links(page)]
    print("\n".join(problems) if problems else f"{len(PAGES)} pages, every link leads somewhere")
    sys.exit(1 if problems else 0)
