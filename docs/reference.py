"""The reference part of the site, written from the code: the Python API, and every key of every recipe.

Nothing here is committed: a page that is made at every build cannot be out of date.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import json
import re
import types
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rewardrate import config

SB3 = [
    "RewardRateVecEnv",
    "RateCallback",
    "RewardRateReplayBuffer",
    "RewardRateDictReplayBuffer",
    "RewardRateNStepReplayBuffer",
]
# Page -> (what stands above it, the names that it explains).
API = {
    "rewardrate": ("The front door.", ["relative_reward", "train", "load_run", "InputError"]),
    "rewardrate.rates": ("", None),
    "rewardrate.timed": ("", None),
    "rewardrate.timed.sb3": ("For Stable-Baselines3; needs the extra `gym`.", SB3),
    "rewardrate.theory": ("", None),
    "rewardrate.bandits": ("", None),
    "rewardrate.sandbox": ("", None),
    "rewardrate.environments": ("", None),
    "rewardrate.environments.mle": ("", None),
    "rewardrate.policies": ("", None),
    "rewardrate.policies.algorithms": ("", None),
    "rewardrate.training": ("", None),
    "rewardrate.runlog": ("", None),
    "rewardrate.scale": ("", None),
}
# Heading -> where the config class is, and which verb reads it.
RECIPES = {
    "A training run": ("rewardrate.training.recipe:Recipe", "rewardrate train RECIPE"),
    "A comparison": ("rewardrate.runlog.comparison:ComparisonPlan", "rewardrate compare PLAN"),
    "A model of our own": ("rewardrate.pretraining.pretrain:Pretraining", "rewardrate pretrain RECIPE"),
    "A bandit study": ("rewardrate.bandits.studies:StudyConfig", "rewardrate bandit study RECIPE"),
    "A check of the theory": ("rewardrate.theory.check:CheckConfig", "rewardrate theory check RECIPE"),
    "A race": ("rewardrate.environments.speedrun.race:Rules", "race.toml"),
}
KEYS = "recipe-keys.md"


def navigation() -> list[tuple[str, str]]:
    """Title and file of each page, in their order."""
    return [("Every recipe key", KEYS), *((name, page(name)) for name in API)]


def page(name: str) -> str:
    return f"{name}.md"


def write(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / KEYS).write_text(recipe_keys())
    for name, (words, names) in API.items():
        (folder / page(name)).write_text(api(name, words, names))


# ---- recipe keys


def recipe_keys() -> str:
    parts = [
        "# Every recipe key\n\nA recipe is a TOML file; `--set a.b=c` changes one key. A key that is not given has "
        "its default, and a misspelt one is refused. `rewardrate train RECIPE --dry-run` prints the same words beside "
        "the values of one recipe."
    ]
    for heading, (place, verb) in RECIPES.items():
        module, _, name = place.partition(":")
        parts.append(f"## {heading}\n\nRead by `{verb}`.")
        parts += tables(getattr(importlib.import_module(module), name))
    return "\n\n".join(parts) + "\n"


def tables(cls: type, prefix: str = "") -> Iterator[str]:
    """A Markdown table for the keys of a config, then those of the tables below it."""
    hints, texts = typing.get_type_hints(cls, include_extras=True), inherited_help(cls)
    rows, below = ["| key | value | default | meaning |", "|---|---|---|---|"], []
    for field in dataclasses.fields(cls):
        kinds = configs_of(hints[field.name])
        if kinds:
            below += [(f"{prefix}{field.name}", kind, len(kinds) > 1) for kind in kinds]
        elif field.init and field.name != "kind":
            cells = f"`{field.name}`", values(hints[field.name]), default(field), texts.get(field.name, "")
            rows.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    if prefix and len(rows) == 2:
        yield "It has no keys of its own."
    elif len(rows) > 2:
        yield "\n".join(rows)
    for path, kind, several in below:
        named = f', kind = "{getattr(kind, "kind", "")}"' if several else ""
        about = (inspect.getdoc(kind) or "").split("\n\n")[0]
        about = "" if about.startswith(f"{kind.__name__}(") else about
        yield f"### `[{path}]`{named}\n\n{prose(about)}"
        yield from tables(kind, f"{path}.")


def inherited_help(cls: type) -> dict[str, str]:
    return {
        name: text
        for base in reversed(cls.__mro__)
        if base is not object
        for name, text in config.help_of(base).items()
    }


def configs_of(hint: Any) -> list[type]:
    """The dataclasses that a key may hold: none for a plain value."""
    if typing.get_origin(hint) is typing.Annotated:
        inner, *marks = typing.get_args(hint)
        open_union = [mark for mark in marks if isinstance(mark, config.Registered)]
        return list(open_union[0].kinds("kind").values()) if open_union else configs_of(inner)
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return [one for part in typing.get_args(hint) for one in configs_of(part)]
    return [hint] if dataclasses.is_dataclass(hint) else []


WORDS = {int: "whole number", float: "number", str: "text", bool: "true, false", type(None): "nothing"}


def values(hint: Any) -> str:
    """What a key may hold, in words."""
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return values(parts[0]) + "".join(limit(mark) for mark in parts[1:])
    if origin is typing.Literal:
        return ", ".join(f"`{part}`" for part in parts)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(values(part) for part in parts if part is not type(None))
    if origin is tuple:
        return f"list of {values(parts[0])}" if parts[-1] is Ellipsis else f"list of {len(parts)} values"
    return WORDS.get(hint, getattr(hint, "__name__", str(hint)))


def limit(mark: Any) -> str:
    if isinstance(mark, config.AtLeast):
        return f", at least {mark.low:g}"
    return f", {mark.low:g} to {mark.high:g}" if isinstance(mark, config.Between) else ""


def default(field: dataclasses.Field[Any]) -> str:
    if field.default_factory is not dataclasses.MISSING:
        return f"`{field.default_factory()}`"
    if field.default is dataclasses.MISSING:
        return "required"
    return "-" if field.default is None else f"`{json.dumps(field.default)}`"


# ---- the Python API


def api(name: str, words: str, names: list[str] | None) -> str:
    """A page for the public names of a module."""
    module = importlib.import_module(name)
    first = (inspect.getdoc(module) or "").partition("\n\n")[0]
    parts = [f"# {name}", prose(first), words]
    for one in names or module.__all__:
        parts += entry(one, getattr(module, one))
    return "\n\n".join(part for part in parts if part) + "\n"


def entry(name: str, thing: Any) -> Iterator[str]:
    """Heading, signature and words of a name; its methods and fields below."""
    if inspect.ismodule(thing) or not (inspect.isclass(thing) or callable(thing)):
        return
    yield f"## {name}"
    yield signature(name, thing)
    yield prose(inspect.getdoc(thing) or "") if not generated(thing) else ""
    if not inspect.isclass(thing):
        return
    if dataclasses.is_dataclass(thing) and (texts := inherited_help(thing)):
        rows = [f"| `{one.name}` | {texts[one.name]} |" for one in dataclasses.fields(thing) if one.name in texts]
        yield "\n".join(["| field | meaning |", "|---|---|", *rows])
    for member, value in vars(thing).items():
        if member.startswith("_") or not getattr(value, "__doc__", None):
            continue
        if isinstance(value, property):
            yield f"### {name}.{member}\n\n{prose(inspect.getdoc(value) or '')}"
        elif inspect.isfunction(value) or isinstance(value, classmethod | staticmethod):
            function = getattr(thing, member)
            yield f"### {name}.{member}\n\n{signature(member, function)}\n\n{prose(inspect.getdoc(function) or '')}"


def generated(thing: Any) -> bool:
    """Whether a dataclass has no words but those that Python made."""
    return dataclasses.is_dataclass(thing) and (thing.__doc__ or "").startswith(f"{thing.__name__}(")


def signature(name: str, thing: Callable[..., Any]) -> str:
    try:
        found = str(inspect.signature(thing))
    except (TypeError, ValueError):
        return ""
    found = re.sub(r"(: |-> )'([^']*)'", r"\1\2", found).replace("(self, ", "(").replace("(self)", "()")
    found = re.sub(r"<factory>|<object object at 0x\w+>", "...", found)
    found = re.sub(r"\b(?:rewardrate|numpy|collections|pathlib|typing)(?:\.\w+)*\.(?=\w)", "", found)
    line = f"{name}{found.removesuffix(' -> None') if inspect.isclass(thing) else found}"
    if len(line) > 100:
        inside, _, result = line[len(name) + 1 :].rpartition(")")
        line = f"{name}(\n    " + ",\n    ".join(split_arguments(inside)) + f",\n){result}"
    return f"```python\n{line}\n```"


def split_arguments(text: str) -> list[str]:
    """Arguments apart, commas inside brackets left alone."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]


def prose(text: str) -> str:
    """A docstring as Markdown: equations stay in their indented blocks, angle brackets are letters."""
    return "\n".join(line if line.startswith("    ") else line.replace("<", "&lt;") for line in text.splitlines())
