"""Devices: what the referee sees for itself, with a stand-in for NVIDIA's tool on the path."""

import dataclasses

import pytest

from rewardrate.environments.speedrun import devices
from rewardrate.environments.speedrun.race import load

CPU = load("nanogpt-mini")
GPU = dataclasses.replace(CPU, device="cuda", processes=2)
OUT_OF_MEMORY = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB"


@pytest.fixture
def tool(tmp_path, monkeypatch):
    def says(text, code=0):
        path = tmp_path / "nvidia-smi"
        path.write_text(f"#!/bin/sh\nprintf '{text}'\nexit {code}\n")
        path.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    return says


def test_a_race_on_cpus_needs_no_device():
    assert devices.trouble(CPU) == ""
    assert devices.excuses(CPU, OUT_OF_MEMORY) == ""


def test_free_gpus_are_no_trouble(tool):
    tool("3\\n250\\n")
    assert devices.trouble(GPU, 0.0) == ""


def test_gpus_that_others_hold_are_told(tool):
    tool("3\\n45500\\n")
    assert devices.trouble(GPU, 0.0) == "others hold memory (GPU 1: 45500 MiB)"


def test_too_few_gpus_or_a_tool_that_fails_are_told(tool):
    tool("3\\n")
    assert "1 GPUs answer, and the race needs 2" in devices.busy(2)
    tool("", 9)
    assert "0 GPUs answer" in devices.busy(1)


def test_no_tool_is_told(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "no nvidia-smi" in devices.busy(1)


def test_a_script_s_word_alone_excuses_nothing(tool):
    tool("0\\n0\\n")
    assert devices.excuses(GPU, OUT_OF_MEMORY) == ""
    tool("45500\\n0\\n")
    assert "others hold memory" in devices.excuses(GPU, OUT_OF_MEMORY)
    assert devices.excuses(GPU, "ValueError: mine") == ""


def test_memory_of_the_machine_is_known():
    assert 2**20 < devices.available_bytes() < 2**62
