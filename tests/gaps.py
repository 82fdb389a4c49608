"""What a script with gaps must be: lines of the whole in order, gaps that are counted, statements where they stood."""

import ast
import copy
import re
import warnings

GAP = re.compile(r"[ \t]*(?:pass  )?# \.\.\. (\d+) lines left out \.\.\.")
BODIES = ("body", "orelse", "finalbody", "handlers", "cases")


def tree_of(code):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compile(code, "<test>", "exec")
        return ast.parse(code)


def check(whole, shown, dropped):
    """Every line is one of the whole script's, or a gap; gaps are counted; what is kept stands where it stood."""
    lines = whole.removesuffix("\n").split("\n")
    at = left_out = 0
    places = set()
    for number, line in enumerate(shown.removesuffix("\n").split("\n"), 1):
        gap = GAP.fullmatch(line)
        if gap and lines[at : at + 1] != [line]:
            at += int(gap[1])
            left_out += int(gap[1])
            places.add(number)
        else:
            assert lines[at] == line
            at += 1
    assert at == len(lines)
    assert left_out == dropped > 0
    assert shown.endswith("\n")
    assert embeds(tree_of(shown).body, tree_of(whole).body, places)


def embeds(short, full, gaps):
    """Whether the statements are some of the others, in order, at every depth; `pass` on the line of a gap is none."""
    rest = iter(full)
    return all(
        (isinstance(statement, ast.Pass) and statement.lineno in gaps)
        or any(same(statement, other, gaps) for other in rest)
        for statement in short
    )


def same(short, full, gaps):
    if type(short) is not type(full) or head(short) != head(full):
        return False
    for name in BODIES:
        mine, theirs = getattr(short, name, None), getattr(full, name, None)
        if not isinstance(mine, list):
            continue
        if bool(mine) != bool(theirs):
            return False
        if name in ("handlers", "cases"):
            if len(mine) != len(theirs) or not all(same(*pair, gaps) for pair in zip(mine, theirs, strict=True)):
                return False
        elif not embeds(mine, theirs, gaps):
            return False
    return True


def head(node):
    """A statement without what stands below it."""
    alone = copy.copy(node)
    for name in BODIES:
        if isinstance(getattr(alone, name, None), list):
            setattr(alone, name, [])
    return ast.dump(alone)
