"""A run is written step by step, and resumes after a crash as if there had been none."""

import sqlite3
import threading

import pytest

from rewardrate.attempt import Outcome, Proposal, RateEstimate
from rewardrate.errors import InputError
from rewardrate.runlog import Origin, RunLog

RATE = RateEstimate(0.5, 0.4, 0.3, 0.6, 2)
FINE = Outcome(True, 0.5, 0.8, 1.0, "fine", "ok", "code")


@pytest.fixture
def log(tmp_path):
    with RunLog.create(tmp_path / "run", "", {"seed": "1"}) as log:
        yield log


def proposals(rows=2):
    return [Proposal(f"reply {row}", (1, row), (row, 2**31 - 1), (-0.5, -row / 7)) for row in range(rows)]


def begin(log, step, rows=2, parent=None):
    return log.begin_step(step, proposals(rows), [Origin(parent=parent)] * rows)


def whole_step(log, step, rows=2, point=True, outcome=FINE):
    log.begin_step(step, proposals(rows))
    for row in range(rows):
        log.outcome(step, row, outcome)
    commit(log, step, rows, point)


def commit(log, step, rows=2, point=True, rate=RATE):
    name = log.checkpoint(step, lambda path: (path / "w").write_text(str(step))) if point else None
    states = {"estimator": {"mu": step / 7}, "rng": 2**100 + step} if point else None
    log.commit_step(step, rate, [0.1] * rows, [0.0] * rows, states=states, checkpoint=name)


def reopened(log):
    log.close()
    return RunLog.open(log.folder)


def names(log):
    return sorted(path.name for path in (log.folder / "checkpoints").iterdir())


def test_a_new_run_starts_at_step_one(log):
    resumed = log.resume()
    assert (resumed.step, resumed.states, resumed.checkpoint, resumed.recorded) == (0, {}, None, {})
    assert log.begin_step(1, proposals(3)) == [1, 2, 3]
    assert log.events() == []


def test_attempt_numbers_go_on_over_steps(log):
    whole_step(log, 1, rows=3)
    whole_step(log, 2, rows=2)
    assert begin(log, 3, 4, parent=5) == [6, 7, 8, 9]


def test_the_resume_point_brings_back_states_and_checkpoint(log):
    whole_step(log, 1)
    whole_step(log, 2)
    with reopened(log) as again:
        resumed = again.resume()
        assert (resumed.step, resumed.recorded) == (2, {})
        assert resumed.states == {"estimator": {"mu": 2 / 7}, "rng": 2**100 + 2}
        assert (resumed.checkpoint / "w").read_text() == "2"
        assert [event.kind for event in again.events()] == ["resumed"]


def test_the_step_in_progress_comes_back_with_the_outcomes_that_exist(log):
    whole_step(log, 1)
    begin(log, 2, 3, parent=1)
    log.outcome(2, 1, FINE)
    with reopened(log) as again:
        rows = again.resume().recorded[2]
        assert [row.attempt for row in rows] == [3, 4, 5]
        assert [row.proposal for row in rows] == proposals(3)
        assert {(row.parent, row.seed) for row in rows} == {(1, "")}
        assert [row.outcome for row in rows] == [None, FINE, None]
        again.outcome(2, 0, FINE)
        again.outcome(2, 2, FINE)
        commit(again, 2, rows=3)
        assert len(again.attempts(2)) == 3
        assert again.pending() == ()


def test_two_checkpoints_are_kept_and_leftovers_are_removed(log):
    for step in range(1, 5):
        whole_step(log, step)
    assert names(log) == ["step-000003", "step-000004"]
    assert [step.checkpoint for step in log.steps()] == [None, None, "step-000003", "step-000004"]
    log.checkpoint(5, lambda path: None)  # and then the process dies
    with reopened(log) as again:
        assert names(again) == ["step-000003", "step-000004"]


