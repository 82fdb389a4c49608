"""rewardrate doctor."""

import json
import subprocess
from pathlib import Path

from rewardrate.cli import doctor
from rewardrate.cli.main import main


def test_the_doctor_says_what_the_machine_can_do_and_how_to_add_what_is_missing(capsys, monkeypatch):
    monkeypatch.setattr(doctor, "_installed", lambda package, wanted="": package not in ("ray", "torch"))
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    for word in (
        "cores",
        "memory",
        "GPU",
        "sandbox",
        "missing ray",
        "missing torch",
        "-m pip install",
        "[agent]",
    ):
        assert word in out
    assert "[report]" not in out


def test_the_same_as_json(capsys):
    assert main(["doctor", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["machine"]["cores"] >= 1
    assert found["machine"]["memory_bytes"] > 2**28
    assert {extra["extra"] for extra in found["extras"]} == set(doctor.PURPOSES)


def test_every_extra_of_the_project_is_known_to_the_doctor():
    import tomllib

    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert set(doctor.PURPOSES) == set(project["optional-dependencies"]) - {"all"}


def test_every_extra_that_is_not_there_is_asked_for_and_none_is_called_useless(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(doctor, "_installed", lambda package, wanted="": False)
    monkeypatch.chdir(tmp_path)  # where no .venv-vllm lies
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    for extra in doctor.PURPOSES:
        assert f"[{doctor.OWN_ENVIRONMENT.get(extra, extra)}]" in out, extra
    assert "missing gymnasium, stable-baselines3" in out
    assert "missing numba-cuda" in out
    assert "nothing here uses it" not in out


def test_an_engine_in_its_own_environment_is_found_there(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(doctor, "_installed", lambda package, wanted="": False)
    (tmp_path / ".venv-verl/lib/python3.11/site-packages/verl").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    found = {extra["extra"]: extra for extra in doctor.examine()["extras"]}
    assert (found["verl"]["state"], found["verl"]["missing"]) == ("installed in .venv-verl", [])
    assert found["vllm"]["missing"] == ["vllm"]


def test_requirements_are_read_from_our_own_metadata(monkeypatch):
    (found,) = doctor.requirements("report")
    assert (found[0], sorted(found[1].split(","))) == ("matplotlib", ["<4", ">=3.9"])
    assert "pytest" in dict(doctor.requirements("dev"))

    def nowhere(name):
        raise doctor.importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(doctor.importlib.metadata, "requires", nowhere)
    assert doctor.requirements("report") == [("rewardrate", "")]


def test_gpus_are_what_the_driver_names_and_a_broken_driver_is_said(monkeypatch):
    monkeypatch.setattr(doctor.sys, "platform", "linux")
    monkeypatch.setattr(doctor.shutil, "which", lambda name: None)
    assert doctor.gpus() == []
    monkeypatch.setattr(doctor.shutil, "which", lambda name: "/usr/bin/false")
    assert doctor.gpus() == ["unknown: nvidia-smi fails (CalledProcessError)"]
    done = subprocess.CompletedProcess([], 0, stdout="NVIDIA H200, 143771 MiB\nNo devices were found\n")
    monkeypatch.setattr(doctor.subprocess, "run", lambda *a, **k: done)
    assert doctor.gpus() == ["NVIDIA H200, 143771 MiB"]
    monkeypatch.setattr(doctor.sys, "platform", "darwin")
    monkeypatch.setattr(doctor.platform, "machine", lambda: "arm64")
    assert doctor.gpus() == ["Apple GPU"]


def test_memory_is_unknown_where_the_system_does_not_say(monkeypatch):
    def refuse(name):
        raise ValueError(name)

    monkeypatch.setattr(doctor.os, "sysconf", refuse)
    assert doctor.memory_bytes() == 0


def test_a_better_sandbox_is_explained_where_the_machine_has_a_weak_one(capsys, monkeypatch):
    from rewardrate.sandbox import levels

    monkeypatch.setattr(levels, "try_isolation", lambda: levels.Isolation(levels.LEVELS[-1], {}))
    assert main(["doctor"]) == 0
    assert "better: use Linux 5.13" in capsys.readouterr().out


def test_a_package_counts_only_in_a_version_that_will_do(monkeypatch):
    monkeypatch.setattr(doctor.importlib.metadata, "version", lambda name: "2.9.1+cpu")
    assert doctor._installed("ray", ">=2.9,<3")
    assert doctor._installed("ray", "==2.9.1")
    assert doctor._installed("ray", "")
    assert not doctor._installed("ray", ">=2.40,<3")
    assert not doctor._installed("ray", "<2.9")


def test_packages_that_clash_get_an_environment_of_their_own():
    assert "-m venv .venv-vllm && .venv-vllm/bin/pip install" in doctor._command("vllm")
    assert "venv" not in doctor._command("ray").split("-m pip")[1]


def test_a_groups_limits_are_this_process_limits(monkeypatch, tmp_path):
    (tmp_path / "memory.max").write_text("1073741824\n")
    (tmp_path / "cpu.max").write_text("50000 100000\n")
    monkeypatch.setattr(doctor, "_own_groups", lambda controller: [tmp_path, tmp_path / "none"])
    assert doctor.memory_bytes() == 2**30
    assert doctor.usable_cores() == 0.5
    (tmp_path / "cpu.max").write_text("max 100000\n")
    assert doctor.usable_cores() >= 1


def test_many_missing_packages_do_not_make_a_line_of_two_hundred_columns(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)  # no environment of verl's own beside it
    monkeypatch.setattr("rewardrate.cli.doctor._installed", lambda *_: False)
    assert main(["doctor"]) == 0
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith(tuple(doctor.PURPOSES))]
    assert len(rows) == len(doctor.PURPOSES)
    assert max(map(len, rows)) <= 110
    assert any(line.endswith(" more") for line in rows)
