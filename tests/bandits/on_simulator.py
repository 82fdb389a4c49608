"""Run by the tests in a process of its own: the GPU's code on numba's simulator of a GPU, against the CPU's.

Both switches must be set before numba is imported: NUMBA_ENABLE_CUDASIM=1 and NUMBA_DISABLE_JIT=1.
"""

import sys
import time
import warnings

import numpy as np

warnings.simplefilter("ignore")  # plain Python says so when 64-bit numbers wrap around

from rewardrate.bandits import CUCB, NPG, SPG, World, cuda, gradient_cuda, policy_gradient, sampled_cuda, simulate  # noqa: E402
from rewardrate.bandits.cuda import run_on_gpu  # noqa: E402
from rewardrate.bandits.jobs import TrialBatch  # noqa: E402
from rewardrate.errors import InputError  # noqa: E402
from rewardrate.rates import NIW, Totals  # noqa: E402

FEW = NIW(batches=60)  # where every pair is drawn, in plain Python, a thousand batches take their time
LANES = 4  # a simulated thread is a real one
sampled_cuda.THREADS = gradient_cuda.LANES = LANES


# Warp primitives through shared memory: the simulator has no warps. While a kernel runs, the
# simulator puts its own `cuda` into the kernel's module.


def sync_lanes():
    gradient_cuda.cuda.syncthreads()


def gather(*mine):
    """The numbers of every lane, in their order."""
    block = gradient_cuda.cuda
    shared = block.shared.array((4, LANES), np.float64)
    block.syncthreads()
    shared[: len(mine), block.threadIdx.x] = mine
    block.syncthreads()
    return shared[: len(mine)].copy()


def sum_lanes(*mine):
    return tuple(float(sum(row)) for row in gather(*mine))


def max_of_lanes(value, place):
    best = max(gather(value, -place).T.tolist())
    return best[0], int(-best[1])


def prefix_sum(value):
    sums = np.cumsum(gather(value)[0])
    me = gradient_cuda.cuda.threadIdx.x
    return sums[me], sums[me - 1] if me else 0.0


for name, function in {
    "_sync_lanes": sync_lanes,
    "_sum_lanes": sum_lanes,
    "_max_of_lanes": max_of_lanes,
    "_prefix_sum": prefix_sum,
}.items():
    setattr(gradient_cuda, name, function)


class Plain(NPG):
    """NPG with a function of its own, as an agent of a user: one thread runs its trial."""

    @staticmethod
    def price(state):
        return policy_gradient.price(state)


def same(agent, world, steps):
    marks = range(1, steps + 1)
    here = simulate(world, agent, [3, 4], steps, marks=marks)
    gpu = simulate(world, agent, [3, 4], steps, marks=marks, engine="cuda")
    assert np.abs(here.regret - gpu.regret).max() < 1e-9, agent
    assert np.abs(here.pseudo_regret - gpu.pseudo_regret).max() < 1e-9, agent
    assert np.abs(here.price - gpu.price).max() < 1e-5, agent
    print(agent.name, "same")


def several(steps=7):
    world = World("E1", 5, 4)
    marks = np.array([steps])
    batches = [
        TrialBatch(world, [NPG(0.3, 60, FEW), NPG(1.0, 9, NIW(kappa0=5.0, batches=60))], range(2), marks),
        TrialBatch(world, [], range(2), marks),
        TrialBatch(world, [CUCB(0.1, 0.1)], [5], marks),
        TrialBatch(world, [SPG(0.3, 60, FEW)], [7], marks),
    ]
    found = dict(run_on_gpu(batches, steps))
    assert sorted(found) == [0, 1, 2, 3]
    for i, batch in enumerate(batches):
        assert len(found[i]) == len(batch.agents)
        for agent, traces in zip(batch.agents, found[i], strict=True):
            mine = simulate(world, agent, batch.seeds, steps, marks=marks)
            assert np.abs(mine.regret - traces.regret).max() < 1e-9
    print("several same")


def tight():
    """One launch at a time, and no memory for two: the same results."""
    cuda.IN_FLIGHT = 1
    several()
    plain, cuda.IN_FLIGHT, cuda.free_memory_bytes = cuda.free_memory_bytes, 512, lambda: 3000.0
    several()
    cuda.free_memory_bytes = plain


def late():
    """The first batch to start finishes last, and is not waited for."""
    world, marks, order = World("E1", 5, 4), np.array([8]), []

    class Event:
        made = 0

        def __init__(self):
            Event.made += 1
            self.looks = 5 if Event.made == 1 else 0

        def record(self, stream):
            pass

        def query(self):
            self.looks -= 1
            return self.looks < 0

    cuda.cuda.event = Event
    batches = [TrialBatch(world, [NPG(0.3, 60, FEW)], [seed], marks) for seed in (1, 2, 3)]
    for i, (traces,) in run_on_gpu(batches, 8):
        order.append(i)
        mine = simulate(world, NPG(0.3, 60, FEW), [i + 1], 8, marks=marks)
        assert np.abs(mine.regret - traces.regret).max() < 1e-9
    assert order == [1, 2, 0], order
    print("late same")


def closed():
    """A closed iterator does not wait for the rest of the cores' batch; an error there is raised."""
    world, marks = World("E1", 5, 4), np.array([15])
    both = [TrialBatch(world, [NPG(0.3, 60, FEW)], [1], marks), TrialBatch(world, [CUCB(0.1, 0.1)], range(500), marks)]
    running = run_on_gpu(both, 15)
    assert next(running)[0] == 0
    start = time.monotonic()
    running.close()
    assert time.monotonic() - start < 5
    broken = TrialBatch(world, [CUCB(0.1, 0.1)], [1], np.array([99]))  # beyond the last step
    try:
        list(run_on_gpu([broken, TrialBatch(world, [NPG(0.3, 60, FEW)], [1], marks)], 15))
    except InputError as error:
        print("closed same", error)


def main(what):
    if what == "thread":
        same(Plain(0.3, 60), World("E4", 5, 4), 60)
        same(Plain(1.0, 500, Totals()), World("E1", 6, 5), 60)
    elif what == "warp":
        same(NPG(0.3, 60, FEW), World("E4", 5, 4), 49)
        same(NPG(10.0, 9, FEW), World("E2", 13, 4), 25)
        same(SPG(1.0, 500, Totals()), World("E1", 6, 5), 33)
        several(17)
    elif what == "launches":
        tight()
        late()
        closed()
    else:
        same(CUCB(0.1, 0.1, policies=6), World("E4", 5, 4), 40)
        same(CUCB(1.0, 0.01, policies=37), World("E1", 5, 5), 45)


if __name__ == "__main__":
    main(sys.argv[1])