def test_steps_between_checkpoints_are_worked_through_again_from_the_record(log):
    for step in range(1, 7):
        whole_step(log, step, point=step in (2, 4))
    with reopened(log) as again:
        resumed = again.resume()
        assert (resumed.step, sorted(resumed.recorded)) == (4, [5, 6])
        assert [row.proposal for row in resumed.recorded[6]] == proposals(2)
        assert [row.outcome for row in resumed.recorded[6]] == [FINE, FINE]
        commit(again, 5, point=False)
        commit(again, 6)
        assert again.resume().step == 6
        assert len(again.attempts()) == 12
        assert names(again) == ["step-000004", "step-000006"]


def test_working_through_a_step_again_with_another_rate_is_noted(log):
    whole_step(log, 1, point=False)
    commit(log, 1, rate=RateEstimate(0.6, 0.4, 0.3, 0.6, 2))
    assert [(event.kind, event.message) for event in log.events()] == [
        ("replay-differs", "step 1 charged 0.5, worked through again 0.6")
    ]
    assert log.steps()[0].rate == RATE


def test_a_lost_checkpoint_leaves_the_one_before_it(log):
    for step in (1, 2, 3):
        whole_step(log, step)
    (log.folder / "checkpoints/step-000003").rename(log.folder / "gone")
    resumed = log.resume()
    assert (resumed.step, sorted(resumed.recorded)) == (2, [3])
    assert [row.proposal for row in resumed.recorded[3]] == proposals(2)
    commit(log, 3)
    assert log.resume().step == 3
    assert names(log) == ["step-000002", "step-000003"]
    assert len(log.attempts()) == 6


def test_without_any_checkpoint_the_run_says_so(log):
    for step in (1, 2, 3):
        whole_step(log, step)
    for name in names(log):
        (log.folder / "checkpoints" / name).rename(log.folder / name)
    for _ in range(2):
        with pytest.raises(InputError, match=r"its checkpoints are gone \(step-000003, step-000002\)"):
            log.resume()


def test_a_lost_first_checkpoint_means_from_the_start(log):
    whole_step(log, 1)
    (log.folder / "checkpoints/step-000001").rename(log.folder / "gone")
    resumed = log.resume()
    assert (resumed.step, resumed.states, sorted(resumed.recorded)) == (0, {}, [1])


def test_a_policy_without_weights_resumes_from_its_states_alone(log):
    whole_step(log, 1, point=False)
    log.begin_step(2, proposals())
    for row in (0, 1):
        log.outcome(2, row, FINE)
    log.commit_step(2, RATE, [0.1, 0.1], [0.0, 0.5], states={"buffer": [1]})
    resumed = log.resume()
    assert (resumed.step, resumed.states, resumed.checkpoint) == (2, {"buffer": [1]}, None)


def test_identical_texts_are_stored_once(log):
    outcome = Outcome(True, 0.5, 0.8, 1.0, "fine", "ok", "print()\n" * 1000)
    for step in range(1, 11):
        whole_step(log, step, rows=16, outcome=outcome)
    log.close()
    db = sqlite3.connect(log.path)
    assert db.execute("SELECT count(*) FROM texts WHERE text = ?", (outcome.code,)).fetchone() == (1,)
    assert db.execute("SELECT count(*) FROM attempts WHERE code = ?", (outcome.code,)).fetchone() == (160,)
    db.close()
    assert log.path.stat().st_size < 400_000


def test_text_that_utf8_cannot_write_survives(log):
    odd = "print('\ud800 \x00 \U0001f600')"
    whole_step(log, 1, outcome=Outcome(True, 0.5, 0.8, 1.0, odd, "ok", odd))
    assert {attempt.code for attempt in log.attempts()} == {odd}
    log.note("odd", odd)


def test_a_failure_of_the_sandbox_uses_no_budget(log):
    log.begin_step(1, proposals(2))
    log.outcome(1, 0, Outcome(False, 0.0, None, 9.0, "", "sandbox-failure", ""))
    log.outcome(1, 1, Outcome(False, 0.0, None, 3.0, "", "timeout", ""))
    log.commit_step(1, RATE, [None, -10.0], [0.0, 0.0])
    assert log.steps()[0].script_seconds == 3.0


