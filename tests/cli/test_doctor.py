"""rewardrate doctor."""

import json
import subprocess

from rewardrate.cli import doctor
from rewardrate.cli.main import main


def test_the_doctor_says_what_the_machine_can_do_and_how_to_add_what_is_missing(capsys, monkeypatch):
    monkeypatch.setattr(doctor, "_installed", lambda package: package != "ray")
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    for word in ("cores", "memory", "GPU", "sandbox", "missing ray", "-m pip install 'rewardrate[ray]'"):
        assert word in out
    assert "'rewardrate[report]'" not in out


def test_the_same_as_json(capsys):
    assert main(["doctor", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["machine"]["cores"] >= 1
    assert found["machine"]["memory_bytes"] > 2**28
    assert {extra["extra"] for extra in found["extras"]} == set(doctor.PURPOSES)


def test_every_extra_of_the_project_is_known_to_the_doctor():
    import tomllib
    from pathlib import Path

    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert set(doctor.PURPOSES) == set(project["optional-dependencies"]) - {"all"}


def test_requirements_are_read_from_our_own_metadata(monkeypatch):
    assert doctor.requirements("report") == ["matplotlib"]
    assert "pytest" in doctor.requirements("dev")

    def nowhere(name):
        raise doctor.importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(doctor.importlib.metadata, "requires", nowhere)
    assert doctor.requirements("report") == ["rewardrate"]


def test_gpus_are_what_the_driver_names_and_a_broken_driver_is_none(monkeypatch):
    monkeypatch.setattr(doctor.shutil, "which", lambda name: None)
    assert doctor.gpus() == []
    monkeypatch.setattr(doctor.shutil, "which", lambda name: "/bin/false")
    assert doctor.gpus() == []
    done = subprocess.CompletedProcess([], 0, stdout="NVIDIA H200, 143771 MiB\n\n")
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
