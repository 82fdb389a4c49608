"""A parent script cut down to a number of tokens, without ever changing what the kept code means.

Steps, in order, until it fits:

1. the script as it is;
2. without comments, blank lines and docstrings;
3. without trailing white space;
4. without some top-level statements. Kept as long as they fit, in this order: imports, statements that write files and
   the last ones, settings, models; then the others from the top. Each gap is a comment that says how long it is;
5. nothing.

After steps 1 to 3 the syntax tree is that of the parent, docstrings aside, and the result is `complete`. A docstring
stays where it is all of a body, where it shares its lines, and where the script reads docstrings. The statements kept
in step 4 are those of step 3, line for line, and the result compiles. Of a script that does not compile, the largest
tail of whole lines is kept.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeGuard

from rewardrate.environments.mle.extraction import parsed, quiet, writes
from rewardrate.errors import InputError

LAST_STATEMENTS = 3  # kept before others: predictions and the submission stand there
TRIES = 30  # how often a statement that does not fit is passed over for shorter ones
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
    tree = parsed(text)
    if isinstance(tree, str):
        return _tail(text, budget, count)
    for bare in _bare(text, tree):
        text = bare
        if count(text) <= budget:
            return Shortened(text, 0, True)
    return _selection(text, budget, count)


def _size(text: str) -> int:
    return text.count("\n") + (not text.endswith("\n") and text != "")


def _gap(lines: int) -> str:
    return f"# ... {lines} lines left out ...\n"


def _tail(text: str, budget: int, count: Callable[[str], int]) -> Shortened:
    """The most lines from the end that fit, under a line that says how many are missing."""
    lines = text.removesuffix("\n").split("\n")

    def shown(kept: int) -> str:
        return _gap(len(lines) - kept) + "".join(line + "\n" for line in lines[len(lines) - kept :]) if kept else ""

    kept = _most(len(lines) - 1, lambda size: count(shown(size)) <= budget)
    return Shortened(shown(kept), len(lines) - kept, False)


def _most(limit: int, fits: Callable[[int], bool]) -> int:
    """The largest number up to `limit` that fits, if all smaller ones do; 0 always does. Looks near 0 first."""
    low, step = 0, 1
    while low < limit and fits(min(low + step, limit)):
        low, step = min(low + step, limit), 2 * step
    high = min(low + step, limit + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


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
    meaning = _meaning(text)
    for result in dict.fromkeys(("".join(first), "".join(second))):
        if meaning is None or _meaning(result) != meaning:
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


def _meaning(text: str) -> str | None:
    """The syntax tree as text, docstrings aside; None when it cannot be had."""
    tree = parsed(text)
    if isinstance(tree, str):
        return None
    for node in ast.walk(tree):
        if _has_spare_docstring(node):
            del node.body[0]
    try:
        return ast.dump(tree)
    except RecursionError:
        return None


# ---------------------------------------------------------------- whole statements


def _selection(text: str, budget: int, count: Callable[[str], int]) -> Shortened:
    """The statements that matter most, as many as fit, with a line for each gap."""
    lines = text.removesuffix("\n").split("\n")
    tree = parsed(text)
    pieces = _pieces(tree, len(lines)) if isinstance(tree, ast.Module) else []
    order = sorted(range(len(pieces)), key=lambda place: _rank(pieces, place))

    def size(place: int) -> int:
        return sum(len(line) + 1 for line in lines[pieces[place].start : pieces[place].end])

    def shown(kept: list[int]) -> str:
        return _with_gaps(lines, [pieces[place] for place in sorted(kept)])

    kept: list[int] = []
    for tries in range(TRIES, -1, -1):
        if order and not tries:
            order = [min(order, key=size)]
        more = _most(len(order), lambda taken: count(shown(kept + order[:taken])) <= budget)  # noqa: B023 - called at once
        kept, order = kept + order[:more], order[more:]
        if not order:
            break
        limit = size(order[0])  # it does not fit, nor will longer ones, or hardly ever
        order = [place for place in order if size(place) < limit]
    result = shown(kept) if kept else ""
    if not kept or isinstance(parsed(result), str):
        return Shortened("", len(lines), False)
    return Shortened(
        result, len(lines) - sum(piece.end - piece.start for piece in map(pieces.__getitem__, kept)), False
    )


@dataclass(frozen=True)
class _Piece:
    """Lines `start` to `end` (exclusive, from 0) with the statements that begin there."""

    start: int
    end: int
    statements: tuple[ast.stmt, ...]


def _pieces(tree: ast.Module, total: int) -> list[_Piece]:
    """The lines cut where a top-level statement begins on a line of its own; nothing lies between two pieces."""
    groups: list[tuple[int, list[ast.stmt]]] = []
    reach = 0
    for statement in tree.body:
        marks = getattr(statement, "decorator_list", [])
        top = min(mark.lineno for mark in [statement, *marks])
        if groups and top <= reach:
            groups[-1][1].append(statement)  # after a semicolon
        else:
            groups.append((top - 1 if groups else 0, [statement]))
        reach = statement.end_lineno or top
    ends = [top for top, _ in groups[1:]] + [total] * bool(groups)
    return [_Piece(top, end, tuple(group)) for (top, group), end in zip(groups, ends, strict=True)]


def _rank(pieces: list[_Piece], place: int) -> tuple[int, int]:
    """What is kept first: smaller is sooner."""
    statements = pieces[place].statements
    from_end = len(pieces) - place
    if any(isinstance(statement, ast.Import | ast.ImportFrom) for statement in statements):
        return 0, place
    if from_end <= LAST_STATEMENTS:
        return 1, from_end
    if any(writes(statement) for statement in statements):
        return 1, from_end
    if all(_is_setting(statement) for statement in statements):
        return 2, place
    if any(_builds_model(statement) for statement in statements):
        return 3, place
    return 4, place


def _is_setting(statement: ast.stmt) -> bool:
    """Whether a name gets a value that is written out: `n_estimators = 300`, `params = {...}`, `dict(depth=8)`."""
    if not isinstance(statement, ast.Assign | ast.AnnAssign) or statement.value is None:
        return False
    plain = (ast.Constant, ast.List, ast.Tuple, ast.Dict, ast.Set, ast.UnaryOp, ast.BinOp, ast.keyword)
    value = statement.value
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "dict":
        parts: list[ast.AST] = [*value.args, *value.keywords]
    else:
        parts = [value]
    small = (ast.expr_context, ast.operator, ast.unaryop)
    return all(isinstance(node, (*plain, *small)) for part in parts for node in ast.walk(part))


def _builds_model(statement: ast.stmt) -> bool:
    """Whether something with a capital letter is made, or something is fitted or trained."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return False
    for node in ast.walk(statement):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name[:1].isupper() or name in ("fit", "train", "fit_transform", "make_pipeline"):
                return True
    return False


def _with_gaps(lines: list[str], pieces: list[_Piece]) -> str:
    """The lines of the pieces in source order; where some are missing, one comment that counts them."""
    shown: list[str] = []
    at = 0
    for piece in [*pieces, _Piece(len(lines), len(lines), ())]:
        if piece.start > at:
            shown.append(_gap(piece.start - at))
        shown += (line + "\n" for line in lines[piece.start : piece.end])
        at = piece.end
    return "".join(shown)
