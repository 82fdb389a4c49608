"""An estimator of your own in thirty lines, held to the same contract as ours."""

from rewardrate.rates import Estimator, RateEstimate
from rewardrate.rates.contract import CHECKS


class Median(Estimator):
    """The median of per-batch ratios: crude, but one broken batch cannot move it. Keeps the last `keep` batches."""

    def __init__(self, keep: int = 15, *, invalid="zero"):
        super().__init__(invalid=invalid)
        self.keep = keep
        self._ratios = []

    def _absorb(self, reward, seconds):  # rows in; (new state, estimate) out; self is not changed
        ratios = [*self._ratios, float(reward.sum() / seconds.sum())][-self.keep :]
        ordered = sorted(ratios)
        middle = ordered[len(ordered) // 2]
        return ratios, RateEstimate(
            max(0.0, middle), middle, ordered[0], ordered[-1], self.estimate.count + reward.size
        )

    def _install(self, state):
        self._ratios = state

    def _state(self):
        return {"ratios": list(self._ratios)}

    def _restore(self, state):
        self._ratios = [float(ratio) for ratio in state["ratios"]]


if __name__ == "__main__":
    for check in CHECKS:
        print(f"{check.__name__.replace('_', ' '):45s} {check(Median)}")
