"""The change-point figure and table, and the table of small batches."""

import pytest

from rewardrate.rates import Fixed, Totals
from rewardrate.reports import rates


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setattr(rates, "CONTENDERS", {"Totals": (Totals, None), "Still": (lambda: Fixed(1.0), None)})
    monkeypatch.setattr(rates, "DRAWN", {"Totals": ("#000000", "-")})


def test_the_figure_is_drawn(tmp_path, few):
    svg, png = rates.draw_changepoint(tmp_path / "change")
    assert "4x faster from here" in svg.read_text()
    assert png.stat().st_size > 10_000


def test_the_table_has_a_row_for_every_contender_and_says_never(few):
    lines = rates.changepoint_table(limit=300).splitlines()
    assert lines[2].startswith("| Totals | 2")
    assert lines[3].startswith("| Still | never |")
    assert len({line.count("|") for line in lines}) == 1


def test_every_drawn_line_is_a_contender_of_the_table():
    assert set(rates.DRAWN) <= set(rates.CONTENDERS)


def test_the_table_of_small_batches_marks_the_corrected_percentile():
    lines = rates.over_pricing_table(runs=2, batches=(16, 128)).splitlines()
    assert [line.split(" | ")[:2] for line in lines[2:]] == [
        [f"| {batch}", name]
        for batch, names in ((16, ("0.95", "0.75", "**0.72**", "0.50")), (128, ("**0.95**", "0.75", "0.50")))
        for name in names
    ]
    assert len({line.count("|") for line in lines}) == 1
