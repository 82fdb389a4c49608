"""The shell of every page: one self-contained HTML file that runs only its own script and makes no requests.

Text from outside goes through `escape` here and through text nodes in the page's script: shown, never executed.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import html
import json
import re
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

SCRIPTS = ("ground.js", "charts.js", "diff.js", "lineage.js", "attempt.js", "start.js")


WORDY = 24  # characters of a cell that may break over several lines
_CONTROLS = dict.fromkeys([*range(9), 11, 12, *range(14, 32), *range(127, 160)], "\ufffd")


def escape(text: object) -> str:
    """Any value as text that is only text, also in a quoted attribute; controls and surrogates are replaced."""
    found = str(text).translate(_CONTROLS).encode("utf-8", "replace").decode("utf-8")
    return html.escape(found, quote=True)


def document(
    title: str,
    body: str,
    *,
    sections: Mapping[str, str] | None = None,
    data: Mapping[str, Any] | None = None,
    live: bool = False,
) -> str:
    """A whole page. `sections`: id -> name, for the bar at the top; `data` goes to the page's script as JSON.

    The content security policy allows the one script and the one style sheet by their digests, and nothing else; a
    `live` page may also ask the server it came from.
    """
    script, style = program(), _asset("page.css")
    links = "".join(f'<a href="#{name}">{escape(words)}</a>' for name, words in (sections or {}).items())
    state = '<span id="live" role="status">connecting</span>' if live else ""
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy(live)}">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta name="referrer" content="no-referrer">'
        f'<title>{escape(title)}</title><link rel="icon" href="data:,"><style>{style}</style></head>\n'
        f'<body><a class="skip" href="#main">skip to the content</a><header class="top"><div>'
        f'<b>{escape(title)}</b><nav aria-label="sections">{links}</nav>{state}'
        f'<button id="theme" type="button" hidden aria-label="change between light and dark"></button>'
        f'</div></header>\n<main id="main">{body}</main>\n'
        f'<script type="application/json" id="data">{as_json(data or {"charts": {}})}</script>\n'
        f"<script>{script}</script></body></html>\n"
    )


def policy(live: bool = False) -> str:
    """The content security policy of a page."""
    allowed = [
        "default-src 'none'",
        f"script-src '{_digest(program())}'",
        f"style-src '{_digest(_asset('page.css'))}'",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    return "; ".join([*allowed, "connect-src 'self'"] if live else allowed)


def as_json(data: Mapping[str, Any]) -> str:
    """JSON for inside a script element: no text in it can end that element."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[int] | range = ()) -> str:
    """A table of plain texts; `right` names the columns of numbers."""

    def line(tag: str, cells: Sequence[str]) -> str:
        kinds = [' class="n"' if place in right else "" for place in range(len(cells))]
        kinds = [
            kind or (' class="words"' if len(cell) > WORDY else "") for kind, cell in zip(kinds, cells, strict=True)
        ]
        return (
            "<tr>"
            + "".join(f"<{tag}{kind}>{escape(cell)}</{tag}>" for kind, cell in zip(kinds, cells, strict=True))
            + "</tr>"
        )

    body = "".join(line("td", row) for row in rows)
    return f'<div class="wide"><table><thead>{line("th", head)}</thead><tbody>{body}</tbody></table></div>'


def figure(drawn: str, name: str, title: str, caption: str, *, choice: str = "", broad: bool = False) -> str:
    """A chart with its caption; `drawn` is SVG of our own making. A `broad` one keeps its size and may scroll."""
    kind = "chart broad" if broad else "chart"
    if broad:
        width = re.match(r'<svg viewBox="0 0 ([\d.]+)', drawn)
        drawn = drawn.replace("<svg ", f'<svg width="{1.3 * float(width[1]):.0f}" ', 1) if width else drawn
    more = f' data-choice="{escape(choice)}"' if choice else ""
    return (
        f'<figure class="{kind}" data-chart="{escape(name)}"{more} aria-label="{escape(title)}">{drawn}'
        f"<figcaption>{escape(caption)}</figcaption></figure>"
    )


def tile(value: str, words: str, kind: str = "") -> str:
    """A number that matters, and what it is."""
    return f'<div class="tile {kind}"><strong>{escape(value)}</strong><span>{escape(words)}</span></div>'


def duel(words: str, first: tuple[str, str], second: tuple[str, str], note: str) -> str:
    """A tile with (arm, number) of two arms, in the arms' colours, and what is known of their difference."""
    shown = "".join(
        f'<b class="{kind}">{escape(number)}<i>{escape(arm)}</i></b>'
        for kind, (arm, number) in (("rpg", first), ("vanilla", second))
    )
    return (
        f'<div class="tile"><strong class="duel">{shown}</strong><span>{escape(words)}</span>'
        f"<span>{escape(note)}</span></div>"
    )


def fold(title: str, inside: str) -> str:
    """Something that is there when asked for."""
    return f"<details><summary>{escape(title)}</summary>{inside}</details>"


@functools.cache
def program() -> str:
    """The page's script."""
    return "'use strict';\n(() => {\n" + "\n".join(_asset(name) for name in SCRIPTS) + "\n})();"


@functools.cache
def _asset(name: str) -> str:
    return resources.files("rewardrate.reports").joinpath("assets", name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
