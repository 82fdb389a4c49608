import json

import pytest

import toy_agent
from rewardrate.cli.main import main


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
