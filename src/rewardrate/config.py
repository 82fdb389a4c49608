"""Runs take configs: frozen dataclasses filled from a TOML recipe and `--set a.b=c`, unknown keys refused.

A config is declared once. The type says what is allowed, the default is the setting we would publish, and the
string under a field is its help text:

    @dataclass(frozen=True)
    class Check:
        instances: Annotated[int, AtLeast(1)] = 2000
        "Random problems to try."
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import itertools
import json
import math
import textwrap
import tomllib
import types
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from rewardrate import registry
from rewardrate.errors import InputError, did_you_mean, nearest

Config = TypeVar("Config")


@dataclass(frozen=True)
class AtLeast:
    """The smallest value a number may take; a marker inside `Annotated`."""

    low: float


@dataclass(frozen=True)
class Between:
    """The closed range a number must lie in; a marker inside `Annotated`."""

    low: float
    high: float


@dataclass(frozen=True)
class KindUnlessGiven:
    """Which member of a tagged union a table without `kind` means; a marker inside `Annotated`."""

    kind: str


@dataclass(frozen=True)
class Registered:
    """A tagged union that installed packages can extend; a marker inside `Annotated`.

    A table's `kind` names an entry point of `group`, and the frozen dataclass found there holds the other keys;
    `default` is the kind of a table that says none, `built_in` are members without an entry point. The annotated class
    is what every member must be a subclass of.

        algorithm: Annotated[Algorithm, Registered("rewardrate.algorithms", "ppo")] = field(default_factory=PPO)
    """

    group: str
    default: str = ""
    built_in: tuple[type, ...] = ()

    def kinds(self, field: str) -> Mapping[str, type]:
        """The members by kind; `field` is what an error is about."""
        return registry.load(self.group, field, self.built_in)


def load(cls: type[Config], source: Path | None = None, overrides: Iterable[str] = ()) -> Config:
    """The config that `source` (TOML) and then `overrides` ("a.b=c") describe. Raises InputError.

    An override that chooses another `kind` begins that table anew: what the file set there belongs to its own kind.
    """
    table = read_toml(source) if source else {}
    overrides = list(overrides)
    for override in overrides:
        _forget_another_kind(table, override)
    for override in overrides:
        _apply(table, override)
    return build(cls, table)


def leaves(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """A table of tables as one table with dotted keys."""
    found: dict[str, Any] = {}
    for name, value in table.items():
        found |= leaves(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": value}
    return found


def read_toml(path: Path) -> dict[str, Any]:
    """The table in a TOML file; a missing, unreadable or malformed file is an InputError that says where."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise InputError("file", str(path), "there is no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError("file", str(path), f"it cannot be read as text ({error})") from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InputError("file", str(path), f"it is not valid TOML: {error}") from None


def build(cls: type[Config], table: Mapping[str, Any], prefix: str = "") -> Config:
    """An instance of the frozen dataclass `cls` from a plain table; every key and value is checked.

    Keys that once stood in this table and stand in one below it now are moved there: `MOVED` of the class, key ->
    table. Recipes and run folders of before are still read.
    """
    hints = typing.get_type_hints(cls, include_extras=True)
    names = [field.name for field in dataclasses.fields(cls) if field.init]  # type: ignore[arg-type]
    moved: Mapping[str, str] = getattr(cls, "MOVED", {})
    table = _moved(table, moved, prefix)
    for key in table:
        if key not in names:
            raise InputError(f"{prefix}{key}", table[key], "there is no such key", did_you_mean(key, [*names, *moved]))
    values = {key: _convert(hints[key], value, f"{prefix}{key}") for key, value in table.items()}
    for field in dataclasses.fields(cls):  # type: ignore[arg-type]
        required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if field.init and required and field.name not in values:
            raise InputError(f"{prefix}{field.name}", None, "it is required and has no default")
    return cls(**values)


def _moved(table: Mapping[str, Any], moved: Mapping[str, str], prefix: str) -> Mapping[str, Any]:
    """The table with each key of `moved` in the table below that has it now."""
    old = [key for key in table if key in moved]
    table = {**table}
    for key in old:
        place, value = moved[key], table.pop(key)
        below = table.get(place, {})
        if not isinstance(below, Mapping) or key in below:
            rule = f"it stands in [{prefix}{place}] now, and is given there too"
            raise InputError(f"{prefix}{key}", value, rule, "leave this one out")
        table[place] = {**below, key: value}
    return table


