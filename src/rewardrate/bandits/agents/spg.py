"""SPG-NIW: standard policy gradient on the relative reward; everything else as in NPG."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rewardrate.bandits import policy_gradient
from rewardrate.bandits.policy_gradient import PolicyGradient


@dataclass(frozen=True)
class SPG(PolicyGradient):
    """theta_x += learning_rate * pi * (Q_x - pi'Q_x): an arm that is hardly played hardly moves."""

    name: ClassVar[str] = "spg"
    NATURAL: ClassVar[bool] = False
    act = staticmethod(policy_gradient.act)
    learn = staticmethod(policy_gradient.learn)
    price = staticmethod(policy_gradient.price)
