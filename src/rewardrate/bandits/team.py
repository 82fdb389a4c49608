"""Work that several lanes of a GPU may share; on a core there is one lane, and all of it costs nothing.

A function written with these gives the same on a core as it would without them. `gradient_card` compiles it a second
time, with the lanes of a warp in their place: every lane runs it, loops from `lane()` in steps of `LANES`, adds up with
`whole`, and only lane 0 changes what is kept.
"""

from __future__ import annotations

from rewardrate.bandits.compiled import jit

LANES = 1


@jit
def lane() -> int:
    """Which lane this is."""
    return 0


@jit
def together() -> None:
    """Wait until every lane is here, and sees what the others wrote."""


@jit
def whole(a: float, b: float, c: float, d: float) -> tuple[float, float, float, float]:
    """The sums of four numbers over all lanes, known to every lane."""
    return a, b, c, d
