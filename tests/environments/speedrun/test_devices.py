"""Devices: what the referee sees for itself, with a stand-in for NVIDIA's tool on the path."""

import dataclasses
import sys
from types import SimpleNamespace

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
    tool("GPU-a, 3\\nGPU-b, 250\\n")
    assert devices.trouble(GPU, 0.0) == ""


def test_gpus_that_others_hold_are_reported(tool):
    tool("GPU-a, 3\\nGPU-b, 45500\\n")
    assert devices.trouble(GPU, 0.0) == "others hold memory (GPU 1: 45500 MiB)"


def test_too_few_gpus_or_a_tool_that_fails_are_reported(tool):
    tool("GPU-a, 3\\n")
    assert "1 GPUs answer, and the race needs 2" in devices.busy(2)
    tool("", 9)
    assert "0 GPUs answer" in devices.busy(1)


def test_no_tool_is_reported(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "no nvidia-smi" in devices.busy(1)


def test_a_script_s_word_alone_excuses_nothing(tool):
    tool("GPU-a, 0\\nGPU-b, 0\\n")
    assert devices.excuses(GPU, OUT_OF_MEMORY) == ""
    tool("GPU-a, 45500\\nGPU-b, 0\\n")
    assert "others hold memory" in devices.excuses(GPU, OUT_OF_MEMORY)
    assert devices.excuses(GPU, "ValueError: mine") == ""


@pytest.fixture
def using(monkeypatch):
    """This process as one that uses GPUs: what torch would say of it, where there is none to ask."""

    def uses(reserved, initialized=True):
        given_back = []
        cuda = SimpleNamespace(
            is_initialized=lambda: initialized,
            device_count=lambda: len(reserved),
            memory_reserved=lambda number: list(reserved.values())[number] * 2**20,
            get_device_properties=lambda number: SimpleNamespace(uuid=list(reserved)[number]),
            empty_cache=lambda: given_back.append(True),
        )
        monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
        return given_back

    return uses


def test_what_our_own_process_holds_is_no_trouble_and_what_others_hold_beside_it_is(tool, using):
    given_back = using({"AAAA-1": 40_000, "bbbb-2": 0})
    tool("GPU-aaaa-1, 40700\\nGPU-bbbb-2, 3\\n")
    assert devices.trouble(GPU, 0.0) == ""
    assert given_back, "memory that is only kept for later is given back before an attempt"
    tool("GPU-aaaa-1, 42500\\nGPU-bbbb-2, 3\\n")
    assert devices.trouble(GPU, 0.0) == "others hold memory (GPU 0: 1476 MiB)"
    assert "GPU 0" in devices.excuses(GPU, OUT_OF_MEMORY)
    tool("GPU-aaaa-1, 40700\\nGPU-bbbb-2, 900\\n")
    assert devices.trouble(GPU, 0.0) == "others hold memory (GPU 1: 900 MiB)", "a GPU that we do not use is not ours"


def test_our_own_share_is_that_of_the_very_gpu_whatever_torch_numbers_it(tool, using):
    using({"bbbb-2": 40_000})  # CUDA_VISIBLE_DEVICES=1: torch's first is the machine's second
    tool("GPU-aaaa-1, 3\\nGPU-bbbb-2, 40700\\n")
    assert devices.trouble(GPU, 0.0) == ""
    tool("GPU-aaaa-1, 40700\\nGPU-bbbb-2, 3\\n")
    assert "GPU 0: 40700 MiB" in devices.trouble(GPU, 0.0)


def test_neither_torch_nor_cuda_is_started_for_the_question(tool, using, monkeypatch):
    using({"aaaa-1": 40_000}, initialized=False)
    assert devices.own_mib() == {}
    monkeypatch.delitem(sys.modules, "torch")
    assert devices.own_mib() == {}
    tool("GPU-a, 3\\nGPU-b, 3\\n")
    assert devices.trouble(GPU, 0.0) == ""
    assert "torch" not in sys.modules


@pytest.mark.gpu
def test_a_policy_s_memory_on_the_race_s_gpu_is_known_as_our_own():
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("there is no GPU")
    held = torch.ones(2 * 2**30, dtype=torch.uint8, device="cuda")
    (held[:4096].view(64, 64).float() @ torch.ones(64, 64, device="cuda")).sum().item()  # libraries are loaded too
    assert devices.busy(1) == ""
    assert max(devices.own_mib().values()) >= 2048


def test_memory_of_the_machine_is_known():
    assert 2**20 < devices.available_bytes() < 2**62
    assert devices.memory_kills() >= 0


def test_a_machine_that_says_nothing_of_its_memory_is_taken_to_have_enough(tmp_path, monkeypatch):
    monkeypatch.setattr(devices, "PROC", tmp_path)
    assert devices.available_bytes() == 2**62
    assert devices.memory_kills() == 0
    (tmp_path / "meminfo").write_text("MemTotal: 10 kB\nMemAvailable:    7 kB\n")
    (tmp_path / "vmstat").write_text("pgfault 9\noom_kill 4\n")
    assert (devices.available_bytes(), devices.memory_kills()) == (7168, 4)
