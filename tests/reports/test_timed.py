"""The figure of Stable-Baselines3 with and without a price of time shows every run of the rows."""

from pathlib import Path

import pytest

from rewardrate.reports.timed import draw_shares, shares

ROWS = Path(__file__).parents[2] / "results" / "2026-11-16-timed-sb3" / "rows.csv"


def test_a_share_is_the_rate_over_the_optimal_rate(tmp_path):
    rows = tmp_path / "rows.csv"
    rows.write_text("task,arm,rate,optimum\nA-v0,plain,0.5,2\nA-v0,plain,1,2\nA-v0,rewardrate,2,2\n")
    assert shares(rows) == {"A": {"plain": [0.25, 0.5], "rewardrate": [1.0]}}


def test_the_published_rows_hold_fifteen_runs_of_each_arm_and_the_claim_of_the_readme():
    tasks = shares(ROWS)
    priced = [share for arms in tasks.values() for share in arms["rewardrate"]]
    plain = [share for arms in tasks.values() for share in arms["plain"]]
    assert (len(priced), len(plain)) == (15, 15)
    assert min(priced) > 0.994
    assert max(plain) == pytest.approx(0.776, abs=0.01)


def test_the_figure_is_written_as_svg_and_png_with_both_arms_named(tmp_path):
    svg, png = draw_shares(ROWS, tmp_path / "shares")
    drawn = svg.read_text()
    assert "reward alone" in drawn
    assert "Foraging" in drawn
    assert png.stat().st_size > 10_000
