"""A parent script cut down to a number of tokens, without ever changing what the kept code means.

Steps, in order, until it fits:

1. the script as it is;
2. without comments, blank lines and docstrings;
3. without trailing white space;
4. without some statements, inside functions and other blocks too: what matters most stays (`selection`), and each gap
   is a comment that says how long it is;
5. nothing.

After steps 1 to 3 the syntax tree is that of the parent, docstrings aside, and the result is `complete`. A docstring
stays where it is all of a body, where it shares its lines, and where the script reads docstrings. The statements kept
in step 4 are those of step 3, line for line, and the result compiles. Of a script that does not compile, that has more
than MOST_STEPS steps for the compiler, or that breaks any of the steps above, the largest tail of whole lines is kept.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeGuard

from rewardrate.environments.mle.programs import quiet, weighed
from rewardrate.environments.mle.selection import gap, most, select
from rewardrate.errors import InputError

MOST_STEPS = 10_000  # of the compiler: 50 kB as people write scripts, a few tenths of a second to shorten
ENCODING = re.compile(r"[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)", re.ASCII)
READS_DOCSTRINGS = re.compile(r"__doc__|getdoc|doctest|docopt|\bhelp\s*\(")
OPEN_STRINGS = {getattr(tokenize, name, None) for name in ("FSTRING_START", "TSTRING_START")} - {None}
CLOSED_STRINGS = {getattr(tokenize, name, None) for name in ("FSTRING_END", "TSTRING_END")} - {None}
LAYOUT = {tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER, tokenize.COMMENT}


@dataclass(frozen=True)
class Shortened:
    """What is shown of a script."""

    code: str
    dropped_lines: int
    "Lines that the gaps stand for; comments, blank lines and docstrings that were removed first do not count."
    complete: bool
    "Whether the whole program is there."


def shorten(code: str, budget: int, count: Callable[[str], int]) -> Shortened:
    """The script within `budget` tokens, by the steps of this module; `count` gives the tokens of a text.

    `count` is called a few times for each doubling of the number of statements, never once for each line.
    """
    if not isinstance(code, str):
        raise InputError("code", code, "must be text")
    if isinstance(budget, bool) or not isinstance(budget, int):
        raise InputError("budget", budget, "must be a whole number of tokens")
    if budget <= 0:
        return Shortened("", _size(code), not code.strip())
    if count(code) <= budget:
        return Shortened(code, 0, True)
    text = code.replace("\r\n", "\n").replace("\r", "\n")  # as Python reads it, also inside strings
    try:
        found = _by_structure(text, budget, count)
    except Exception:  # the script is untrusted, and one odd script must not end a run
        found = None
    return found or _tail(text, budget, count)


def _by_structure(text: str, budget: int, count: Callable[[str], int]) -> Shortened | None:
    """Steps 2 to 5; None for a script that Python cannot compile, or not soon enough."""
    tree, _ = weighed(text, MOST_STEPS)
    if isinstance(tree, str):
        return None
    for bare in _bare(text, tree):
        text = bare
        if count(text) <= budget:
            return Shortened(text, 0, True)
    shown, dropped = select(text, lambda part: count(part) <= budget)
    return Shortened(shown, dropped, False)


def _size(text: str) -> int:
    return text.count("\n") + (not text.endswith("\n") and text != "")


def _tail(text: str, budget: int, count: Callable[[str], int]) -> Shortened:
    """The most lines from the end that fit, under a line that says how many are missing."""
    lines = text.removesuffix("\n").split("\n")

    def shown(kept: int) -> str:
        return gap(len(lines) - kept) + "".join(line + "\n" for line in lines[len(lines) - kept :]) if kept else ""

    kept = most(len(lines) - 1, lambda size: count(shown(size)) <= budget)
    return Shortened(shown(kept), len(lines) - kept, False)


# ---------------------------------------------------------------- comments, blank lines, docstrings, trailing space


def _bare(text: str, tree: ast.Module) -> Iterable[str]:
    """The text after step 2 and after step 3; nothing where the tokens do not bear it out."""
    lines = text.split("\n")
    try:
        comments, inside, busy = _layout(text)
    except (tokenize.TokenError, SyntaxError):
        return
    gone = _docstring_rows(lines, tree) if not READS_DOCSTRINGS.search(text) else set()
    first, second = [], []
    for row, line in enumerate(lines, 1):
        bound = _follows_backslash(lines, row) or _declares_encoding(row, line)
        if row in gone or (row not in busy and not bound and not line[: comments.get(row)].strip(" \t\f")):
            continue
        kept = line[: comments[row]].rstrip(" \t\f") if row in comments and row in busy else line
        first.append(kept + "\n")
        second.append((kept if row in inside else kept.rstrip(" \t\f")) + "\n")
    for result in dict.fromkeys(("".join(first), "".join(second))):
        shorter, _ = weighed(result, MOST_STEPS)
        if isinstance(shorter, str) or not _same_program(tree, shorter):
            return
        yield result


def _layout(text: str) -> tuple[dict[int, int], set[int], set[int]]:
    """Column of the comment of each row; rows that end inside a string; rows that hold any code."""
    comments: dict[int, int] = {}
    inside: set[int] = set()
    busy: set[int] = set()
    open_strings: list[int] = []
    with quiet():
        for token in tokenize.generate_tokens(io.StringIO(text, newline="\n").readline):
            (top, column), (bottom, _) = token.start, token.end
            if token.type == tokenize.COMMENT and not open_strings:
                comments[top] = column
            if token.type not in LAYOUT:
                busy.update(range(top, bottom + 1))
            if token.type == tokenize.STRING:
                inside.update(range(top, bottom))
            elif token.type in OPEN_STRINGS:
                open_strings.append(top)
            elif token.type in CLOSED_STRINGS:
                rows = range(open_strings.pop(), bottom)
                inside.update(rows)
                busy.update(rows)
    return comments, inside, busy


def _follows_backslash(lines: list[str], row: int) -> bool:
    """Whether a row may continue the one above: then even an empty one ends a statement."""
    return row > 1 and lines[row - 2].endswith("\\")


def _declares_encoding(row: int, line: str) -> bool:
    """Whether this comment changes how Python reads the file: then it is no comment."""
    found = ENCODING.match(line) if row <= 2 else None
    return found is not None and found[1].lower().replace("_", "-") not in ("utf-8", "utf8")


def _docstring_rows(lines: list[str], tree: ast.Module) -> set[int]:
    """Rows of the docstrings that can go and have their lines to themselves."""
    rows: set[int] = set()
    for node in ast.walk(tree):
        if not _has_spare_docstring(node):
            continue
        text = node.body[0]
        before = lines[text.lineno - 1][: text.col_offset]
        after = lines[(text.end_lineno or 0) - 1].encode()[text.end_col_offset :].decode().strip(" \t\f")
        alone = not before.strip(" \t\f") and (not after or after.startswith("#"))
        if alone and not _follows_backslash(lines, text.lineno):
            rows.update(range(text.lineno, (text.end_lineno or 0) + 1))
    return rows


def _has_spare_docstring(node: ast.AST) -> TypeGuard[ast.Module | ast.ClassDef | ast.FunctionDef]:
    """Whether a body begins with a docstring and goes on with a statement that would not become one."""
    if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    return len(node.body) > 1 and _is_text(node.body[0]) and not _is_text(node.body[1])


def _is_text(statement: ast.stmt) -> bool:
    value = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def _same_program(first: ast.Module, second: ast.Module) -> bool:
    """Whether two syntax trees are equal, docstrings aside.

    Without recursion and without writing values out: a tree may be deeper than Python's stack, and Python refuses to
    write out an integer of more than 4,300 digits.
    """
    waiting: list[tuple[Any, Any]] = [(first, second)]
    while waiting:
        one, other = waiting.pop()
        if type(one) is not type(other):
            return False
        if isinstance(one, ast.AST):
            waiting += [(_field(one, name), _field(other, name)) for name in one._fields]
        elif isinstance(one, list):
            if len(one) != len(other):
                return False
            waiting += zip(one, other, strict=True)
        elif one != other:
            return False
    return True


def _field(node: ast.AST, name: str) -> Any:
    value: Any = getattr(node, name, None)
    return value[1:] if name == "body" and _has_spare_docstring(node) else value
