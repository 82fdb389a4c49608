"""One look for every figure: colour-blind-safe colours, quiet axes, vector and PNG files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from rewardrate.errors import MissingExtra

# Okabe and Ito's palette: told apart with any kind of colour vision, and in grey.
BLUE, ORANGE, GREEN, PURPLE, SKY, GREY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#6B7280"

SETTINGS: Any = {
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#E5E7EB",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "figure.facecolor": "white",
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


def save(figure: Any, stem: Path) -> list[Path]:
    """Write `stem`.svg and `stem`.png, each whole or not at all; returns their paths."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    written = []
    for suffix, options in ((".svg", {"metadata": {"Date": None}}), (".png", {"dpi": 150})):
        path = stem.with_suffix(suffix)
        partial = path.with_name(path.name + ".part")
        figure.savefig(partial, format=suffix[1:], bbox_inches="tight", **options)
        os.replace(partial, path)
        written.append(path)
    return written
