"""How much of a script a proposal changed."""

from __future__ import annotations

import difflib
from collections import Counter


def changed_lines(parent: str, code: str) -> int:
    """Lines taken away plus lines added: the - and + lines of a unified diff without context."""
    before, after = parent.splitlines(), code.splitlines()
    if len(before) * len(after) > 9_000_000:  # too many to align in good time: told apart as bags of lines
        bag, other = Counter(before), Counter(after)
        return sum((bag - other).values()) + sum((other - bag).values())
    matcher = difflib.SequenceMatcher(None, before, after)
    same = sum(size for _, _, size in matcher.get_matching_blocks())
    return len(before) + len(after) - 2 * same