def dumps(config: Any, prefix: str = "", *, explain: bool = False) -> str:
    """The config as TOML: what a run folder keeps, and what `--dry-run` prints. It reads back as the same config.

    `explain` puts each field's help above it.
    """
    lines, tables = [], []
    texts = help_of(type(config)) if explain else {}
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if dataclasses.is_dataclass(value):
            tables.append(f"\n[{prefix}{field.name}]\n{dumps(value, f'{prefix}{field.name}.', explain=explain)}")
        elif value is not None:
            comment = f"# {texts[field.name]}\n" if field.name in texts else ""
            lines.append(f"{comment}{field.name} = {_toml(value)}\n")
        elif field.default is not None:
            raise InputError(
                f"{prefix}{field.name}", None, "TOML cannot write that it is nothing", "make nothing its default"
            )
    return "".join(lines + tables)


def help_of(cls: type) -> dict[str, str]:
    """Field name -> the string under it in the class body; nothing of a class without source code."""
    try:
        body = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0]
    except (OSError, TypeError):
        return {}
    texts: dict[str, str] = {}
    statements = body.body if isinstance(body, ast.ClassDef) else []
    for field, below in itertools.pairwise(statements):
        named = isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if named and isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            texts[field.target.id] = " ".join(str(below.value.value).split())  # type: ignore[attr-defined]
    return texts


def find_recipe(name: str) -> Path:
    """The file of a recipe given by name ("theory-check") or by path; InputError with the nearest name."""
    if name.endswith(".toml") or "/" in name:
        return Path(name)
    here = Path(__file__).parent
    folders = [here / "recipes", here.parent.parent / "recipes"]  # installed wheel; source checkout
    known = {path.stem: path for folder in folders if folder.is_dir() for path in sorted(folder.glob("*.toml"))}
    if name not in known:
        raise InputError("recipe", name, "there is no recipe of that name", did_you_mean(name, known))
    return known[name]


def _toml(value: Any) -> str:
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(_toml, value))}]"
    # TOML writes numbers, booleans and strings as JSON does, but wants DEL escaped and no surrogate pairs.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def parse_override(override: str) -> tuple[str, Any]:
    """("a.b", value) from "a.b=value"; the value is TOML, or else a plain word."""
    key, separator, text = override.partition("=")
    if not separator or not key.strip():
        raise InputError("--set", override, "it must read key=value", "for example --set seed=7")
    try:
        return key.strip(), tomllib.loads(f"value = {text}")["value"]
    except (tomllib.TOMLDecodeError, RecursionError):
        return key.strip(), text  # a bare word is a string: --set estimator.kind=niw


def _forget_another_kind(table: dict[str, Any], override: str) -> None:
    """Empty the table whose `kind` the override changes."""
    key, value = parse_override(override)
    *parents, leaf = key.split(".")
    below: Any = table
    for parent in parents:
        below = below.get(parent) if isinstance(below, dict) else None
    if leaf == "kind" and isinstance(below, dict) and below.get("kind", value) != value:
        below.clear()


def _apply(table: dict[str, Any], override: str) -> None:
    key, value = parse_override(override)
    *parents, leaf = key.split(".")
    for parent in parents:
        table = table.setdefault(parent, {})
        if not isinstance(table, dict):
            raise InputError("--set", override, f"{parent!r} is a value, not a table")
    table[leaf] = value


