"""Loops that the lanes of a GPU warp can share; on a CPU core there is one lane, and these compile to nothing.

On a core, a function written with these computes the same as without them. `gradient_cuda` recompiles it for a warp:
every lane runs it, loops from `lane()` in steps of `LANES`, sums with `sum_lanes`, and only lane 0 writes shared state.
"""

from __future__ import annotations

from rewardrate.bandits.compiled import jit

LANES = 1


@jit
def lane() -> int:
    """Index of this lane."""
    return 0


@jit
def sync_lanes() -> None:
    """Wait for all lanes, and make their writes visible to one another."""


@jit
def sum_lanes(a: float, b: float, c: float, d: float) -> tuple[float, float, float, float]:
    """Sums of four numbers over all lanes, on every lane."""
    return a, b, c, d
