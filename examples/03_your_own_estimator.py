"""An estimator of your own: one method, held to the same contract as ours."""

from rewardrate.rates import Estimator, RateEstimate
from rewardrate.rates.contract import CHECKS


class Median(Estimator):
    """The median of per-batch ratios: crude, but one broken batch cannot move it. Keeps the last `keep` batches."""

    def __init__(self, keep: int = 15, *, invalid="zero"):
        super().__init__(state=[], invalid=invalid)
        self.keep = keep  # every argument under its own name: it is saved with the state

    def absorb(self, reward, seconds):
        """Rows in; (new state, estimate) out; self is not changed."""
        ratios = [*self.state, float(reward.sum() / seconds.sum())][-self.keep :]
        ordered = sorted(ratios)
        middle = ordered[len(ordered) // 2]
        return ratios, RateEstimate(
            max(0.0, middle), middle, ordered[0], ordered[-1], self.estimate.count + reward.size
        )


if __name__ == "__main__":
    for check in CHECKS:
        print(f"{check.__name__.replace('_', ' '):45s} {check(Median)}")
