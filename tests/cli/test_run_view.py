"""The live view of a run: it fits 80 columns, says what happens now, and is plain where no line can move."""

import io
import re
import time
from types import SimpleNamespace

import pytest

from rewardrate.attempt import Outcome, RateEstimate
from rewardrate.cli import run_view
from rewardrate.cli.run_view import PHASES, RunView
from rewardrate.cli.terminal import Live
from rewardrate.training.loop import Budget, Step


class Screen(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def recipe():
    return SimpleNamespace(task="diamonds", batch=16, schedule="step", budget=Budget(steps=12, wall_seconds=255.0))


def outcome(valid=True, seconds=3.0):
    return Outcome(valid, 0.5 if valid else 0.0, 0.61234567, seconds, "score 0.6", "ok", "pass")


def shown(view):
    """The lines that the view shows now."""
    view.live.shown = 0.0
    before = len(view.live.stream.getvalue())
    view.draw()
    text = re.sub(r"\x1b\[[0-9]*[A-Z]", "", view.live.stream.getvalue()[before:])
    return [line.split("\r")[-1].rstrip() for line in text.split("\n")]


def test_it_says_what_happens_and_how_far_the_run_is_within_80_columns(recipe, tmp_path):
    view = RunView(Live(Screen()))
    assert shown(view) == ["loading Python packages (0 s)"]
    view.begin(recipe, "rpg", tmp_path)
    for name in PHASES:
        view.phase(name)
        assert any(PHASES[name] in line or "running 0 of 16" in line for line in shown(view))
    view.phase("propose")
    view.phase("execute")
    for _ in range(12):
        view.attempt(0, outcome())
    bar, doing = shown(view)
    assert re.fullmatch(r"\[#*\.*\] +\d+% of the budget, .+ left, 0.1667 reward/s", bar)
    assert doing.startswith("step 1: running 12 of 16 scripts (")
    view.phase("evaluate")
    assert "running the best script once more" in shown(view)[-1]
    moved = view.live.stream.getvalue().replace("\r", "\n").split("\n")
    assert all(len(line) < 80 for line in moved if not line.startswith("rpg on "))  # a path may be long


def test_mean_reward_and_mean_seconds_of_a_step_are_of_the_same_attempts(recipe, tmp_path):
    lines = []
    view = RunView(Live(Screen()))
    view.begin(recipe, "rpg", tmp_path)
    view.live.say = lines.append
    failed = Outcome(False, 0.0, None, 3.0, "NameError", "error", "x")
    ours = Outcome(False, 0.0, None, 0.0, "out of disk", "sandbox-failure", "x")
    found = [Outcome(True, 0.9, 0.8, 1.0, "fine", "ok", "pass"), failed, ours]
    view.step(Step(1, found, RateEstimate(0.1, 0.1, 0.1, 0.1, 2), {}, {}))
    assert "valid   1/3" in lines[0]
    assert "score 0.8  reward 0.45  2 s" in lines[0]


def test_of_chains_that_do_not_wait_more_scripts_may_end_than_the_step_takes(recipe, tmp_path):
    recipe.schedule = "stream"
    view = RunView(Live(Screen()))
    view.begin(recipe, "rpg", tmp_path)
    view.phase("execute")
    for _ in range(20):
        view.attempt(0, outcome())
    assert shown(view)[-1].startswith("step 1: running scripts, 20 ended in this step (")
    assert view.share() < 1 / 12


def test_it_says_that_scripts_wait_for_cores(recipe, tmp_path, monkeypatch):
    view = RunView(Live(Screen()))
    view.begin(recipe, "rpg", tmp_path)
    view.phase("execute")
    monkeypatch.setattr("rewardrate.sandbox.cores.here", lambda: (0, 2))
    assert shown(view)[-1].startswith("step 1: waiting for cores that other programs use, 0 of 16 scripts done")
    monkeypatch.setattr("rewardrate.sandbox.cores.here", lambda: (1, 1))
    assert "running 0 of 16" in shown(view)[-1]


def test_it_is_redrawn_while_nothing_happens(recipe, tmp_path, monkeypatch):
    monkeypatch.setattr(run_view, "TICK", 0.01)
    screen = Screen()
    with Live(screen) as live, RunView(live) as view:
        view.begin(recipe, "rpg", tmp_path)
        view.phase("propose")
        before, end = len(screen.getvalue()), time.monotonic() + 60
        while len(screen.getvalue()) == before and time.monotonic() < end:
            time.sleep(0.01)
        assert len(screen.getvalue()) > before
    assert screen.getvalue().endswith("\r"), "the line that moves is gone at the end"


def test_a_step_is_one_line_of_at_most_79_columns_and_only_once(recipe, tmp_path):
    view = RunView(Live(io.StringIO()))
    view.begin(recipe, "rpg", tmp_path)
    rate = RateEstimate(0.1234, 0.1, 0.05, 0.2, 16)
    for number in (1, 2, 2):
        view.step(Step(number, [outcome(seconds=123.456)] * 100 + [outcome(False)] * 28, rate, {}, {"execute": 9.0}))
    head, *steps = view.live.stream.getvalue().splitlines()
    assert head == f"rpg on diamonds, in {tmp_path}"
    assert len(steps) == 2
    assert steps[0].startswith("step   1  valid 100/128")
    assert steps[0].endswith("rate 0.1234    8%")
    assert max(map(len, steps)) <= 79


def test_without_a_terminal_it_is_plain_lines_with_a_sign_of_life(recipe, tmp_path, monkeypatch):
    monkeypatch.setattr(run_view, "TICK", 0.01)
    monkeypatch.setattr(run_view, "HEARTBEAT", 0.0)
    plain = io.StringIO()
    with Live(plain) as live, RunView(live) as view:
        view.begin(recipe, "rpg", tmp_path)
        view.phase("data")
        view.phase("execute")
        end = time.monotonic() + 60
        while "running 0 of 16" not in plain.getvalue() and time.monotonic() < end:
            time.sleep(0.01)
        view.phase("evaluate")
    assert "\r" not in plain.getvalue()
    assert "\x1b" not in plain.getvalue()
    lines = plain.getvalue().splitlines()
    assert "preparing the data" in lines
    assert "running the best script once more" in lines
    assert any(line.startswith("step 1: running 0 of 16 scripts (") for line in lines)


def test_a_warning_is_a_line_that_stays(recipe, tmp_path):
    import logging

    plain = io.StringIO()
    with Live(plain) as live, RunView(live):
        logging.getLogger("rewardrate.sandbox.cores").warning("waiting for %d core(s)", 2)
    assert plain.getvalue() == "waiting for 2 core(s)\n"
