"""Run by the tests in a process of its own: the GPU's code on numba's simulator of a GPU, against the CPU's.

Both switches must be set before numba is imported: NUMBA_ENABLE_CUDASIM=1 and NUMBA_DISABLE_JIT=1.
"""

import sys
import time
import warnings

import numpy as np

warnings.simplefilter("ignore")  # plain Python says so when 64-bit numbers wrap around

from rewardrate.bandits import CUCB, NPG, SPG, World, cuda, gradient_card, policy_gradient, sampled_card, simulate  # noqa: E402
from rewardrate.bandits.cuda import run_on_card  # noqa: E402
from rewardrate.bandits.jobs import Batch  # noqa: E402
from rewardrate.errors import InputError  # noqa: E402
from rewardrate.rates import NIW, Totals  # noqa: E402

FEW = NIW(batches=60)  # where every pair is drawn, in plain Python, a thousand batches take their time
LANES = 4  # a simulated thread is a real one
sampled_card.THREADS = gradient_card.LANES = LANES


# What lanes do together, through the memory of the block: the simulator has no warps. While a kernel runs, the
# simulator puts its own `cuda` into the kernel's module.


def together():
    gradient_card.cuda.syncthreads()


def told(*mine):
    """What every lane says, in their order."""
    block = gradient_card.cuda
    desk = block.shared.array((4, LANES), np.float64)
    block.syncthreads()
    desk[: len(mine), block.threadIdx.x] = mine
    block.syncthreads()
    return desk[: len(mine)].copy()


def whole(*mine):
    return tuple(float(sum(row)) for row in told(*mine))


def highest(value, place):
    best = max(told(value, -place).T.tolist())
    return best[0], int(-best[1])


def up_to(value):
    sums = np.cumsum(told(value)[0])
    me = gradient_card.cuda.threadIdx.x
    return sums[me], sums[me - 1] if me else 0.0


for name, function in {"_together": together, "_whole": whole, "_highest": highest, "_up_to": up_to}.items():
    setattr(gradient_card, name, function)


class Plain(NPG):
    """NPG with a function of its own, as an agent that somebody else wrote: a thread runs its trial."""

    @staticmethod
    def price(state):
        return policy_gradient.price(state)


def same(agent, world, steps):
    marks = range(1, steps + 1)
    here = simulate(world, agent, [3, 4], steps, marks=marks)
    card = simulate(world, agent, [3, 4], steps, marks=marks, engine="cuda")
    assert np.abs(here.regret - card.regret).max() < 1e-9, agent
    assert np.abs(here.pseudo_regret - card.pseudo_regret).max() < 1e-9, agent
    assert np.abs(here.price - card.price).max() < 1e-5, agent
    print(agent.name, "same")


def several():
    world = World("E1", 5, 4)
    marks = np.array([17])
    batches = [
        Batch(world, [NPG(0.3, 60, FEW), NPG(1.0, 9, NIW(kappa0=5.0, batches=60))], range(2), marks),
        Batch(world, [], range(2), marks),
        Batch(world, [CUCB(0.1, 0.1)], [5], marks),
        Batch(world, [SPG(0.3, 60, FEW)], [7], marks),
    ]
    found = dict(run_on_card(batches, 17))
    assert sorted(found) == [0, 1, 2, 3]
    for i, batch in enumerate(batches):
        assert len(found[i]) == len(batch.agents)
        for agent, traces in zip(batch.agents, found[i], strict=True):
            mine = simulate(world, agent, batch.seeds, 17, marks=marks)
            assert np.abs(mine.regret - traces.regret).max() < 1e-9
    print("several same")


def tight():
    """One flight at a time, and no room for two: the same results."""
    cuda.IN_FLIGHT = 1
    several()
    plain, cuda.IN_FLIGHT, cuda.free_memory_bytes = cuda.free_memory_bytes, 512, lambda: 3000.0
    several()
    cuda.free_memory_bytes = plain


def late():
    """The first to be launched lands last, and is not waited for."""
    world, marks, order = World("E1", 5, 4), np.array([20]), []

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
    batches = [Batch(world, [NPG(0.3, 60, FEW)], [seed], marks) for seed in (1, 2, 3)]
    for i, (traces,) in run_on_card(batches, 20):
        order.append(i)
        mine = simulate(world, NPG(0.3, 60, FEW), [i + 1], 20, marks=marks)
        assert np.abs(mine.regret - traces.regret).max() < 1e-9
    assert order == [1, 2, 0], order
    print("late same")


def closed():
    """Whoever stops listening does not wait for the rest of the cores' batch; a failure there is told."""
    world, marks = World("E1", 5, 4), np.array([50])
    both = [Batch(world, [NPG(0.3, 60, FEW)], [1], marks), Batch(world, [CUCB(0.1, 0.1)], range(500), marks)]
    flying = run_on_card(both, 50)
    assert next(flying)[0] == 0
    start = time.monotonic()
    flying.close()
    assert time.monotonic() - start < 5
    broken = Batch(world, [CUCB(0.1, 0.1)], [1], np.array([99]))  # beyond the last step
    try:
        list(run_on_card([broken, Batch(world, [NPG(0.3, 60, FEW)], [1], marks)], 50))
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
        several()
    elif what == "flights":
        tight()
        late()
        closed()
    else:
        same(CUCB(0.1, 0.1, policies=6), World("E4", 5, 4), 40)
        same(CUCB(1.0, 0.01, policies=37), World("E1", 5, 5), 45)


if __name__ == "__main__":
    main(sys.argv[1])
