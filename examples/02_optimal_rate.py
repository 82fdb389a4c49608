"""The best rate of a small problem, found four ways, and what the theorems promise about two of them."""

from itertools import product

import numpy as np

from rewardrate.theory import bounds, dinkelbach, npg, optimal_rate, policy_rate

reward = np.array([[1.0, 0.8, 0.1], [0.3, 0.9, 0.5]])  # contexts x actions
seconds = np.array([[3.0, 1.0, 0.5], [1.0, 2.0, 1.5]])
p = [0.4, 0.6]

best = max(policy_rate(reward, seconds, p, np.array(policy)) for policy in product(range(3), repeat=2))
root = optimal_rate(reward, seconds, p)
path = list(dinkelbach(reward, seconds, p))
learned = list(npg(reward, seconds, p, learning_rate=2.0, steps=500))[-1]

print(f"all {3**2} policies    {best:.12f}")
print(f"root of F         {root:.12f}")
print(f"Dinkelbach        {path[-1]:.12f}   after {len(path) - 1} steps: {', '.join(f'{rate:.4f}' for rate in path)}")
print(f"NPG, 500 updates  {policy_rate(reward, seconds, p, learned.policy):.12f}")

b = bounds(reward, seconds, p)
print(f"theorem 2 promises the optimal policy from update {b.k0():,.0f} on")
print(f"it is there: {learned.policy.round(3).tolist()}")
assert abs(best - root) < 1e-12
assert abs(path[-1] - root) < 1e-12
