"""Run by the tests in a process of its own: the GPU's code on numba's simulator of a GPU, against the CPU's.

Both switches must be set before numba is imported: NUMBA_ENABLE_CUDASIM=1 and NUMBA_DISABLE_JIT=1.
"""

import sys
import warnings

import numpy as np

warnings.simplefilter("ignore")  # plain Python says so when 64-bit numbers wrap around

from rewardrate.bandits import CUCB, NPG, SPG, World, sampled_card, simulate  # noqa: E402
from rewardrate.bandits.cuda import run_on_card  # noqa: E402
from rewardrate.bandits.jobs import Batch  # noqa: E402
from rewardrate.rates import NIW, Totals  # noqa: E402

sampled_card.THREADS = 4  # a simulated thread is a real one


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
    marks = np.array([40])
    batches = [
        Batch(world, [NPG(0.3, 60), NPG(1.0, 9, NIW(kappa0=5.0))], range(2), marks),
        Batch(world, [], range(2), marks),
        Batch(world, [CUCB(0.1, 0.1)], [5], marks),
        Batch(world, [SPG(0.3, 60)], [7], marks),
    ]
    found = dict(run_on_card(batches, 40))
    assert sorted(found) == [0, 1, 2, 3]
    for i, batch in enumerate(batches):
        assert len(found[i]) == len(batch.agents)
        for agent, traces in zip(batch.agents, found[i], strict=True):
            mine = simulate(world, agent, batch.seeds, 40, marks=marks)
            assert np.abs(mine.regret - traces.regret).max() < 1e-9
    print("several same")


def main(what):
    if what == "thread":
        same(NPG(0.3, 60), World("E4", 5, 4), 60)
        same(SPG(1.0, 500, Totals()), World("E1", 6, 5), 60)
        several()
    else:
        same(CUCB(0.1, 0.1, policies=6), World("E4", 5, 4), 40)
        same(CUCB(1.0, 0.01, policies=37), World("E1", 5, 5), 45)


if __name__ == "__main__":
    main(sys.argv[1])
