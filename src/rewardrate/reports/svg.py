"""A matplotlib figure as SVG inside a page: no styles of its own, colours that follow the page's theme."""

from __future__ import annotations

import io
import re
from typing import Any

from rewardrate.reports.style import INK, NAMES, ignore_missing_glyphs

KEPT = {
    "fill",
    "fill-opacity",
    "stroke",
    "stroke-width",
    "stroke-opacity",
    "stroke-dasharray",
    "stroke-dashoffset",
    "stroke-linecap",
    "stroke-linejoin",
    "opacity",
    "font-size",
    "font-weight",
    "text-anchor",
    "clip-path",
}
"Properties that SVG also knows as attributes. Attributes need no permission to style, so the page can forbid styles."
BLACK = ("#000000", "black")


def inline(figure: Any, name: str) -> str:
    """The figure as one <svg> element; `name` (letters, digits, dashes) keeps its ids apart from other figures'.

    Style attributes become plain attributes, known colours become variables of the page (`style.NAMES`), the white
    background is left out, and the text is set in the page's own font.
    """
    for axis in figure.axes:
        axis.set_facecolor("none")
    text = io.StringIO()
    with ignore_missing_glyphs():
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None}, facecolor="none", edgecolor="none")
    return themed(text.getvalue(), name)


def themed(text: str, name: str) -> str:
    """Matplotlib's SVG, adapted to the page."""
    drawn = text[text.index("<svg") :]
    drawn = re.sub(
        r"<metadata>.*?</metadata>|<style[^>]*>.*?</style>|<!--.*?-->|<defs>\s*</defs>", "", drawn, flags=re.S
    )
    drawn = re.sub(r'\sstyle="([^"]*)"', lambda match: _attributes(match[1]), drawn)
    drawn = re.sub(r'\sid="([^"]+)"', rf' id="{name}-\1"', drawn)
    drawn = re.sub(r'((?:xlink:)?href="#|url\(#)', rf"\g<1>{name}-", drawn)
    drawn = drawn.replace("xlink:href", "href")
    drawn = re.sub(
        r"<svg [^>]*?(viewBox=\"[^\"]*\")[^>]*>", r'<svg \1 xmlns="http://www.w3.org/2000/svg">', drawn, count=1
    )
    return re.sub(r"\s*\n\s*", " ", _tidy_points(drawn)).strip()


def _attributes(style: str) -> str:
    """`fill: none; stroke: #0072b2` as attributes."""
    found: dict[str, str] = {}
    for part in style.split(";"):
        key, _, value = (piece.strip() for piece in part.partition(":"))
        if key == "font":
            size, weight = re.search(r"([\d.]+)px", value), re.match(r"(bold|\d00)\b", value)
            found |= {"font-size": size[1]} if size else {}
            found |= {"font-weight": weight[1]} if weight else {}
        elif key in KEPT:
            found[key] = _color(value) if key in ("fill", "stroke") else value.removesuffix("px")
    return "".join(f' {key}="{value}"' for key, value in found.items())


def _color(value: str) -> str:
    known = {color.lower(): name for color, name in NAMES.items()}
    value = INK.lower() if value.lower() in BLACK else value.lower()
    if value in ("#ffffff", "white"):
        return "none"  # the background is the page's
    return f"var(--{known[value]})" if value in known else value


def _tidy_points(drawn: str) -> str:
    """Coordinates to a hundredth; a point drawn as a line of no length takes half the room. Words are left alone."""
    drawn = re.sub(r"M (-?[\d.]+) (-?[\d.]+) \nL \1 \2 \n", lambda m: f"M{_short(m[1])} {_short(m[2])}h0", drawn)
    places = re.compile(r"(-?\d+\.\d\d)\d+")
    return re.sub(r'\s(?:d|x|y|transform)="[^"]*"', lambda match: places.sub(r"\1", match[0]), drawn)


def _short(number: str) -> str:
    return f"{float(number):.1f}"
