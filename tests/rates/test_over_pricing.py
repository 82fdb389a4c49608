"""Over-pricing of small batches, and the percentile that undoes the difference."""

import pytest

from rewardrate.errors import InputError
from rewardrate.rates.over_pricing import over_pricing, same_over_pricing


def test_the_corrected_percentile_is_the_paper_s_at_its_batch_and_lower_below_it():
    found = [same_over_pricing(0.95, batch, 128) for batch in (1, 8, 16, 32, 64, 128, 512)]
    assert found == sorted(found)
    assert found[2] == pytest.approx(0.7196, abs=1e-4)
    assert found[-2:] == [0.95, 0.95]
    assert found[0] > 0.5
    assert same_over_pricing(0.5, 16, 128) == 0.5
    assert same_over_pricing(0.2, 16, 128) > 0.2, "a low percentile under-prices small batches: it moves up"
    for wrong in ((1.0, 16, 128), (0.95, 0, 128), (0.95, 16, 0)):
        with pytest.raises(InputError):
            same_over_pricing(*wrong)


@pytest.mark.slow
def test_small_batches_are_over_priced_and_the_corrected_percentile_makes_them_alike():
    """60 runs, fixed seeds. Standard errors of the means at step 1: 0.05 (16 rows), 0.02 (128 rows)."""
    small, large = (over_pricing(batch, 0.95, (1, 5), runs=60) for batch in (16, 128))
    corrected = over_pricing(16, same_over_pricing(0.95, 16, 128), (1, 5), runs=60)
    assert small.ratio[0] > 1.6
    assert small.ratio[0] > small.ratio[1] > 1.15
    assert large.ratio[0] < 1.3
    for step in (0, 1):
        assert corrected.ratio[step] - 1 < 0.6 * (small.ratio[step] - 1)
        assert abs(corrected.ratio[step] - large.ratio[step]) < 0.2
    assert corrected.below[1] < 0.5
