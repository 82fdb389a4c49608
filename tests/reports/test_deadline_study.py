"""What the deadline study's plan decides is computed as the plan says (benchmarks/deadline_study.py, _sitting.py)."""

import csv
import importlib.util
import json
import math
import shutil
import sqlite3
import statistics
import sys
import tarfile
from argparse import Namespace
from collections import Counter
from pathlib import Path

import pytest

import made_comparison

ROOT = Path(__file__).parents[2]


def script(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "benchmarks" / f"{name}.py")
    sys.modules[name] = module = importlib.util.module_from_spec(spec)  # a dataclass looks its module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def study():
    return script("deadline_study")


RATES = {"fast-low": (5e-5, 0.001), "slow-high": (2.5e-5, 0.01)}


@pytest.fixture(scope="module")
def pilot(tmp_path_factory):
    """Two settings of vanilla on two tasks."""
    names = ("policy.learner.learning_rate", "policy.learner.entropy_coefficient")
    variants = [
        f"{arm}: vanilla " + " ".join(f"{name}={value}" for name, value in zip(names, pair, strict=True))
        for arm, pair in RATES.items()
    ]
    plan = made_comparison.plan(
        tasks=("diamonds", "mnist-5k"), seeds=(100,), arms=tuple(RATES), variants=tuple(variants), baseline="fast-low"
    )
    folder = made_comparison.freeze(tmp_path_factory.mktemp("pilot") / "study", plan)
    for block in plan.blocks:
        for arm in plan.arms:
            made_comparison.add(folder, block, arm, steps=22, spoil=brief)
    return folder


def brief(number, fields):
    """Attempts of about a second: every chain has some at both ends of the budget of 20 s."""
    return fields | {"seconds": 1.0 + number % 7 / 50}


def by_hand(path, final):
    """(a) and (b) with SQL and plain Python."""
    db = sqlite3.connect(path / "run.sqlite")
    rows = db.execute(
        "SELECT row, valid, reward, seconds, code FROM attempts WHERE status != 'sandbox-failure' ORDER BY step, row"
    ).fetchall()
    db.close()
    used, first, last, codes = Counter(), [], [], Counter()
    for row, valid, reward, seconds, code in rows:
        used[row] += seconds
        if used[row] <= 0.2 * final:
            first.append(reward if valid else 0.0)
        if 0.8 * final <= used[row] <= final:
            last.append(reward if valid else 0.0)
            codes.update([code] if valid else [])
    frequent = max(codes.values()) / sum(codes.values())
    error = sum(statistics.variance(part) / len(part) for part in (first, last)) ** 0.5
    return frequent, statistics.fmean(last) - statistics.fmean(first), error


def test_the_pilots_numbers_are_those_of_the_logs(study, pilot):
    final, _, runs = study.read_pilot(pilot.path)
    assert final == 20.0
    plan = pilot.plan()
    assert [(run.task, run.settings) for run in runs] == [
        (task, RATES[arm]) for task in plan.tasks for arm in plan.arms
    ]
    for run, (block, arm) in zip(runs, [(b, a) for b in plan.blocks for a in plan.arms], strict=True):
        assert (run.frequent, run.gain, run.error) == pytest.approx(by_hand(pilot.run(block, arm), 20.0))
        assert run.used >= 1


def test_the_fifths_of_a_run_hold_each_attempt_once(study, pilot, tmp_path):
    final, logs, _ = study.read_pilot(pilot.path)
    study.write_fifths(tmp_path / "fifths.csv", final, logs)
    with (tmp_path / "fifths.csv").open() as lines:
        found = list(csv.DictReader(lines))
    db = sqlite3.connect(pilot.run(pilot.plan().blocks[0], pilot.plan().arms[0]) / "run.sqlite")
    used, counts, rewards = Counter(), Counter(), Counter()
    for row, valid, reward, seconds in db.execute(
        "SELECT row, valid, reward, seconds FROM attempts ORDER BY step, row"
    ):
        used[row] += seconds
        fifth = math.ceil(5 * used[row] / final)
        counts[fifth] += 1
        rewards[fifth] += reward if valid else 0.0
    db.close()
    for line in found[:5]:
        fifth = int(line["fifth"])
        assert int(line["attempts"]) == counts[fifth]
        assert float(line["reward_per_attempt"]) == pytest.approx(rewards[fifth] / counts[fifth], abs=5e-4)


def test_the_largest_rate_then_the_smaller_coefficient_that_qualifies_on_every_task(study, pilot, capsys):
    def run(task, settings, frequent=0.3, gain=0.2, error=0.05, used=1.0):
        return study.PilotRun(task, settings, used, frequent, gain, error)

    pairs = [(5e-5, 0.001), (5e-5, 0.01), (2.5e-5, 0.001)]
    every = [run(task, pair) for task in ("a", "b") for pair in pairs]
    assert study.choose(every) == (5e-5, 0.001)
    for spoilt in ({"frequent": 0.5}, {"gain": 0.1}, {"used": 0.99}, {"frequent": float("nan")}):
        assert study.choose([*every, run("b", (5e-5, 0.001), **spoilt)]) == (5e-5, 0.01)
    assert study.choose([run("a", pair, gain=0.0) for pair in pairs]) is None
    study.say_choice(pilot.path, None)
    assert "chosen: policy.learner.learning_rate=" in capsys.readouterr().out


