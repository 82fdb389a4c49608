"""Figures are written whole, as vector and PNG, the same every time."""

import sys

import pytest

from rewardrate.errors import MissingExtra
from rewardrate.reports.style import AGES, NAMES, pyplot, save


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


def test_every_colour_of_ours_is_a_variable_of_the_page_for_light_and_dark():
    from importlib import resources

    style = resources.files("rewardrate.reports").joinpath("assets", "page.css").read_text()
    assert len(set(NAMES.values())) == len(NAMES)
    assert set(AGES) <= set(NAMES)
    for color, name in NAMES.items():
        assert f"--{name}: light-dark({color.lower()}, " in style


def test_letters_that_the_font_lacks_are_no_reason_to_complain(tmp_path):
    fig = figure()
    fig.axes[0].set_title("\u4e2d\u6587")
    assert save(fig, tmp_path / "one")
