"""Classes that installed packages add to this one, by name: entry points of the standard library."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from rewardrate.errors import InputError, did_you_mean


def load(group: str, field: str = "", built_in: Sequence[Any] = ()) -> Mapping[str, type]:
    """The classes registered in a group of entry points; each is imported when it is looked up.

    `built_in` are classes of the group that need no entry point, by their `kind`.

    Looking up a name that is not registered, that two packages registered, or whose import fails is an InputError
    about `field` (the group unless given).
    """
    return _Registry(group, field or group, {one.kind: one for one in built_in})


class _Registry(Mapping[str, type]):
    def __init__(self, group: str, field: str, built_in: Mapping[str, type]) -> None:
        self.field, self.built_in = field, built_in
        self.found: dict[str, list[EntryPoint]] = {}
        for point in entry_points(group=group):
            self.found.setdefault(point.name, []).append(point)

    def __getitem__(self, name: str) -> type:
        if name in self.built_in:
            return self.built_in[name]
        points = self.found.get(name, [])
        if not points:
            remedy = did_you_mean(str(name), self) or "none is installed: install rewardrate again"
            raise InputError(self.field, name, "there is no such kind", remedy)
        packages = " and ".join(sorted(map(_package, points)))
        if len(points) > 1:
            raise InputError(self.field, name, f"the packages {packages} both offer it", "remove one of them")
        try:
            cls = points[0].load()
        except Exception as error:  # an import runs code of others
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            rule = f"the package {packages} offers it, but {points[0].value} cannot be imported ({reason})"
            raise InputError(self.field, name, rule, "update or remove that package") from error
        if not isinstance(cls, type):
            raise InputError(self.field, name, f"{points[0].value} of the package {packages} is not a class")
        return cls

    def __contains__(self, name: object) -> bool:
        return name in self.built_in or name in self.found  # by name alone: nothing is imported

    def __iter__(self) -> Iterator[str]:
        return iter(sorted({*self.built_in, *self.found}))

    def __len__(self) -> int:
        return len({*self.built_in, *self.found})


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist else "?"
