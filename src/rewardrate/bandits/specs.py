"""Agents as text: one grammar for recipes and the command line.

npg learning_rate=0.3 age=1000                     one agent
npg learning_rate=0.03,0.1,0.3 age=60,125,250      a grid of nine: every combination
npg learning_rate=0.3 age=1000 estimator=totals as=npg-totals
cucb theory                                        the constants of its regret bound
cucb c1=0.01,0.1,1 c2=0.001,0.01 policies=2048
my_module:MyAgent setting=1,2                      an agent of your own
"""

from __future__ import annotations

import inspect
import itertools
import json
import re
from dataclasses import dataclass
from typing import Any

from rewardrate import rates
from rewardrate.bandits.agents import Agent, find
from rewardrate.bandits.world import World
from rewardrate.errors import InputError, did_you_mean

NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")


@dataclass(frozen=True)
class Spec:
    """An agent class, a label, and the values to try for each setting."""

    label: str
    agent: type[Agent]
    grid: tuple[tuple[str, tuple[Any, ...]], ...]
    theory: bool = False
    text: str = ""

    def settings(self) -> list[dict[str, Any]]:
        """Every combination, the last setting fastest."""
        names = [name for name, _ in self.grid]
        return [
            dict(zip(names, values, strict=True)) for values in itertools.product(*(values for _, values in self.grid))
        ]

    def build(self, settings: dict[str, Any], world: World) -> Agent:
        """The agent with these settings for this world (the theory's constants depend on it)."""
        values = {
            name: rates.make(value) if name == "estimator" and isinstance(value, str) else value
            for name, value in settings.items()
        }
        try:
            return self.agent.theory(world, **values) if self.theory else self.agent(**values)  # type: ignore[attr-defined]
        except (TypeError, OverflowError) as error:
            raise InputError("agent", self.text, f"it cannot be made ({error})") from None

    def agents(self, world: World) -> list[Agent]:
        """The whole grid."""
        return [self.build(settings, world) for settings in self.settings()]


def parse(text: str) -> Spec:
    """A spec from text; InputError names the word that is wrong."""
    words = text.split() if isinstance(text, str) else []
    if not words:
        raise InputError("agent", text, "it must name an agent", "for example 'npg learning_rate=0.3 age=1000'")
    agent, theory, label = find(words[0]), False, ""
    maker = agent
    for word in words[1:]:
        if word == "theory" and hasattr(agent, "theory"):
            theory = True
            maker = agent.theory
    known = [name for name in inspect.signature(maker).parameters if name not in ("self", "world")]
    grid: dict[str, tuple[Any, ...]] = {}
    for word in words[1:]:
        name, equals, values = word.partition("=")
        if word == "theory" and theory:
            continue
        if name == "as" and values:
            label = values
        elif not equals or not values:
            raise InputError("agent", text, f"{word!r} is not name=value")
        elif name not in known or name in grid:
            rule = "it is given twice" if name in grid else f"{words[0]} has no such setting"
            raise InputError(f"agent setting {name}", values, rule, "" if name in grid else did_you_mean(name, known))
        else:
            grid[name] = tuple(_value(part) for part in values.split(","))
    _check_required(maker, grid, text)
    return Spec(
        label or " ".join([words[0], *(["theory"] if theory else [])]), agent, tuple(grid.items()), theory, text
    )


def _check_required(maker: Any, grid: dict[str, tuple[Any, ...]], text: str) -> None:
    """InputError where a setting without a default is missing."""
    for name, parameter in inspect.signature(maker).parameters.items():
        if name not in ("self", "world") and parameter.default is inspect.Parameter.empty and name not in grid:
            raise InputError("agent", text, f"it needs {name}=...")


def _value(word: str) -> Any:
    if NUMBER.fullmatch(word):
        return int(word) if re.fullmatch(r"[+-]?\d+", word) else float(word)
    return None if word == "none" else word


def settings_text(settings: dict[str, Any]) -> str:
    """Settings as JSON with sorted keys: a configuration's name in the results."""
    return json.dumps(settings, sort_keys=True)
