"""How functions are compiled for a GPU; the results are run in test_gradient_cuda and test_cuda."""

from numba import njit

from rewardrate.bandits.compiled import plain
from rewardrate.bandits.kernels import compile_for_gpu, compile_kernel

WORD = "core"


@njit
def inner():
    return WORD


@njit
def outer():
    return inner()


def test_recompiled_functions_see_other_names_and_one_another_and_the_originals_stay():
    again = compile_for_gpu([inner, outer], {"WORD": "gpu"})
    assert sorted(again) == ["inner", "outer"]
    assert plain(again["inner"]).__globals__["WORD"] == "gpu"
    assert plain(again["outer"]).__globals__["inner"] is again["inner"]
    assert again["inner"] is not inner
    assert plain(again["inner"])() == "gpu"
    assert outer() == "core"


def test_a_kernel_has_no_more_registers_than_it_is_given():
    def kernel(out):
        out[0] = 1.0

    assert compile_kernel(kernel, 72).targetoptions["max_registers"] == 72