def _convert(hint: Any, value: Any, field: str) -> Any:
    origin = get_origin(hint)
    if origin is Annotated:
        inner, *limits = get_args(hint)
        for limit in limits:
            if isinstance(limit, Registered):
                return _convert_registered(limit, inner, value, field)
            if isinstance(limit, KindUnlessGiven) and isinstance(value, Mapping):
                value = {"kind": limit.kind, **value}
        converted = _convert(inner, value, field)
        for limit in limits:
            _check_limit(limit, converted, field)
        return converted
    if origin in (Union, types.UnionType):
        return _convert_union(get_args(hint), value, field)
    if origin is Literal:
        options = [str(option) for option in get_args(hint)]
        if not any(type(value) is type(option) and value == option for option in get_args(hint)):
            raise InputError(field, value, f"it must be one of {', '.join(options)}", nearest(str(value), options))
        return value
    if origin is tuple:
        return _convert_tuple(get_args(hint), value, field)
    if dataclasses.is_dataclass(hint):
        if not isinstance(value, Mapping):
            raise InputError(field, value, f"it must be a table ([{field}])")
        return build(typing.cast(type, hint), value, f"{field}.")
    return _convert_scalar(hint, value, field)


def _convert_union(options: tuple[Any, ...], value: Any, field: str) -> Any:
    """`X | None`, or a tagged union of dataclasses told apart by their `kind`."""
    if value is None and type(None) in options:
        return None
    options = tuple(option for option in options if option is not type(None))
    if len(options) == 1:
        return _convert(options[0], value, field)
    kinds = {get_args(typing.get_type_hints(option)["kind"])[0]: option for option in options}
    if not isinstance(value, Mapping) or "kind" not in value:
        raise InputError(f"{field}.kind", None, f"it must be one of {', '.join(sorted(kinds))}")
    if not isinstance(value["kind"], str) or value["kind"] not in kinds:
        raise InputError(
            f"{field}.kind", value["kind"], "there is no such kind", did_you_mean(str(value["kind"]), kinds)
        )
    return build(kinds[value["kind"]], value, f"{field}.")


def _convert_registered(union: Registered, base: Any, value: Any, field: str) -> Any:
    """A member of an open union from its table; one that is made already is checked again."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type) and isinstance(value, base):
        table = {one.name: getattr(value, one.name) for one in dataclasses.fields(value) if one.init}
        return build(type(value), table, f"{field}.")
    if not isinstance(value, Mapping):
        raise InputError(field, value, f"it must be a table ([{field}])")
    kinds = union.kinds(f"{field}.kind")
    kind = value.get("kind", union.default)
    if not kind:
        raise InputError(f"{field}.kind", None, f"it must be one of {', '.join(kinds)}")
    if not isinstance(kind, str):
        raise InputError(f"{field}.kind", kind, "there is no such kind", did_you_mean(str(kind), kinds))
    cls = kinds[kind]
    names = {one.name for one in dataclasses.fields(cls)} if dataclasses.is_dataclass(cls) else set()
    if "kind" not in names or not issubclass(cls, base):
        rule = f"{cls.__module__}.{cls.__name__} is not a dataclass of {base.__name__} with a field kind"
        raise InputError(f"{field}.kind", kind, rule)
    return build(cls, {**value, "kind": kind}, f"{field}.")


def _convert_tuple(items: tuple[Any, ...], value: Any, field: str) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise InputError(field, value, "it must be a list")
    if len(items) == 2 and items[1] is Ellipsis:
        return tuple(_convert(items[0], item, f"{field}[{i}]") for i, item in enumerate(value))
    if len(items) != len(value):
        raise InputError(field, value, f"it must be a list of {len(items)} values")
    return tuple(_convert(hint, item, f"{field}[{i}]") for i, (hint, item) in enumerate(zip(items, value, strict=True)))


_WORDS = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}


def _convert_scalar(hint: Any, value: Any, field: str) -> Any:
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        try:
            value = float(value)
        except OverflowError:
            raise InputError(field, value, "it does not fit 64-bit arithmetic") from None
    if hint in _WORDS and (not isinstance(value, hint) or (hint is int and isinstance(value, bool))):
        raise InputError(field, value, f"it must be {_WORDS[hint]}")
    if hint is float and not math.isfinite(value):
        raise InputError(field, value, "it must be a finite number")
    return value


def _check_limit(limit: Any, value: Any, field: str) -> None:
    if value is None:
        return
    if isinstance(limit, AtLeast) and value < limit.low:
        raise InputError(field, value, f"it must be at least {limit.low:g}")
    if isinstance(limit, Between) and not limit.low <= value <= limit.high:
        raise InputError(field, value, f"it must lie between {limit.low:g} and {limit.high:g}")
