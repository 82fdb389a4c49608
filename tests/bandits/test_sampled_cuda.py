"""Sampled C-UCB, one block per trial: on numba's simulator here (the GPU's tests are in test_cuda)."""

from bandits.test_cuda import on_simulator


def test_the_kernel_of_a_block_per_trial_computes_what_the_cpu_computes():
    assert on_simulator("block").count("same") == 2
