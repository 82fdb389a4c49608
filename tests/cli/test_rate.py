"""rewardrate rate."""

import io
import json
import sys

import pytest

from rewardrate.cli.main import main

ROWS = "reward,seconds\n0.5,10\n0.6,20\n0.7,30\n0.8,40\n"


@pytest.fixture
def attempts(tmp_path):
    path = tmp_path / "attempts.csv"
    path.write_text(ROWS)
    return path


def test_fit_prices_a_second_from_a_table(capsys, attempts):
    assert main(["rate", "fit", str(attempts)]) == 0
    out = capsys.readouterr().out
    assert "0.0356873" in out
    assert "one second is worth 0.0270524 reward; charged for it: 0.0356873 (" in out


def test_steps_are_updates_and_rows_are_chains(capsys, tmp_path):
    path = tmp_path / "steps.csv"
    path.write_text(
        "step,seconds,reward,valid\n" + "".join(f"{s},{2 + c},1,{int(c > 0)}\n" for s in range(20) for c in range(3))
    )
    assert main(["rate", "fit", str(path), "--estimator", "totals", "--json"]) == 0
    steps = json.loads(capsys.readouterr().out)["steps"]
    assert [step["count"] for step in steps] == [3 * k for k in range(1, 21)]
    assert steps[-1]["rate"] == pytest.approx(2 / 9)
    assert main(["rate", "fit", str(path), "--window", "5", "--seed", "3", "--set", "quantile=0.5"]) == 0
    assert "..." in capsys.readouterr().out
    assert main(["rate", "fit", str(path), "--estimator", "totals", "--set", "invalid=exclude", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["steps"][-1]["rate"] == pytest.approx(2 / 7)


def test_a_price_of_zero_means_time_is_free(capsys, attempts):
    assert main(["rate", "fit", str(attempts), "--estimator", "fixed"]) == 0
    assert "time is free" in capsys.readouterr().out


def test_standard_input_is_read_and_a_dry_run_prints_the_settings(capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xef\xbb\xbf" + ROWS.encode())))
    assert main(["rate", "fit", "-", "--estimator", "robbins-monro"]) == 0
    assert "RobbinsMonro" in capsys.readouterr().out
    assert main(["rate", "fit", "-", "--dry-run", "--set", "dof_floor=none"]) == 0
    out = capsys.readouterr().out
    assert "forgetting = 0.3" in out
    assert "dof_floor" not in out


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("reward,seconds\n0.5,10\nnan,20\n", "line 3, reward = nan: it must be finite"),
        ("reward,seconds\n0.5,-1\n", "line 2, seconds = -1.0: seconds must be positive"),
        ("reward,seconds\n0.5,0\n", "seconds = 0.0"),
        ("reward,seconds\n0.5,soon\n", "seconds = 'soon': it must be a number"),
        ("reward,seconds\n0.5\n", "1 fields': the header has 2 columns"),
        ("reward,seconds\n0,81,12,5\n", "use . for decimals"),
        ("reward,seconds\n0.5,\n", "seconds = '': it must be a number"),
        ("reward,seconds,reward\n0.5,1,2\n", "has it 2 times"),
        ("reward,seconds,step\n0.5,1,\n", "step = '': it must not be blank"),
        (
            "reward,seconds\n0.5,1\n",
            "1 usable row a step: too few for niw, which compares chains; use",
        ),
        ("reward,seconds,step\n0.5,1,1\n0.5,1,2\n", "too few for niw"),
        ('reward,seconds\n"0.5,1\n', "not valid CSV"),
        ("reward,second\n0.5,1\n", "is it 'second'?"),
        ("reward\n0.5\n", "has no such column"),
        ("reward,seconds\n", "it has a header and no rows"),
        ("", "it is empty; begin it with a header: reward,seconds"),
        ("\n\n", "it is empty"),
        ("reward,seconds,valid\n0.5,1,maybe\n", "valid = 'maybe'"),
        ("step,reward,seconds\n1,0.5,1\n1,0.5,1\n2,0.5,1\n", "each chain needs a row in every step"),
    ],
)
def test_a_bad_table_is_one_line_with_its_place_and_exit_code_2(capsys, attempts, text, words):
    attempts.write_text(text)
    assert main(["rate", "fit", str(attempts)]) == 2
    err = capsys.readouterr().err
    assert words in err
    assert len(err.strip().splitlines()) == 1


def test_rows_of_a_step_belong_together_wherever_they_stand_and_other_columns_are_left_alone(capsys, tmp_path):
    by_step = [(step, chain) for step in range(3) for chain in range(4)]
    tables = []
    for order in (by_step, sorted(by_step, key=lambda row: row[1])):
        path = tmp_path / "order.csv"
        rows = "".join(f"{s},{0.5 + 0.1 * c},{10 + s + c},note\n" for s, c in order)
        path.write_text("step,reward,seconds,rewards_raw\n" + rows)
        assert main(["rate", "fit", str(path), "--json"]) == 0
        tables.append(json.loads(capsys.readouterr().out)["steps"])
    assert tables[0] == tables[1]


def test_a_failed_attempt_needs_no_score(capsys, attempts):
    attempts.write_text("reward,seconds,valid\n1,1,1\n,3,0\n")
    assert main(["rate", "fit", str(attempts), "--estimator", "totals", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["steps"][0]["rate"] == 0.25


def test_a_window_is_for_estimators_of_totals(capsys, attempts):
    assert main(["rate", "fit", str(attempts), "--estimator", "totals", "--window", "3"]) == 2
    assert "--window = 3" in capsys.readouterr().err
    assert main(["rate", "fit", str(attempts), "--window", "3", "--dry-run", "--json"]) == 0
    resolved = json.loads(capsys.readouterr().out)
    assert (resolved["estimator"], resolved["window"]) == ("niw", 3)


def test_a_file_that_is_no_text_is_refused(capsys, attempts):
    attempts.write_bytes(b"\xff\xfe\x00\x01")
    assert main(["rate", "fit", str(attempts)]) == 2
    assert "cannot be read as text" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--estimator", "nwi"], "did you mean 'niw'"),
        (["--set", "forgeting=0.5"], "did you mean 'forgetting'"),
        (["--set", "forgetting"], "key=value"),
        (["--set", "forgetting=2"], "forgetting = 2"),
        (["--window", "0"], "window = 0"),
        (["--set", "mu0=[1]"], "mu0 = [1]: it must be two numbers"),
        (["--set", 'mu0="ab"'], "mu0 = 'ab'"),
        (["--set", "dof_floor=inf"], "dof_floor = inf"),
        (["--set", "batches=99999999999999"], "batches = 99999999999999: it must be at most 1,000,000"),
    ],
)
def test_bad_settings_are_refused(capsys, attempts, flags, words):
    assert main(["rate", "fit", str(attempts), *flags]) == 2
    assert words in capsys.readouterr().err


def test_check_holds_an_estimator_to_the_contract(capsys):
    assert main(["rate", "check", "totals"]) == 0
    out = capsys.readouterr().out
    assert "7 checks, 0 broken" in out
    assert main(["rate", "check", "fixed", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["failures"] == 0


def test_an_estimator_of_your_own_is_checked_too_and_a_broken_one_is_exit_code_1(capsys, tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(
        "from rewardrate.rates import Totals\n"
        "class Mine(Totals):\n    def parse_state(self, saved):\n        return self.state\n"
        "class Raises(Totals):\n    def absorb(self, reward, seconds):\n        raise RuntimeError('no')\n"
        "class Needs(Totals):\n    def __init__(self, thing):\n        super().__init__()\n"
        "class Zero(Totals):\n    def absorb(self, r, s):\n        return self.state, self.estimate\n"
        "NotOne = 3\n"
    )
    monkeypatch.chdir(tmp_path)
    assert main(["rate", "check", "mine:Mine"]) == 1
    assert "BROKEN" in capsys.readouterr().out
    for name, words in [
        ("mine:Nobody", "cannot be imported"),
        ("nowhere:X", "cannot be imported"),
        ("mine:NotOne", "not a subclass"),
    ]:
        assert main(["rate", "check", name]) == 2
        assert words in capsys.readouterr().err
