"""What is one second worth? Three estimators on the same attempts, and the relative reward that follows."""

import numpy as np

from rewardrate import rates, relative_reward

rng = np.random.default_rng(0)
chains = rates.Accumulators(chains=64)  # running totals of reward and seconds, one pair per chain
estimators = {"NIW": rates.NIW(), "Robbins-Monro": rates.RobbinsMonro(), "totals": rates.Totals()}

for _ in range(20):  # each step every chain makes one attempt
    quick = rng.random(64) < 0.5
    reward = np.where(quick, 0.7, 0.8)
    seconds = np.where(quick, 5.0, 50.0) * np.exp(0.2 * rng.standard_normal(64))
    chains.update(reward, seconds)
    for estimator in estimators.values():
        chains.fit(estimator)

for name, estimator in estimators.items():
    found = estimator.estimate
    known = f"{found.mean:.4f} reward per second (95 %: {found.low:.4f} to {found.high:.4f})"
    print(f"{name:14s} {known}, a second is charged {found.price:.4f}")

estimate = estimators["NIW"].estimate
quick, slow, failed = relative_reward(
    [0.7, 0.8, 0.0], [5.0, 50.0, 2.0], estimate, valid=[True, True, False], limit_seconds=600
)
print(f"the quick script is left with {quick:+.2f}, the slow better one with {slow:+.2f}, a failure with {failed:+.2f}")
assert quick > slow > failed
