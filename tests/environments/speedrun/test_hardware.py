from rewardrate.environments.speedrun.hardware import Hardware, here

A100 = Hardware("EPYC", 64, ("NVIDIA A100-SXM4-80GB",) * 8, (8, 0), 80 * 2**30)
H100 = Hardware("Xeon", 64, ("NVIDIA H100",), (9, 0), 80 * 2**30)
LAPTOP = Hardware("Some CPU", 4)


def test_an_ampere_card_has_no_fp8_and_no_flash_attention_3():
    words = A100.facts("cuda")
    assert "sm_80" in words
    assert "no FP8" in words
    assert "FlashAttention-3 is not available" in words
    assert A100.name("cuda", 8, 8) == "8x NVIDIA A100-SXM4-80GB"


def test_a_hopper_card_has_both():
    assert "It has FP8" in H100.facts("cuda")
    assert "FlashAttention-3 needs its package" in H100.facts("cuda")


def test_a_race_on_processors_is_told_so_even_where_there_is_a_gpu():
    assert "There is no GPU" in A100.facts("cpu")
    assert LAPTOP.name("cpu", 2, 2) == "2 cores of Some CPU"
    assert "There is no GPU" in LAPTOP.facts("cuda")


def test_this_machine_can_be_asked():
    assert here().cores >= 1
    assert here().processor
    assert here() is here()
