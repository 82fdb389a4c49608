"""Tables of a comparison: Markdown, LaTeX, CSV and JSON say the same."""

import csv
import io
import json

import pytest

from rewardrate.reports.comparison import ComparisonResult
from rewardrate.reports.comparison_tables import (
    as_table,
    comma_separated,
    latex,
    markdown,
    progress_rows,
    standing,
    texts,
)
from rewardrate.reports.survey import survey


@pytest.fixture(scope="module")
def result(compared):
    return ComparisonResult(survey(compared))


def test_every_table_is_there_for_every_contrast(result):
    made = texts(result)
    assert {"pooled.md", "pooled.tex", "pooled.csv", "runs.csv"} <= made.keys()
    for pair in ("rpg-vanilla", "horizon-vanilla", "horizon-rpg"):
        assert {f"tasks-{pair}.{kind}" for kind in ("md", "tex", "csv")} <= made.keys()
    assert "| task | n | T (s) | horizon | rpg |" in made["tasks-horizon-rpg.md"]


def test_the_csv_has_the_numbers_of_the_json(result):
    table = json.loads(json.dumps(as_table(result.survey, result), allow_nan=False))
    rows = list(csv.DictReader(io.StringIO(texts(result)["pooled.csv"])))
    pooled = {(one["arm"], one["against"], name): found
              for one in table["contrasts"] for name, found in one["quantities"].items()}  # fmt: skip
    assert len(rows) == len(pooled) == 30
    for row in rows:
        found = pooled[row["arm"], row["against"], row["quantity"]]
        assert float(row["difference"]) == found["difference"]["value"]
        assert (int(row["ahead"]), int(row["behind"]), float(row["p"])) == (found["ahead"], found["behind"], found["p"])
    runs = list(csv.DictReader(io.StringIO(texts(result)["runs.csv"])))
    assert [float(run["valid_share"]) for run in runs] == [run["valid_share"] for run in table["runs"]]


def test_before_the_end_there_is_nothing_of_the_arms(result):
    assert as_table(result.survey, None).keys() == {"complete", "blocks", "T", "plan", "deviations"}


def test_progress_says_how_far_every_arm_is(result):
    assert progress_rows(result.survey)[0] == ["digits8x8:0", "100%", "100%", "100%", "complete"]
    assert {standing(one) for one in result.survey.blocks} == {"complete"}


def test_cells_are_only_text():
    rows = [["a|b_c", "=1+1", "50 %"]]
    assert markdown(["x", "y", "z"], rows).splitlines()[2] == r"| a\|b_c | =1+1 | 50 % |"
    assert r"a|b\_c & =1+1 & 50 \%" in latex(["x", "y", "z"], rows)
    assert comma_separated(["x", "y"], [["=1+1", float("nan")]]) == "x,y\n'=1+1,\n"
