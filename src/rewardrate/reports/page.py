"""One self-contained HTML page for a run or a comparison: opens from disk, asks nobody for anything.

Scripts and messages are untrusted text: they are shown, never executed.
"""

from __future__ import annotations

import html
import io
import os
from collections.abc import Sequence
from pathlib import Path

from rewardrate.reports.evaluation import Interval
from rewardrate.reports.run import Run, comparison, figures, find

STYLE = """
:root { color-scheme: light dark; --line: #d1d5db; --soft: #6b7280; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 1100px; padding: 1.5rem; }
h1 { font-size: 1.5rem } h2 { font-size: 1.15rem; margin-top: 2rem }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 420px), 1fr)); gap: 1rem }
.charts figure { margin: 0; background: #fff; border: 1px solid var(--line); border-radius: 6px; padding: .5rem }
.charts svg { width: 100%; height: auto; display: block }
table { border-collapse: collapse } td, th { padding: .25rem .8rem; border-bottom: 1px solid var(--line) }
td:not(:first-child), th:not(:first-child) { text-align: right }
pre { overflow: auto; border: 1px solid var(--line); border-radius: 6px; padding: .8rem; font-size: 13px }
.soft { color: var(--soft) }
"""
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def write(folder: Path) -> Path:
    """Write report.html into a run folder, or a folder of runs; whole or not at all."""
    runs = find(folder)
    path = Path(folder) / "report.html"
    partial = path.with_name(path.name + ".part")
    partial.write_text(page(runs, Path(folder).name), encoding="utf-8")
    os.replace(partial, path)
    return path


def page(runs: Sequence[Run], title: str) -> str:
    """The page as text."""
    drawn = "".join(f"<figure>{_svg(figure)}</figure>" for figure in figures(runs).values())
    policy = f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
    body = (
        f"<h1>{html.escape(title)}</h1>{_about(runs)}{_verdict(runs)}"
        f"<h2>Charts</h2><div class=charts>{drawn}</div>{''.join(_best(run) for run in runs)}"
    )
    return (
        f"<!doctype html><html lang=en><head><meta charset=utf-8>{policy}"
        f'<meta name=viewport content="width=device-width, initial-scale=1"><title>{html.escape(title)}</title>'
        f"<style>{STYLE}</style></head><body>{body}</body></html>"
    )


def _about(runs: Sequence[Run]) -> str:
    head = ["arm", "task", "seed", "policy", "clock", "attempts", "valid share", "mean seconds", "steps"]
    rows = []
    for run in runs:
        count = max(1, len(run.charged))
        valid = sum(attempt.valid for attempt in run.charged) / count
        seconds = sum(attempt.seconds for attempt in run.charged) / count
        words = [run.about.get(name, "") for name in head[:5]]
        rows.append([*words, str(len(run.attempts)), f"{valid:.0%}", f"{seconds:.2f}", str(len(run.steps))])
    return _table(head, rows)


def _verdict(runs: Sequence[Run]) -> str:
    both = comparison(runs)
    if both is None:
        return ""
    head = [f"at T = {both.final:.0f} s", "rpg", "vanilla", "difference", "improvement"]
    values = [both.rpg, both.vanilla, both.difference]
    shown = ["mean reward across chains", *(_interval(value) for value in values), _interval(both.improvement, " %", 1)]
    note = "95 % bootstrap intervals over chains; one repetition says nothing of the spread of training again."
    return f"<h2>Both arms at the same budget</h2>{_table(head, [shown])}<p class=soft>{note}</p>"


def _best(run: Run) -> str:
    best = run.best
    if best is None:
        return f"<h2>{html.escape(run.arm)}: no valid script</h2>"
    head = f"{run.arm}: best script (step {best.step}, reward {best.reward:.3f} in {best.seconds:.2f} s)"
    return f"<h2>{html.escape(head)}</h2><p>{html.escape(best.message)}</p><pre>{html.escape(best.code)}</pre>"


def _interval(value: Interval, unit: str = "", digits: int = 3) -> str:
    if value.value is None:
        return "-"
    if value.low is None or value.high is None:
        return f"{value.value:.{digits}f}{unit}"
    return f"{value.value:.{digits}f}{unit} ({value.low:.{digits}f} to {value.high:.{digits}f})"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    top = "".join(f"<th>{html.escape(cell)}</th>" for cell in head)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><tr>{top}</tr>{body}</table>"


def _svg(figure: object) -> str:
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None})  # type: ignore[attr-defined]
    import matplotlib.pyplot as plt

    plt.close(figure)  # type: ignore[arg-type]
    drawn = text.getvalue()
    return drawn[drawn.index("<svg") :]
