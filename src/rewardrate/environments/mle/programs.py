"""Whether a text is a program, told without running it and without letting it cost much to find out.

Python's own parser and compiler take time that grows faster than the text for some texts, which a policy may find. What
they would do is estimated first, from the text and then from the tree, and a text that asks for too much is refused.
"""

from __future__ import annotations

import ast
import re
import threading
import unicodedata
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import groupby

LONGEST_SCRIPT = 100_000  # characters; the longest of our reference scripts has 2,500
MOST_STEPS = 200_000  # of the compiler, a microsecond or two each; an honest script takes less than one a character
MOST_FIELDS = 200_000_000  # of f-strings, times characters: a tenth of a second
MOST_ACCENTS = 100  # on one letter: sorting them takes the square of their number

FORMATTED = re.compile(r"\b(?:[rR]?[fFtT]|[fFtT][rR])['\"]")
LOOPS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
SCOPES = (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda, *LOOPS)
EXITS = (ast.Return, ast.Break, ast.Continue)
CAPTURES = (ast.MatchAs, ast.MatchStar, ast.MatchMapping)
ENDLESS = 10**15  # nested copies reach numbers that take long to add
_FILTERS = threading.Lock()  # the warning filters belong to the whole process


@contextmanager
def quiet() -> Iterator[None]:
    """Without the warnings that Python has for a script's source."""
    with _FILTERS, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def parsed(code: str) -> ast.Module | str:
    """The syntax tree of code that compiles; else why it does not, in a few words."""
    return weighed(code, MOST_STEPS)[0]


def weighed(code: str, most_steps: int) -> tuple[ast.Module | str, int]:
    """The same, refused if compiling would take more than `most_steps`, and the steps that it took."""
    if len(code) > LONGEST_SCRIPT:
        return too_long(len(code)), 0
    if trouble := _hard_to_read(code):
        return trouble, 0
    steps = 0
    try:
        with quiet():
            tree = ast.parse(code)
            steps = compiler_steps(tree)
            if steps > most_steps:
                return "it would take too long to compile", 0
            compile(tree, "<reply>", "exec", dont_inherit=True)
    except SyntaxError as error:
        return f"line {error.lineno or 1}: {' '.join(str(error.msg).split())}", steps
    except (RecursionError, MemoryError):
        return "it is nested too deeply", steps
    except (ValueError, OverflowError, SystemError):
        return "it holds a NUL byte" if "\0" in code else "it holds characters that are not valid text", steps
    return tree, steps


def too_long(characters: int) -> str:
    """Why a text of so many characters is not read."""
    return f"it has {characters} characters, more than {LONGEST_SCRIPT}"


def does_something(tree: ast.Module) -> bool:
    """False for what compiles by chance: names, tuples, constants, `label: value`, a lone keyword."""
    idle = (ast.Expr, ast.Pass, ast.Assert, ast.Raise, ast.Delete, ast.Global, ast.AnnAssign)
    for statement in tree.body:
        if not isinstance(statement, idle) or (isinstance(statement, ast.AnnAssign) and statement.value):
            return True
        if any(isinstance(node, ast.Call | ast.Await | ast.NamedExpr) for node in ast.walk(statement)):
            return True
    return False


# ---------------------------------------------------------------- what reading and compiling would cost


def _hard_to_read(code: str) -> str:
    """Why the parser would take long over this text; empty when it would not.

    For each field of an f-string, Python 3.11 reads the string again from its beginning: fields x length. The accents
    of a name are put into order one by one: the square of their number.
    """
    if FORMATTED.search(code) and code.count("{") * len(code) > MOST_FIELDS:
        return "its f-strings are too long to read"
    if not code.isascii():
        runs = groupby(code, lambda sign: unicodedata.combining(sign) > 0)
        if any(accents and len(list(run)) > MOST_ACCENTS for accents, run in runs):
            return "it holds a letter with too many accents"
    return ""


def compiler_steps(tree: ast.Module) -> int:
    """About how many steps the compiler takes for a tree: one a node, and more where it does things again.

        finally     its body is emitted for the way through, for an exception, and for every exit from what it guards
        scopes      equal functions of one scope are told apart one by one: the square of their number
        names       each may be handed through all the functions around it
        keywords    each is compared with those before it; so are the names that a pattern captures
        patterns    names captured by alternatives in another order are moved into place: the cube of their number

    The weights are measured on Python 3.11, where a step takes up to two microseconds.
    """
    counts = _counts(tree)
    for mine in reversed(counts):  # children before their parents
        node = mine.node
        copies = 2 + mine.exits
        mine.size += (
            mine.final_size * copies + len(getattr(node, "keywords", getattr(node, "kwd_attrs", ()))) ** 2 // 20
        )
        mine.exits += mine.final_exits * copies
        if isinstance(node, EXITS):
            mine.exits += 1
        elif isinstance(node, ast.Try):
            mine.size += 4
        elif isinstance(node, CAPTURES):
            mine.captures += 1
        elif isinstance(node, ast.MatchOr):
            mine.size += mine.captures**3 // 50
        elif isinstance(node, ast.match_case):
            mine.size, mine.captures = mine.size + mine.captures**2 // 8, 0
        elif isinstance(node, SCOPES):
            mine.size, mine.scopes, mine.exits = mine.size + mine.scopes**2 // 20, 1, 0
        mine.hand_up()
    return counts[0].size


class _Count:
    """What a node and those below it add up to; the ones in a `finally` of its own are counted apart."""

    __slots__ = ("captures", "depth", "exits", "final", "final_exits", "final_size", "node", "parent", "scopes", "size")

    def __init__(self, node: ast.AST, parent: _Count | None, final: bool, depth: int) -> None:
        self.node, self.parent, self.final, self.depth = node, parent, final, depth
        self.size = 1
        self.exits = self.final_size = self.final_exits = self.scopes = self.captures = 0

    def hand_up(self) -> None:
        """Add this to the parent's."""
        parent = self.parent
        if parent is None:
            return
        if self.final:
            parent.final_size += min(self.size, ENDLESS)
            parent.final_exits += min(self.exits, ENDLESS)
        else:
            parent.size += min(self.size, ENDLESS)
            parent.exits += min(self.exits, ENDLESS)
        parent.scopes += self.scopes
        parent.captures += self.captures


def _counts(tree: ast.Module) -> list[_Count]:
    """A count for every node that may have children, after that of its parent; names and constants are in the parent's.

    Without recursion: a tree may be deeper than Python's stack.
    """
    counts: list[_Count] = []
    waiting = [_Count(tree, None, False, -1)]
    while waiting:
        mine = waiting.pop()
        counts.append(mine)
        node = mine.node
        depth = mine.depth + isinstance(node, SCOPES)
        for field in node._fields:
            value = getattr(node, field, None)
            for child in value if type(value) is list else (value,):
                if isinstance(child, ast.Name):
                    mine.size += 1 + 4 * max(0, depth - 2)
                elif isinstance(child, ast.Constant):
                    mine.size += 1
                elif isinstance(child, ast.AST) and child._fields:  # operators and the like have none
                    waiting.append(_Count(child, mine, field == "finalbody", depth))
    return counts
