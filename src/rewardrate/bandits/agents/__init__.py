"""Agents, one file each; a file in this folder is found by its class's `name`."""

from __future__ import annotations

import importlib
import pkgutil

from rewardrate.bandits.agents.agent import Agent
from rewardrate.errors import InputError, did_you_mean

__all__ = ["Agent", "find", "known"]


def known() -> dict[str, type[Agent]]:
    """Every agent of this folder by name."""
    found = {}
    for module in pkgutil.iter_modules(__path__):
        for value in vars(importlib.import_module(f"{__name__}.{module.name}")).values():
            if isinstance(value, type) and issubclass(value, Agent) and "name" in vars(value):
                found[value.name] = value
    return dict(sorted(found.items()))


def find(name: str) -> type[Agent]:
    """The agent class called `name`, or "module:Class" for one of your own; InputError with the nearest spelling."""
    if isinstance(name, str) and ":" in name:
        place, _, leaf = name.partition(":")
        try:
            value = getattr(importlib.import_module(place), leaf)
        except (Exception, SystemExit) as error:  # a user's module may raise anything on import
            raise InputError("agent", name, f"it cannot be imported ({type(error).__name__}: {error})") from None
        if not (isinstance(value, type) and issubclass(value, Agent)):
            raise InputError("agent", name, "it is not a subclass of rewardrate.bandits.Agent")
        return value
    agents = known()
    if name not in agents:
        raise InputError("agent", name, "there is no such agent", did_you_mean(str(name), agents))
    return agents[name]
