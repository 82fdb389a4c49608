"""Gradient ascent on the reward rate of a semi-Markov decision process, with the exact policy gradient (equation 2).

A machine wears out: in each of three states one can work on (less and less reward, more and more time) or repair.
"""

import numpy as np

from rewardrate.theory import SMDP
from rewardrate.theory.npg import softmax

work, repair = 0, 1
transition = np.zeros((3, 2, 3))
for state in range(3):
    transition[state, work, min(state + 1, 2)] = 0.6
    transition[state, work, state] += 0.4
    transition[state, repair, 0] = 1.0
reward = np.array([[1.0, 0.0], [0.9, 0.0], [0.6, 0.0]])
seconds = np.array([[1.0, 3.0], [2.0, 3.0], [6.0, 3.0]])

machine = SMDP(transition, reward, seconds)
best = machine.optimal()
theta = np.zeros((3, 2))
for step in range(3001):
    if step % 1000 == 0:
        print(f"step {step:5d}: rate {machine.rate(softmax(theta)):.5f} of {best.rate:.5f}")
    theta += 20.0 * machine.gradient(theta)

print("repair when worn:", best.policy.tolist(), " learned:", softmax(theta).round(2).tolist())
assert machine.rate(softmax(theta)) > 0.99 * best.rate
