import csv
import io
import math
from dataclasses import replace

import numpy as np
import pytest

from rewardrate.errors import InputError
from rewardrate.reports import tables
from rewardrate.reports.evaluation import Interval, chains, compare
from rewardrate.reports.run import experiments, find


def comparison(rpg, vanilla):
    """Two chains of one attempt each, per repetition."""
    made = [
        [chains({"step": [1, 1], "row": [0, 1], "valid": [1, 1], "reward": [v, v], "seconds": [1, 1]}) for v in arm]
        for arm in (rpg, vanilla)
    ]
    return compare(*made, final=1.25)


def row(task, rpg, vanilla):
    both = comparison(rpg, vanilla)
    errors = [tables.standard_error(each) for each in (rpg, vanilla)]
    return tables.TaskRow(task, "reward", True, len(rpg), both, *errors, {})


@pytest.fixture(scope="module")
def found(many):
    return tables.table(experiments(find(many)))


def test_improvements_means_and_wins_are_those_of_plain_arithmetic(many, found):
    """From the chains alone: mean over repetitions, percent, mean over tasks, and without best and worst."""
    percents = []
    for one, made in zip(experiments(find(many)), found.rows, strict=True):
        ends = [[run.chains_of("score").at_end(made.both.final) for run in pair] for pair in one.pairs]
        rpg, vanilla = (np.array([np.nanmean(pair[place]) for pair in ends]) for place in (0, 1))
        sign = 1 if one.higher_is_better else -1
        percents.append(sign * 100 * (rpg.mean() - vanilla.mean()) / vanilla.mean())
        assert made.both.improvement.value == pytest.approx(percents[-1])
        assert made.rpg_error == pytest.approx(rpg.std(ddof=1) / math.sqrt(2))
        assert made.vanilla_error == pytest.approx(vanilla.std(ddof=1) / math.sqrt(2))
    assert found.mean.value == pytest.approx(np.mean(percents))
    assert found.trimmed.value == pytest.approx(sorted(percents)[1])
    assert found.count("win") == sum(percent > 0 for percent in percents)
    assert found.count("loss") == sum(percent < 0 for percent in percents)


def test_a_win_is_clear_when_the_paired_interval_leaves_out_zero():
    assert row("a", [1.0, 1.1], [0.5, 0.6]).verdict == "clear win"
    assert row("a", [0.5, 0.6], [1.0, 1.1]).verdict == "clear loss"
    assert row("a", [1.0, 0.5], [0.5, 0.9]).verdict == "win"
    assert row("a", [1.0], [1.0]).verdict == "tie"


def test_the_markdown_table_has_a_line_for_each_task_and_marks_the_leader(found):
    lines = tables.markdown(found).splitlines()
    assert sum(line.startswith("| ") for line in lines) == 4
    assert lines[2].startswith("| diamonds (↓) | 2 |")
    assert all(line.count("**") == 2 for line in lines[2:5])
    assert "Mean improvement over 3 tasks" in lines[6]


def test_the_latex_table_escapes_names_and_ends_its_lines(found):
    odd = replace(found, rows=(replace(found.rows[0], task="a_b & 50% #1 ~ ^ \\ {x}"), *found.rows[1:]))
    text = tables.latex(odd)
    assert r"a\_b \& 50\% \#1 \textasciitilde{} \textasciicircum{} \textbackslash{} \{x\} $(\downarrow)$" in text
    assert text.count("\\\\\n") == 6
    assert text.count("{") == text.count("}")


def test_the_csv_has_full_precision_and_no_cell_that_a_spreadsheet_would_execute(found):
    odd = replace(found, rows=(replace(found.rows[0], task="=cmd()"), *found.rows[1:]))
    rows = list(csv.DictReader(io.StringIO(tables.comma_separated(odd))))
    assert rows[0]["task"] == "'=cmd()"
    assert float(rows[1]["improvement_percent"]) == found.rows[1].both.improvement.value
    assert float(rows[1]["T_seconds"]) == found.rows[1].both.final


def test_what_is_not_defined_is_a_dash_or_an_empty_cell():
    nothing = row("a", [1.0], [0.0])
    made = tables.TaskTable((nothing,), Interval(None, None, None), Interval(None, None, None), ("b",))
    assert "| - |" in tables.markdown(made)
    assert " & -- & -- " in tables.latex(made)
    assert next(csv.DictReader(io.StringIO(tables.comma_separated(made))))["improvement_percent"] == ""
    assert any("Left out" in line for line in tables.summary(made))
    assert "Not in these means, because vanilla has 0 there: a." in tables.summary(made)
    assert tables.summary(made)[0].startswith("Mean improvement over 0 tasks")


def test_one_repetition_has_no_standard_error_and_says_what_its_interval_knows(both):
    made = tables.table(experiments(find(both)))
    assert made.rows[0].rpg_error is None
    assert "±" not in tables.markdown(made)
    assert any("With one seed" in line for line in tables.summary(made))


def test_tasks_without_a_pair_are_left_out_and_none_at_all_is_reported(both, many):
    made = tables.table([*experiments(find(both)), *experiments(find(many / "grants" / "s0" / "rpg"))])
    assert made.left_out == ("grants",)
    with pytest.raises(InputError, match="no task has a finished run of each arm"):
        tables.table(experiments(find(both / "rpg")))
    assert tables.table(experiments(find(both)), "reward").rows[0].metric == "reward"
