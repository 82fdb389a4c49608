import json

from rewardrate.cli.main import main

SETTINGS = (
    "steps=2 batch_tokens=2048 workers=0 device=cpu window=256 warmup_steps=1 shape.vocabulary=400 shape.layers=1 "
    "shape.width=32 shape.hidden=48 shape.heads=2 shape.key_value_heads=1 shape.texts=100"
)
SMALL = [word for setting in SETTINGS.split() for word in ("--set", setting)]


def test_a_model_is_made_and_can_be_loaded(tmp_path, capsys):
    assert main(["pretrain", "pretrain-tiny", *SMALL, "--out", str(tmp_path / "m")]) == 0
    out = capsys.readouterr().out
    assert "tokens, loss" in out
    assert f"next: rewardrate train laptop --set policy.name={tmp_path / 'm'}" in out
    from rewardrate.policies import load_model

    assert load_model(str(tmp_path / "m")).count("import csv\n") > 0


def test_a_dry_run_prints_the_settings_and_a_mistake_is_one_line(tmp_path, capsys):
    assert main(["pretrain", "pretrain-tiny", "--model", "./x y", "--seed", "3", "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert 'model = "./x y"' in out
    assert "seed = 3" in out
    assert main(["pretrain", "pretrain-tiny", "--set", "stepz=3"]) == 2
    assert "did you mean 'steps'" in capsys.readouterr().err
    assert main(["pretrain", "pretrain-tiny", *SMALL, "--out", str(tmp_path / "j"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["tokens"] > 0
