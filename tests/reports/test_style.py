"""Figures are written whole, as vector and PNG, the same every time."""

import sys

import pytest

from rewardrate.errors import MissingExtra
from rewardrate.reports.style import pyplot, save


def figure():
    plt = pyplot()
    fig, axis = plt.subplots()
    axis.plot([1, 2], [3, 4])
    plt.close(fig)
    return fig


def test_a_figure_becomes_svg_and_png_and_nothing_half_written_stays(tmp_path):
    paths = save(figure(), tmp_path / "deep" / "one")
    assert [path.name for path in paths] == ["one.svg", "one.png"]
    assert paths[1].read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in paths[0].read_bytes()
    assert not list(tmp_path.rglob("*.part"))


def test_the_same_figure_is_the_same_file(tmp_path):
    one, two = (save(figure(), tmp_path / name)[0].read_bytes() for name in ("one", "two"))
    assert one == two


def test_without_matplotlib_the_error_says_how_to_add_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtra, match=r"rewardrate\[report\]"):
        pyplot()
