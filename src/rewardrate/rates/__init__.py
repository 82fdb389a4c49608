"""What one second is worth: estimators of the reward rate."""

from rewardrate.attempt import RateEstimate
from rewardrate.rates.accumulators import Accumulators
from rewardrate.rates.estimate import Estimator
from rewardrate.rates.fixed import Fixed
from rewardrate.rates.fixed_price import FixedPrice
from rewardrate.rates.horizon import Horizon
from rewardrate.rates.neural import Neural
from rewardrate.rates.niw import NIW
from rewardrate.rates.price import PriceRule, RatePrice
from rewardrate.rates.registry import ESTIMATORS, make
from rewardrate.rates.relative import relative_reward
from rewardrate.rates.robbins_monro import RobbinsMonro
from rewardrate.rates.stream import Stream
from rewardrate.rates.totals import Totals

__all__ = [
    "ESTIMATORS",
    "NIW",
    "Accumulators",
    "Estimator",
    "Fixed",
    "FixedPrice",
    "Horizon",
    "Neural",
    "PriceRule",
    "RateEstimate",
    "RatePrice",
    "RobbinsMonro",
    "Stream",
    "Totals",
    "make",
    "relative_reward",
]
