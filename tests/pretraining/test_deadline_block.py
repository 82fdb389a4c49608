"""A sitting begins only whole blocks that end in time, and goes on where it was (benchmarks/deadline_block.py)."""

import importlib.util
import json
import sys
from argparse import ArgumentTypeError, Namespace
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
ARMS = ["vanilla", "rpg", "horizon"]


@pytest.fixture
def block(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    spec = importlib.util.spec_from_file_location("deadline_block", BENCHMARKS / "deadline_block.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    sys.modules.pop("arms", None)


def arguments(tmp_path, **changed):
    given = {"recipe": "deadline", "blocks": [("diamonds", 0), ("grants", 1)], "arms": ARMS, "seconds": 60.0}
    given |= {"cores": 15, "slots": 3, "start": str(tmp_path / "model"), "start_steps": 350, "set": []}
    return Namespace(**{**given, "runs": tmp_path / "runs", **changed})


def test_every_arm_of_a_study_is_first_equally_often(block):
    orders = [block.turns(ARMS, place) for place in range(6)]
    assert all(sorted(order) == sorted(ARMS) for order in orders)
    assert [order[0] for order in orders] == ARMS * 2


@pytest.mark.parametrize(
    ("width", "left", "blocks"),
    [(5, 99, 0), (5, 100, 1), (5, 199, 1), (5, 200, 3), (3, 200, 2), (1, 899, 2), (1, 900, 3), (20, 100, 3)],
)
def test_only_blocks_whose_last_run_ends_in_time_are_begun(block, width, left, blocks):
    assert block.fitting([[100.0] * 3] * 3, width, left) == blocks


def test_a_long_block_is_not_passed_over_and_a_complete_one_takes_no_time(block):
    assert block.fitting([[10.0] * 3, [500.0] * 3, [10.0] * 3], 3, 100.0) == 1
    assert block.fitting([[], [], [50.0]], 1, 50.0) == 3
    assert block.fitting([[], [60.0]], 1, 50.0) == 1
    assert block.fitting([], 1, 0.0) == 0


def test_the_runs_of_a_block_share_task_seed_start_and_slots(block, tmp_path):
    jobs = block.Sitting(arguments(tmp_path, set=["budget.script_seconds=300"])).jobs(1, "grants", 1)
    assert [words[words.index("--arms") + 1] for words, _ in jobs] == ["rpg", "horizon", "vanilla"]
    for words, seconds in jobs:
        assert words[words.index("--tasks") + 1] == "grants"
        assert words[words.index("--first-seed") + 1] == "1"
        assert f"policy.name={json.dumps(str(tmp_path / 'model'))}" in words
        assert "sandbox.slots=3" in words
        assert seconds == pytest.approx(100 * block.BESIDE)


def test_a_run_that_has_used_its_budget_is_not_repeated(block, tmp_path, monkeypatch):
    sitting = block.Sitting(arguments(tmp_path, set=["budget.script_seconds=300"]))
    monkeypatch.setattr(block, "used", lambda folder: {"vanilla": 300.5, "rpg": 150.0}.get(folder.name, 0.0))
    assert [round(seconds / block.BESIDE) for _, seconds in sitting.jobs(0, "diamonds", 0)] == [50, 100]


def test_a_block_that_was_begun_from_another_start_is_refused(block, tmp_path):
    (tmp_path / "model").mkdir()
    sitting = block.Sitting(arguments(tmp_path))
    with pytest.raises(SystemExit, match="the start is"):  # no weights
        sitting._note(tmp_path / "runs" / "diamonds-s0")
    weights = tmp_path / "model" / "model.safetensors"
    weights.write_bytes(b"one")
    for _ in range(2):
        sitting._note(tmp_path / "runs" / "diamonds-s0")
    known = json.loads((tmp_path / "runs" / "diamonds-s0" / "block.json").read_text())
    assert [one["side_by_side"] for one in known["sittings"]] == [5, 5]
    weights.write_bytes(b"two")
    with pytest.raises(SystemExit, match="begun from"):
        sitting._note(tmp_path / "runs" / "diamonds-s0")


@pytest.mark.parametrize("text", ["diamonds", ":1", "diamonds:", "diamonds:x", "diamonds:-1"])
def test_a_block_is_a_task_and_a_seed(block, text):
    assert block.block_of("folder/of:task:3") == ("folder/of:task", 3)
    with pytest.raises(ArgumentTypeError, match="TASK:SEED"):
        block.block_of(text)


def test_a_program_that_is_not_over_in_time_is_interrupted(block, tmp_path):
    code = """import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    open(sys.argv[1], 'w').close()
    time.sleep(60)
except KeyboardInterrupt:
    open(sys.argv[2], 'w').close()
"""
    began, ended = tmp_path / "began", tmp_path / "ended"
    for seconds in (2.0, 10.0, 40.0):  # a busy machine starts a program late
        sitting = block.Sitting(arguments(tmp_path, seconds=block.GRACE_SECONDS + seconds))
        sitting._run(["-c", code, str(began), str(ended)])
        if began.exists():
            break
    assert ended.exists()
    sitting._run(["-c", f"open({str(tmp_path / 'late')!r}, 'w')"])  # its time is over: not begun
    assert not (tmp_path / "late").exists()
