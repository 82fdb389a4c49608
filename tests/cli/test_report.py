import json

import toy_agent
from rewardrate.cli.main import main


def test_report_writes_the_page_and_says_what_both_arms_earned(tmp_path, capsys, monkeypatch):
    for arm in ("rpg", "vanilla"):
        loop = toy_agent.loop(tmp_path / arm, arm=arm, steps=3, batch=4)
        loop.run()
        loop.log.close()
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    assert main(["report", str(tmp_path), "--open"]) == 0
    out = capsys.readouterr().out
    assert "mean reward across chains at T = " in out
    assert str(tmp_path / "report.html") in out
    assert opened == [(tmp_path / "report.html").as_uri()]
    assert main(["report", str(tmp_path), "--json"]) == 0
    assert {"T", "rpg", "vanilla", "difference", "improvement"} == set(
        json.loads(capsys.readouterr().out)["comparison"]
    )
    assert main(["report", str(tmp_path / "nothing")]) == 2
    assert "there is no run in it" in capsys.readouterr().err
