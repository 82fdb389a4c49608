"""NPG-NIW: natural policy gradient on the relative reward, priced at the greedy policy's rate. The paper's method."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rewardrate.bandits import policy_gradient
from rewardrate.bandits.policy_gradient import PolicyGradient


@dataclass(frozen=True)
class NPG(PolicyGradient):
    """theta_x += learning_rate * (Q_x - pi'Q_x): each arm moves by its whole advantage. Equation (bandit:update)."""

    name: ClassVar[str] = "npg"
    NATURAL: ClassVar[bool] = True
    act = staticmethod(policy_gradient.act)
    learn = staticmethod(policy_gradient.learn)
    price = staticmethod(policy_gradient.price)
