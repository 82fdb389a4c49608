"""The page of a bandit study: the figures of `reports.bandits` and the tables of `reports.bandit_tables`."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from rewardrate.reports import bandit_tables, bandits
from rewardrate.reports.document import document, escape, figure, fold, table
from rewardrate.reports.svg import themed

FILE = "study.sqlite"
"What `rewardrate bandit study` writes."
CAPTIONS = {
    "horizon": "Regret at the horizon against the number of arms, a panel for each family of worlds. Lower is better.",
    "pseudo": "The same in expectation: what the chosen actions cost on average, without the noise of the draws.",
    "curves": "Regret against steps: families down, numbers of arms across; the band is the 95 % interval over seeds.",
    "prices": "What each agent charges for a second against the optimal rate.",
    "tuning": "Regret over the settings that were tried on the tuning seeds; the marked one was evaluated.",
}


def page(folder: Path) -> str:
    """The page; InputError if the study is damaged, or nothing has been evaluated yet."""
    path = Path(folder) / FILE
    title = Path(folder).resolve().name or "study"
    sections = {"result": "Result"}
    body = (
        f'<h1>{escape(title)}</h1><p class="lead">bandits whose actions take time</p><section id="result">'
        f"<h2>Regret at the horizon</h2>{from_markdown(bandit_tables.horizon_table(path))}"
        f"{fold('Settings that tuning selected', from_markdown(bandit_tables.selected_table(path)))}</section>"
    )
    groups: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="rewardrate-") as place:
        for drawn in bandits.draw_all(path, Path(place)):
            if drawn.suffix == ".svg":
                kind = drawn.stem.partition("-")[0]
                text = themed(drawn.read_text(encoding="utf-8"), drawn.stem)
                caption = CAPTIONS.get(kind, "")
                groups[kind] = groups.get(kind, "") + figure(text, drawn.stem, drawn.stem, caption, broad=True)
    for kind, shown in groups.items():
        sections[kind] = kind.capitalize()
        body += f'<section id="{kind}"><h2>{kind.capitalize()}</h2><div class="charts one">{shown}</div></section>'
    return document(title, body, sections=sections)


def from_markdown(text: str) -> str:
    """A Markdown table as HTML; other lines go above it."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    above = "".join(f"<p>{escape(line)}</p>" for line in lines if not line.startswith("|"))
    if len(rows) < 2:
        return above
    head, marks, *cells = rows
    right = [place for place, mark in enumerate(marks) if re.fullmatch(r"-+:", mark)]
    return above + table(head, cells, right=right)
