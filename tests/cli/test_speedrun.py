"""rewardrate speedrun: shards, one race, seeds re-timed, and mistakes in one line."""

import json
import shutil

import pytest

import race_shards
from rewardrate.cli.main import main
from rewardrate.environments.speedrun.race import find
from rewardrate.sandbox.runner import isolation

boxed = pytest.mark.skipif(
    not isolation().level.name.startswith("namespaces"), reason="this machine allows no namespaces"
)


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    return str(race_shards.made(tmp_path_factory))


def test_data_are_made_where_there_are_none(capsys, tmp_path):
    (tmp_path / "texts").mkdir()
    for number in range(40):
        (tmp_path / "texts" / f"{number:02d}.txt").write_text(f"text {number}: " + "abc def ghi " * (30 + number))
    race = shutil.copytree(find("nanogpt-tiny"), tmp_path / "mine")
    rules = (race / "race.toml").read_text().replace("../nanogpt-mini", str(find("nanogpt-mini")))
    for old, new in (
        ('name = "nanogpt-tiny"', 'name = "mine"'),
        ('text = "kjv"', f'text = "{tmp_path}/texts"'),
        (f'checksums = "{find("nanogpt-mini")}/checksums.json"', 'checksums = ""'),
        ("validation_tokens = 8_192", "validation_tokens = 20"),
    ):
        assert rules.count(old) == 1
        rules = rules.replace(old, new)
    (race / "race.toml").write_text(rules)
    call = ["speedrun", "data", str(race), "--data", str(tmp_path / "data"), "--json"]
    for made in (True, False):
        assert main(call) == 0
        assert json.loads(capsys.readouterr().out)["mine"]["made"] is made


def test_data_are_made_once_and_for_every_race_that_can_be_made(shards, capsys):
    assert main(["speedrun", "data", "--data", shards]) == 0
    printed = capsys.readouterr().out
    assert printed.count("already there") == 3  # one text serves them all


@boxed
def test_a_race_is_run_and_judged(shards, capsys):
    assert main(["speedrun", "race", "nanogpt-tiny", "--data", shards, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["valid"], found["crossed"]) == (1, True)
    assert found["verdicts"][0]["score"] < 5.2


@boxed
def test_a_script_that_fails_is_reported_with_exit_code_1(shards, capsys, tmp_path):
    script = tmp_path / "train_gpt.py"
    script.write_text("raise ValueError('not today')\n")
    assert main(["speedrun", "race", "nanogpt-tiny", str(script), "--data", shards]) == 1
    printed = capsys.readouterr()
    assert "error: it crashed" in printed.out
    assert "ValueError: not today" in printed.out
    assert "not crossed" in printed.out


@boxed
def test_seeds_are_timed_and_written_down(shards, capsys, tmp_path):
    record = tmp_path / "records" / "short"
    record.mkdir(parents=True)
    (record / "train_gpt.py").write_text("print('nothing')\n")
    out = tmp_path / "out"
    call = ["speedrun", "rescore", "nanogpt-tiny", "--records", str(record.parent), "--out", str(out), "--data", shards]
    assert main([*call, "--runs", "2", "--set", "constants=[]"]) == 0
    printed = capsys.readouterr()
    assert "parse-failure" in printed.out
    assert "short: parse-failure" in printed.err
    assert (out / "records" / "short" / "record.toml").exists()
    assert (out / "table.csv").read_text().splitlines()[1].startswith("short,2,0,")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (["race", "nanogpt-min"], "did you mean 'nanogpt-mini'"),
        (["race", "nanogpt-tiny", "nowhere.py"], "cannot be read as text"),
        (["race", "nanogpt-tiny", "--runs", "0"], "at least 1"),
        (["race", "nanogpt-tiny", "--set", "target=3"], "did you mean 'target_loss'"),
        (["race", "nanogpt-tiny", "--minimum", "weak"], "there is no such level"),
        (["race", "nanogpt", "--minimum", "limits"], "put the race's train_gpt.py there"),
        (["data", "nanogpt"], "brought by the user"),
        (["rescore", "nanogpt-tiny", "--out", "x", "--runs", "0"], "at least 1"),
        (["rescore", "nanogpt-tiny", "--out", "x", "--records", "nowhere"], "no such folder"),
        (["rescore", "nanogpt-tiny"], "--out"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(call, words, shards, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert main(["speedrun", *call, "--data", shards]) == 2
    printed = capsys.readouterr().err
    assert words in printed
    assert printed.count("\n") == 1
