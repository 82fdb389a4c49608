"""Trials on a GPU: on numba's simulator here, on the GPU where there is one."""

import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numba import cuda
from numba.core.errors import NumbaError

from rewardrate.bandits import CUCB, NPG, SPG, World, simulate
from rewardrate.bandits.cuda import _translate_errors, batch_placement, placement
from rewardrate.bandits.jobs import TrialBatch
from rewardrate.errors import InfrastructureError, InputError
from rewardrate.rates import NIW, Totals

SIMULATOR = Path(__file__).parent / "on_simulator.py"


def gpu():
    try:
        return bool(cuda.is_available())
    except Exception:
        return False


needs_gpu = [pytest.mark.gpu, pytest.mark.skipif(not gpu(), reason="no NVIDIA GPU")]


def on_simulator(what):
    variables = os.environ | {"NUMBA_ENABLE_CUDASIM": "1", "NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, str(SIMULATOR), what]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False, timeout=500)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_the_kernel_of_a_thread_per_trial_computes_what_the_cpu_computes():
    assert on_simulator("thread").count("same") == 2


def test_batches_come_back_as_they_finish_within_the_memory_there_is():
    said = on_simulator("launches")
    assert said.count("same") == 4
    assert "marks" in said


def test_errors_of_the_driver_and_the_compiler_are_translated():
    class CudaAPIError(RuntimeError):
        pass

    def launches(error):
        yield None
        raise error

    with pytest.raises(InfrastructureError, match=r"the GPU failed \(launch timed out\); finished cells are kept"):
        list(_translate_errors(launches(CudaAPIError("launch timed out"))))
    with pytest.raises(InputError, match="numba cannot compile it for a GPU"):
        list(_translate_errors(launches(NumbaError("no\nway"))))
    with pytest.raises(ZeroDivisionError):
        list(_translate_errors(launches(ZeroDivisionError())))


def test_an_agent_whose_state_is_no_vector_runs_on_the_cores():
    class Square(NPG):
        def start(self, world):
            return super().start(world).reshape(1, -1)

    batch = TrialBatch(World("E1", 5, 4), [], [0], [10])
    assert placement(NPG(0.3, 9), batch) == "warp"
    assert placement(Square(0.3, 9), batch) == "cores"


def test_what_runs_an_agent():
    class Mine(NPG):
        @staticmethod
        def price(state):
            return 0.0

    batch = TrialBatch(World("E1", 5, 4), [], [0], [10])
    assert placement(NPG(0.3, 9), batch) == placement(SPG(0.3, 9), batch) == "warp"
    assert placement(NPG(0.3, 9), TrialBatch(World("E1", 600, 4), [], [0], [10])) == "thread"
    assert placement(Mine(0.3, 9), batch) == "thread"
    assert placement(CUCB(0.1, 0.1), batch) == "cores"
    assert placement(CUCB(0.1, 0.1, policies=9), batch) == "block"
    assert placement(CUCB(0.1, 0.1, policies=9), TrialBatch(World("E1", 600, 4), [], [0], [10])) == "cores"


def test_agents_that_cannot_share_a_kernel_are_refused():
    world = World("E1", 5, 4)
    assert batch_placement(TrialBatch(world, [NPG(0.3, 9), NPG(1.0, 9, NIW(forgetting=0.9))], [0], [10])) == "warp"
    assert batch_placement(TrialBatch(world, [], [0], [10])) == "thread"
    for agents in ([NPG(0.3, 9), NPG(0.3, 9, Totals())], [NPG(0.3, 9), CUCB(0.1, 0.1, policies=4)]):
        with pytest.raises(InputError, match="must be of one class"):
            batch_placement(TrialBatch(world, agents, [0], [10]))


@pytest.mark.skipif(gpu(), reason="there is a GPU")
def test_without_a_gpu_the_error_says_what_to_do():
    with pytest.raises(InputError, match="engine = 'cuda': numba finds no NVIDIA GPU here"):
        simulate(World("E1", 5, 4), NPG(0.3, 9), [0], 10, engine="cuda")


@pytest.mark.parametrize(
    ("agent", "arms", "contexts"),
    [(NPG(0.3, 1000), 10, 4), (SPG(1.0, 60), 10, 4), (NPG(3.0, 500), 160, 64), (CUCB(0.1, 0.01, policies=2048), 70, 8)],
    ids=lambda value: getattr(value, "name", str(value)),
)
class TestOnTheGpu:
    pytestmark = needs_gpu

    def test_the_first_steps_are_the_cpus(self, agent, arms, contexts):
        world = World("E1", arms, contexts)
        here, there = (simulate(world, agent, range(8), 200, engine=engine) for engine in ("cpu", "cuda"))
        assert np.allclose(here.regret, there.regret, atol=1e-3)

    @pytest.mark.parametrize("family", ["E1", "E4"])
    def test_the_mean_is_the_cpus(self, agent, arms, contexts, family):
        """Other seeds on the GPU: z < 3.3, a false alarm once in 1,000."""
        world, steps = World(family, arms, contexts), 3000
        here = simulate(world, agent, range(64), steps, workers=os.cpu_count() or 1).final_regret
        there = simulate(world, agent, range(1000, 1512), steps, engine="cuda").final_regret
        error = math.sqrt(here.var(ddof=1) / here.size + there.var(ddof=1) / there.size)
        assert abs(here.mean() - there.mean()) < 3.3 * error

    def test_the_same_seeds_give_the_same_numbers(self, agent, arms, contexts):
        world = World("E2", arms, contexts)
        one, two = (simulate(world, agent, range(16), 2000, engine="cuda").regret for _ in range(2))
        assert (one == two).all()