def table(place, rows):
    (place / "tables").mkdir(parents=True)
    lines = ["task,seed,arm,reward_at_T_current,most_frequent_script", *(",".join(map(str, row)) for row in rows)]
    (place / "tables" / "runs.csv").write_text("\n".join(lines) + "\n")


def test_predictions_stand_beside_outcomes_and_signs_are_counted(study, tmp_path, capsys):
    """kjv-section is predicted +0.013 (rate) and +0.010 (horizon) from the 10 % start, hotel-rates +0.031 and +0.026."""
    rows = []
    for task, gain in (("kjv-section", 0.02), ("hotel-rates", -0.3)):
        for seed in (0, 1):
            rows += [(task, seed, "vanilla", 0.5, 0.6), (task, seed, "rpg", 0.5 + gain + 0.01 * seed, 0.1),
                     (task, seed, "horizon", 0.4, 0.1)]  # fmt: skip
    table(tmp_path / "main", rows)
    table(tmp_path / "contrast", [(*row[:3], 0.5, 0.2) for row in rows])
    for seed, share in ((0, 0.0), (1, 0.25)):
        block = tmp_path / "main" / f"kjv-section-s{seed}"
        block.mkdir()
        (block / "chosen.json").write_text(json.dumps({"number": 340, "shares": {"340": {"share": 0.09 + share / 10}}}))
        (block / "starts.csv").write_text(f"model,task,valid\n330,kjv-section,1\n340,kjv-section,{share}\n")
    study.judge(tmp_path / "main", tmp_path / "contrast", tmp_path / "out")
    said = capsys.readouterr().out
    assert "- main, rpg: sign right on 1 of 2 tasks, inside its interval on 1" in said
    assert "- main, horizon: sign right on 0 of 2 tasks, inside its interval on 0" in said
    assert "| main | rpg | kjv-section | 2 | +0.013 (-0.007 to +0.042) | +0.025 | yes | yes |" in said
    assert "- manipulation, main: above one half in 4 of 4 blocks of vanilla" in said
    assert "- mechanism, rpg: main less contrast -0.135 (" in said
    assert "| rpg | start with a valid script of 12 | 1 | +0.030 |" in said
    assert "| rpg | start without | 1 | +0.020 |" in said
    assert (tmp_path / "out" / "judged.md").read_text() in said
    with pytest.raises(SystemExit, match="once the plan is complete"):
        study.judge(tmp_path / "nowhere", None, None)


def test_the_predictions_are_of_all_twelve_tasks_at_both_starts(study):
    for part in study.SHARES:
        for arm in study.PRICES:
            assert len(study.predictions(part, arm)) == 12
    assert study.predictions("main", "rpg")["diamonds"] == pytest.approx((0.015, -0.035, 0.077), abs=5e-4)


def test_a_sitting_leaves_a_file_for_every_block_without_checkpoints_and_with_its_start(pilot, tmp_path):
    sitting = script("deadline_sitting")
    shutil.copytree(pilot.path, tmp_path / "compared")
    deep = tmp_path / "compared" / "diamonds-s100" / "fast-low" / "vanilla" / "checkpoints" / "step-000001"
    deep.mkdir(parents=True, exist_ok=True)
    (deep / "model.safetensors").write_bytes(b"0" * 1000)
    (tmp_path / "starts").mkdir()
    (tmp_path / "starts" / "chosen.json").write_text("{}")
    files = sitting.bundle(tmp_path, tmp_path / "files")
    assert [path.name for path in files] == ["diamonds-s100.tar.xz", "mnist-5k-s100.tar.xz", "plan.tar.xz"]
    with tarfile.open(files[0]) as block, tarfile.open(files[-1]) as plan:
        names, planned = block.getnames(), plan.getnames()
    assert "diamonds-s100/fast-low/vanilla/run.sqlite" in names
    assert "diamonds-s100/chosen.json" in names
    assert not any("checkpoints" in name for name in names)
    assert {"plan.toml", "plan.json", "recipe.toml", "recipe-fast-low.toml"} <= set(planned)


def test_a_sitting_trains_measures_and_compares_with_the_plan_it_was_given(tmp_path):
    sitting = script("deadline_sitting")
    args = Namespace(out=tmp_path, plan=tmp_path / "plan.toml", steps=(310, 350), set=["workers=3"], replies=12, jobs=5,
                     blocks=["diamonds:0"])  # fmt: skip
    words = {name: " ".join(call) for name, call in sitting.commands(args).items()}
    assert "--set stop_after=350 --set keep=[310, 350] --set workers=3" in words["start"]
    assert f"--models {tmp_path}/pretrained/steps" in words["measure"]
    assert words["compare"].endswith(f"plan.toml diamonds:0 --out {tmp_path}/compared --jobs 5")
