"""rewardrate report: what is written, what is printed, and that every number of it is that of the run logs."""

import json
import re
import sqlite3

import pytest

import made_run
import toy_agent
from rewardrate.cli import report
from rewardrate.cli.main import main
from rewardrate.reports import headline
from rewardrate.reports.files import Written
from rewardrate.reports.run import experiments, find


@pytest.fixture
def folder(tmp_path):
    for arm in ("rpg", "vanilla"):
        loop = toy_agent.loop(tmp_path / arm, arm=arm, steps=3, batch=4)
        loop.run()
        loop.log.close()
    return tmp_path


def test_report_writes_the_page_and_says_what_both_arms_earned(folder, capsys, monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    assert main(["report", str(folder), "--open"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("Reward per second: rpg ")
    assert "\nReward at equal time (T = " in out
    assert out.splitlines()[-1] == str(folder / "report.html")
    assert opened == [(folder / "report.html").as_uri()]
    assert (folder / "figures" / "rate.png").exists()
    assert (folder / "tables" / "table.tex").exists()


def test_report_as_json_holds_the_comparison_and_the_table(folder, tmp_path, capsys):
    assert main(["report", str(folder), "--out", str(tmp_path / "out"), "--metric", "reward", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {"T", "T_stated", "arm", "rpg", "vanilla", "difference", "improvement"} == set(found["comparison"])
    assert {"reward_per_second", "cumulative_reward", "valid_share"} < set(found["efficiency"])
    assert {"rpg", "vanilla", "difference"} == set(found["efficiency"]["reward_per_second"])
    assert set(found["runs"]) == {"rpg", "vanilla"}
    assert found["runs"]["rpg"]["attempts"] == 12
    assert found["left_out"] == []
    assert all(row["verdict"] for row in found["table"]["tasks"].values())


# ---- every headline number again, with SQL alone

ATTEMPTS = """WITH RECURSIVE
    done AS (SELECT row, step, valid, CASE WHEN valid THEN reward ELSE 0 END AS reward, seconds,
                    sum(seconds) OVER (PARTITION BY row ORDER BY step) AS at
             FROM attempts WHERE status != 'sandbox-failure'),
    chains AS (SELECT DISTINCT row FROM attempts),
    hundredths(i) AS (SELECT 80 UNION ALL SELECT i + 1 FROM hundredths WHERE i < 100)
"""
AT_T = {  # what a chain shows at a budget, then the mean over chains and 21 budgets
    "current": "(SELECT reward FROM done WHERE row = c.row AND at <= :T * i / 100 ORDER BY step DESC LIMIT 1)",
    "latest-valid": "(SELECT reward FROM done WHERE row = c.row AND valid AND at <= :T * i / 100 "
    "ORDER BY step DESC LIMIT 1)",
    "best-so-far": "(SELECT max(reward) FROM done WHERE row = c.row AND valid AND at <= :T * i / 100)",
}
OVER_ALL = {
    "reward_per_second": "SELECT sum(reward) / sum(seconds) FROM done",
    "cumulative_reward": "SELECT sum(iif(at <= :T, reward, 0)) / (SELECT count(*) FROM chains) FROM done",
    "reward_per_attempt": "SELECT avg(reward) FROM done",
    "seconds_per_attempt": "SELECT avg(seconds) FROM done",
    "valid_share": "SELECT avg(valid) FROM done",
    "held_out_reward": "SELECT CAST(substr(message, instr(message, 'reward ') + 7) AS REAL) FROM events "
    "WHERE kind = 'report' ORDER BY id DESC LIMIT 1",
}


def by_sql(folder, T):
    queries = {value: f"SELECT avg(coalesce({shown}, 0)) FROM chains c, hundredths" for value, shown in AT_T.items()}
    db = sqlite3.connect(folder / "run.sqlite")
    found = {name: db.execute(ATTEMPTS + query, {"T": T}).fetchone()[0] for name, query in (queries | OVER_ALL).items()}
    db.close()
    return found


def spoil(number, fields):
    """Some attempts fail on the sandbox's side: they count nowhere."""
    nothing = {"valid": False, "reward": 0.0, "score": None, "status": "sandbox-failure", "seconds": 0.7}
    return fields | nothing if number % 5 == 0 else fields


def test_every_number_of_the_json_and_of_the_sentences_is_that_of_the_logs(tmp_path):
    stated = "[budget]\nscript_seconds = 120.0\n"
    arms = ("rpg", "horizon", "vanilla")
    for place, arm in enumerate(arms):
        made_run.make(tmp_path / arm, arm=arm, steps=14, batch=6, seed=place, config=stated, spoil=spoil, fast=True,
                      about={"seed": "0"})  # fmt: skip
    expected = {arm: by_sql(tmp_path / arm, 20.0) for arm in arms}
    assert len({round(value, 6) for one in expected.values() for value in one.values()}) > 20, "they tell apart"
    runs = tuple(find(tmp_path))
    found = json.loads(json.dumps(report._found(Written(tmp_path, (), (), runs))))  # as --json prints it, no figures
    assert (found["comparison"]["T"], found["comparison"]["T_stated"]) == (20.0, True)
    vanilla = expected["vanilla"]
    for arm in ("rpg", "horizon"):
        shown = found["contrasts"][arm]["at_T"] | found["contrasts"][arm]["efficiency"]
        assert shown.keys() == vanilla.keys()
        for name, pair in shown.items():
            own, other = expected[arm][name], vanilla[name]
            values = [pair[part]["value"] for part in ("rpg", "vanilla", "difference")]
            assert values == pytest.approx([own, other, own - other], rel=1e-9), (arm, name)
            if "improvement" in pair:
                assert pair["improvement"]["value"] == pytest.approx(100 * (own - other) / other)
    assert found["comparison"]["rpg"] == found["contrasts"]["rpg"]["at_T"]["current"]["rpg"]
    for arm, one in found["runs"].items():
        for name in ("valid_share", "reward_per_attempt", "seconds_per_attempt", "reward_per_second"):
            assert one[name] == pytest.approx(expected[arm][name]), (arm, name)
    (experiment,) = experiments(runs)
    for arm in ("rpg", "horizon"):  # what the terminal and the page begin with
        for line, name in zip(headline.one_task(experiment, arm), ("reward_per_second", "current"), strict=False):
            own, other = expected[arm][name], vanilla[name]
            said = re.search(rf"{arm} (\S+) .*vanilla (\S+) .*difference (\S+) ", line)
            assert said.groups() == (f"{own:.3f}", f"{other:.3f}", f"{own - other:+.3f}"), line


def test_an_arm_that_cannot_be_read_is_left_out_with_a_warning(folder, capsys):
    log = folder / "vanilla" / "run.sqlite"
    log.write_bytes(log.read_bytes()[:3000])
    assert main(["report", str(folder)]) == 0
    said = capsys.readouterr()
    assert said.err.startswith("left out: run log")
    assert "Traceback" not in said.err


def test_mistakes_are_one_line(folder, tmp_path, capsys):
    for words in (["nothing"], ["--metric", "speed"], ["rpg", "vanilla"]):
        paths = [word if word.startswith("-") or word == "speed" else str(tmp_path / word) for word in words]
        assert main(["report", *paths]) == 2
        assert capsys.readouterr().err.count("\n") == 1


def test_a_report_is_not_strewn_among_the_files_of_others(folder, capsys):
    (folder / "setup.py").write_text("")
    (folder / "notes").mkdir()
    assert main(["report", str(folder)]) == 2
    said = capsys.readouterr().err
    assert "there are other things in it (notes, setup.py)" in said
    assert f"--out {folder / 'report'}" in said
    assert not (folder / "report.html").exists()
    assert not (folder / "figures").exists()
    assert main(["report", str(folder), "--out", str(folder)]) == 0, "who says so may"
    assert main(["report", str(folder)]) == 0, "a report that is there is made again"
    assert main(["report", str(folder / "rpg")]) == 0, "a run folder is ours"