def test_a_score_may_be_infinite_or_undefined_but_a_reward_may_not(log):
    log.begin_step(1, proposals(3))
    log.outcome(1, 0, Outcome(True, 0.5, float("inf"), 1.0, "", "ok", ""))
    log.outcome(1, 1, Outcome(True, 0.5, float("nan"), 1.0, "", "ok", ""))
    with pytest.raises(InputError, match=r"outcome\[2\]\.reward = nan"):
        log.outcome(1, 2, Outcome(True, float("nan"), 1.0, 1.0, "", "ok", ""))
    assert [row.outcome and row.outcome.score for row in log.pending()] == [float("inf"), None, None]


def test_outcomes_may_arrive_from_several_threads(log):
    log.begin_step(1, proposals(64))
    threads = [
        threading.Thread(target=lambda k=k: [log.outcome(1, row, FINE) for row in range(k, 64, 4)]) for k in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    commit(log, 1, rows=64)
    assert log.table("row")["row"] == list(range(64))


def test_moves_out_of_order_are_refused_and_change_nothing(log):
    whole_step(log, 1)
    log.begin_step(2, proposals(2))
    log.outcome(2, 0, FINE)
    with pytest.raises(InputError, match="step 2 has begun"):
        log.begin_step(2, proposals(2))
    with pytest.raises(InputError, match="does not wait for an outcome"):
        log.outcome(2, 0, FINE)
    with pytest.raises(InputError, match="does not wait for an outcome"):
        log.outcome(2, 7, FINE)
    with pytest.raises(InputError, match=r"rows \[1\] have no outcome"):
        commit(log, 2)
    with pytest.raises(InputError, match="it is committed already"):
        commit(log, 1)
    with pytest.raises(InputError, match="it has not begun"):
        commit(log, 3)
    log.outcome(2, 1, FINE)
    with pytest.raises(InputError, match="the step has 2 attempts"):
        log.commit_step(2, RATE, [0.1], [0.0])
    with pytest.raises(InputError, match="must be finite"):
        log.commit_step(2, RATE, [0.1, float("nan")], [0.0, 0.0])
    with pytest.raises(InputError, match="must be in place"):
        log.commit_step(2, RATE, [0.1] * 2, [0.0] * 2, states={"rng": 1}, checkpoint="step-000002.gone")
    with pytest.raises(InputError, match=r"states\.rng = "):
        log.commit_step(2, RATE, [0.1] * 2, [0.0] * 2, states={"rng": float("nan")})
    commit(log, 2)
    with pytest.raises(InputError, match="step 2 is the latest"):
        log.begin_step(5, proposals(2))
    with pytest.raises(InputError, match="attempts so far: 1 to 4"):
        begin(log, 3, parent=5)
    for seed in ("s" * 201, "\ud800"):
        with pytest.raises(InputError, match=r"origins\[0\]\.seed = .* at most 200 characters"):
            log.begin_step(3, [Proposal("a")], [Origin(seed=seed)])
    for prompt in ("text", [{"role": 1}], ["text"]):
        with pytest.raises(InputError, match=r"origins\[0\]\.prompt = .* list of messages"):
            log.begin_step(3, [Proposal("a")], [Origin(prompt)])
    for bad in (Proposal("a", (2**31,)), Proposal("a", (), ("x",)), Proposal("a", (), (), ("x",))):
        with pytest.raises(InputError, match=r"proposals\[0\] = "):
            log.begin_step(3, [bad])
    for given in (([],), (proposals(2), [Origin()]), (proposals(2), [])):
        with pytest.raises(InputError, match="each its origin"):
            log.begin_step(3, *given)
    assert (len(log.attempts()), log.pending(), log.last_step()) == (4, (), 2)


def test_one_writer_at_a_time(log):
    with pytest.raises(InputError, match="another process is writing this run"):
        RunLog.open(log.folder)
    with RunLog.open(log.folder, read_only=True) as reader:
        assert reader.last_step() == 0
    log.close()
    RunLog.open(log.folder).close()


def test_a_new_run_needs_an_empty_folder(tmp_path, log):
    with pytest.raises(InputError, match="it holds a run already; resume it"):
        RunLog.create(log.folder, "", {})
    for name in ("notes.txt", "config.toml"):
        (tmp_path / name[0]).mkdir()
        (tmp_path / name[0] / name).write_text("mine")
        with pytest.raises(InputError, match="a new run needs an empty folder"):
            RunLog.create(tmp_path / name[0], "", {})
        assert (tmp_path / name[0] / name).read_text() == "mine"
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="it is not a folder"):
        RunLog.create(tmp_path / "file", "", {})
    with pytest.raises(InputError, match="it cannot be made"):
        RunLog.create(tmp_path / "file" / "below", "", {})


