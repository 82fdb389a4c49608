"""One look for every figure: colour-blind-safe colours, quiet axes, vector and PNG files, light and dark."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rewardrate.errors import MissingExtra

# Okabe and Ito's palette: distinguishable with any kind of colour vision, and in grey.
BLUE, ORANGE, GREEN, PURPLE, SKY, GREY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#6B7280"
YELLOW, BROWN, SILVER, RED = "#E6B800", "#8C564B", "#9CA3AF", "#A3123A"
INK, GRID, PAPER = "#1F2430", "#E5E7EB", "#FFFFFF"
AGES = ("#C9D2DC", "#A9C3D9", "#86B0D3", "#6399C6", "#4A7FB3", "#3F639B", "#3E467E", "#3A2A5E")
"From the first steps to the last: pale to dark; the page reverses them in its dark theme."

NAMES = {
    BLUE: "blue",
    ORANGE: "orange",
    GREEN: "green",
    PURPLE: "purple",
    SKY: "sky",
    GREY: "grey",
    YELLOW: "yellow",
    BROWN: "brown",
    SILVER: "silver",
    RED: "red",
    INK: "ink",
    GRID: "grid",
} | {color: f"age{place}" for place, color in enumerate(AGES)}
"Colour -> its variable in the page's style sheet, so that one drawing serves both themes."

SETTINGS: Any = {
    "font.size": 10,
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "axes.grid": True,
    "xtick.color": INK,
    "ytick.color": INK,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "figure.facecolor": PAPER,
    "svg.hashsalt": "rewardrate",  # the same figure is the same file
    "svg.fonttype": "none",
}


def pyplot() -> Any:
    """matplotlib.pyplot in our style, without a screen; MissingExtra where it is not installed."""
    try:
        import matplotlib
    except ImportError:
        raise MissingExtra("a figure", "matplotlib", "report") from None
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update(SETTINGS)
    return plt


@contextlib.contextmanager
def ignore_missing_glyphs() -> Iterator[None]:
    """Silence warnings about glyphs that matplotlib's font lacks: the viewer has other fonts."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield


def save(figure: Any, stem: Path) -> list[Path]:
    """Write `stem`.svg and `stem`.png, each atomically; returns their paths."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    written = []
    for suffix, options in ((".svg", {"metadata": {"Date": None}}), (".png", {"dpi": 150})):
        path = stem.with_suffix(suffix)
        partial = path.with_name(path.name + ".part")
        with ignore_missing_glyphs():
            figure.savefig(partial, format=suffix[1:], bbox_inches="tight", **options)
        os.replace(partial, path)
        written.append(path)
        figure.set_layout_engine("none")  # the layout is computed once for both files
    return written
