"""Estimators by name, for Python and the command line: ours, and those that installed packages add."""

from __future__ import annotations

import inspect
from typing import Any

from rewardrate import config, registry
from rewardrate.errors import InputError, did_you_mean
from rewardrate.rates.estimate import Estimator
from rewardrate.rates.fixed import Fixed
from rewardrate.rates.neural import Neural
from rewardrate.rates.niw import NIW
from rewardrate.rates.robbins_monro import RobbinsMonro
from rewardrate.rates.settings import GROUP, EstimatorSettings
from rewardrate.rates.totals import Totals

ESTIMATORS: dict[str, type[Estimator]] = {
    "niw": NIW,
    "robbins-monro": RobbinsMonro,
    "totals": Totals,
    "neural": Neural,
    "fixed": Fixed,
}


def make(kind: str, **settings: Any) -> Estimator:
    """The estimator called `kind`; an unknown kind or setting is an InputError with the nearest spelling.

    One of another package takes the keys of its settings, and `seed`.
    """
    if not isinstance(kind, str) or kind not in ESTIMATORS:
        installed = registry.load(GROUP, "estimator")
        if not isinstance(kind, str) or kind not in installed:
            names = {*ESTIMATORS, *installed}
            raise InputError("estimator", kind, "there is no such estimator", did_you_mean(str(kind), names))
        seed = settings.pop("seed", 0)
        chosen: EstimatorSettings = config.build(installed[kind], {**settings, "kind": kind}, f"{kind}.")
        return chosen.make(seed)
    cls = ESTIMATORS[kind]
    known = [name for name in inspect.signature(cls.__init__).parameters if name != "self"]
    for name, value in settings.items():
        if name not in known:
            raise InputError(name, value, f"the estimator {kind!r} has no such setting", did_you_mean(name, known))
    try:
        return cls(**settings)
    except (TypeError, OverflowError) as error:
        raise InputError(f"{kind} settings", settings, f"a setting has the wrong type ({error})") from None