def test_what_a_killed_creation_left_is_taken_over(tmp_path):
    folder = tmp_path / "run"
    (folder / "checkpoints").mkdir(parents=True)
    for name in ("run.lock", "run.sqlite.partial", "run.sqlite.partial-journal", "config.toml"):
        (folder / name).write_bytes(b"half")
    assert not RunLog.exists(folder)
    with RunLog.create(folder, "seed = 2\n", {"seed": "2"}) as log:
        assert (log.about(), log.config_text()) == ({"seed": "2"}, "seed = 2\n")
    assert RunLog.exists(folder)


def test_a_closed_run_is_a_single_file(log):
    whole_step(log, 1)
    log.close()
    found = sorted(path.name for path in log.folder.iterdir())
    assert found == ["checkpoints", "config.toml", "run.lock", "run.sqlite"]


def test_chains_that_do_not_wait_begin_and_end_attempts_one_by_one_and_a_step_takes_some_of_them(log):
    assert log.begin(1, proposals(3), [Origin()] * 3, [0, 1, 2]) == [1, 2, 3]
    log.ended(2, 1, FINE)
    assert log.begin(1, proposals(1), [Origin()], [1]) == [4]
    log.ended(1, 2, FINE)
    log.commit_step(1, RATE, [0.1, None], [0.0, 0.0], attempts=[1, 2])
    assert [(one.id, one.step, one.row, one.chain, one.arrival) for one in log.attempts()] == [
        (1, 1, 0, 0, 2), (2, 1, 1, 1, 1)
    ]  # fmt: skip
    assert [(one.attempt, one.chain, one.updates, one.arrival) for one in log.pending()] == [
        (3, 2, 0, None),
        (4, 1, 0, None),
    ]
    assert log.begin(2, proposals(1), [Origin(parent=2)], [0]) == [5]


def test_a_chain_with_an_attempt_under_way_begins_no_other_and_none_ends_twice(log):
    log.begin(1, proposals(1), [Origin()], [3])
    for chains in ([3], [-1], [4, 4]):
        with pytest.raises(InputError, match="chains"):
            log.begin(1, proposals(len(chains)), [Origin()] * len(chains), chains)
    log.ended(1, 1, FINE)
    for attempt in (1, 2):
        with pytest.raises(InputError, match="it is not under way"):
            log.ended(attempt, 2, FINE)
    with pytest.raises(InputError, match="step 1 cannot take it"):
        log.commit_step(1, RATE, [0.1, 0.1], [0.0, 0.0], attempts=[1, 2])
    assert log.last_step() == 0
    assert [one.attempt for one in log.pending()] == [1]


def test_beginning_an_attempt_reads_no_committed_one(log):
    """Chains that do not wait begin one at a time: reading all attempts each time would take longer and longer."""
    whole_step(log, 1)
    asked = []
    log._db.set_trace_callback(asked.append)
    log.begin(2, proposals(1), [Origin(parent=2)], [0])
    log._db.set_trace_callback(None)
    plans = [
        row[3]
        for query in asked
        if query.startswith("SELECT")
        for row in log._db.execute(f"EXPLAIN QUERY PLAN {query}")
    ]
    assert any(plan == "SEARCH attempts_rows" for plan in plans)
    assert not any(plan.startswith("SCAN attempts_rows") for plan in plans)
