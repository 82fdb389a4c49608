"""The statements of a script that matter most, as many as fit, each in its place.

A function, class, loop or other block of more than a few lines is opened: its statements are chosen one by one, and
where any is kept, so are the lines that begin the block and its branches, and its `global` and `nonlocal` declarations.
What is kept is kept line for line and in order. Each gap is a comment that says how long it is, unless that would be
longer than what it stands for; a branch of which nothing is kept is `pass` with that comment.

Kept first, as long as they fit: imports; statements that write files and the last ones that do something; models, fits
and predictions; settings; what all these take their values from, the nearest first; the rest, from the top.
"""

from __future__ import annotations

import ast
import builtins
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from rewardrate.environments.mle.names import names_of, writes
from rewardrate.environments.mle.programs import parsed

SMALL_BLOCK = 5  # lines; a block of no more is kept or left out as a whole
LAST_STATEMENTS = 3  # kept before others: predictions and the submission stand there
TRIES = 30  # how often a statement that does not fit is passed over for shorter ones
MODEL_CALLS = frozenset(
    ("fit", "train", "fit_transform", "fit_predict", "partial_fit", "make_pipeline", "predict", "predict_proba")
)
PLAIN_CLASSES = frozenset(("DataFrame", "Series", "Index", "Timestamp", "Timedelta", "Path", "Counter", "OrderedDict"))
SPEAKING = frozenset(("print", "display", "logging", "logger", "log", "plt", "sns", "warnings", "gc"))
Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
BUILTINS = frozenset(dir(builtins))


@dataclass
class Leaf:
    """Lines `start` to `end` (exclusive, from 0) that are kept or left out together, and the statements on them."""

    start: int
    end: int
    statements: list[ast.stmt]
    within: tuple[ast.stmt, ...]
    "The blocks around it, outermost first."
    place: int
    "Among all leaves, from the top."


@dataclass
class Branch:
    """Part of a block: its first lines (`if x:`, `else:`) up to `opened`, and what stands below them."""

    start: int
    opened: int
    end: int
    indent: str
    parts: list[Leaf | CodeBlock]


@dataclass
class CodeBlock:
    """A statement that holds others: its branches in order, nothing between them."""

    start: int
    end: int
    branches: list[Branch]
    places: range
    "Those of the leaves inside."


def gap(lines: int, indent: str = "") -> str:
    """The comment that stands for so many lines."""
    return f"{indent}# ... {lines} lines left out ...\n"


def select(text: str, fits: Callable[[str], bool]) -> tuple[str, int]:
    """The script with gaps that `fits`, and how many lines the gaps stand for; empty when nothing fits.

    `text` compiles and ends in a line feed. So does the result, or it is empty.
    """
    lines = text.removesuffix("\n").split("\n")
    tree = parsed(text)
    if isinstance(tree, str):
        return "", len(lines)
    for open_blocks in (True, False):  # taken apart, a block may lose what another part of it needs to compile
        script = _ScriptLines(lines, tree, open_blocks)
        result = script.shown(_chosen(script, fits))
        if not isinstance(parsed(result), str):
            break
    else:
        result = ""
    return (result, script.dropped) if result else ("", len(lines))


def _chosen(script: _ScriptLines, fits: Callable[[str], bool]) -> list[int]:
    """Places of the leaves to keep: the longest beginning of their order that fits, then shorter ones that still do."""
    order = script.order()
    kept: list[int] = []
    for tries in range(TRIES, -1, -1):
        if order and not tries:
            order = [min(order, key=script.size)]
        more = most(len(order), lambda taken: fits(script.shown(kept + order[:taken])))  # noqa: B023 - called at once
        kept, order = kept + order[:more], order[more:]
        if not order:
            break
        limit = script.size(order[0])  # it does not fit, nor will longer ones, or hardly ever
        order = [place for place in order if script.size(place) < limit]
    return kept


def most(limit: int, fits: Callable[[int], bool]) -> int:
    """The largest number up to `limit` that fits, if all smaller ones do; 0 always does. Looks near 0 first."""
    low, step = 0, 1
    while low < limit and fits(min(low + step, limit)):
        low, step = min(low + step, limit), 2 * step
    high = min(low + step, limit + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


class _ScriptLines:
    """The lines of a program, cut into leaves, and any choice of them written out."""

    def __init__(self, lines: list[str], tree: ast.Module, open_blocks: bool) -> None:
        self.lines, self.open_blocks = lines, open_blocks
        self.leaves: list[Leaf] = []
        self.functions: dict[int, range] = {}  # places of the leaves inside each function that was opened
        self.parts = self._cut(tree.body, 0, len(lines), ())
        self.declarations = list(self._declarations())
        self.dropped = 0

    def size(self, place: int) -> int:
        """Characters of a leaf."""
        return sum(len(line) + 1 for line in self.lines[self.leaves[place].start : self.leaves[place].end])

    def order(self) -> list[int]:
        """Places of the leaves, what matters most first."""
        ranks = _ranks(self.leaves)
        return sorted(range(len(self.leaves)), key=lambda place: ranks[place])

    def shown(self, kept: Iterable[int]) -> str:
        """The kept leaves with what begins the blocks around them; `dropped` counts the lines that are left out."""
        chosen = set(kept)
        before = self._before(chosen)
        chosen |= {place for place, inside in self.declarations if before[inside.start] < before[inside.stop]}
        self.dropped = 0
        before = self._before(chosen)
        return "".join(self._written(self.parts, 0, len(self.lines), "", before)) if chosen else ""

    def _before(self, chosen: set[int]) -> list[int]:
        """How many of the leaves above each place are chosen."""
        return [0, *accumulate(place in chosen for place in range(len(self.leaves)))]

    def _written(
        self, parts: Sequence[Leaf | CodeBlock], at: int, end: int, indent: str, before: Sequence[int]
    ) -> Iterator[str]:
        """`before[place]` is how many of the leaves above that place are kept."""
        empty = True
        for part in parts:
            places = range(part.place, part.place + 1) if isinstance(part, Leaf) else part.places
            if before[places.start] == before[places.stop]:
                continue
            yield from self._gap(at, part.start, indent)
            if isinstance(part, Leaf):
                yield from (line + "\n" for line in self.lines[part.start : part.end])
            else:
                for branch in part.branches:
                    yield from (line + "\n" for line in self.lines[branch.start : branch.opened])
                    yield from self._written(branch.parts, branch.opened, branch.end, branch.indent, before)
            at, empty = part.end, False
        yield from self._gap(at, end, f"{indent}pass  " if empty else indent)

    def _gap(self, start: int, end: int, indent: str) -> list[str]:
        words = gap(end - start, indent)
        missing = [line + "\n" for line in self.lines[start:end]]
        if sum(map(len, missing)) <= len(words):
            return missing
        self.dropped += end - start
        return [words]

    # ---- cutting

    def _cut(
        self, body: Sequence[ast.stmt], start: int, end: int, within: tuple[ast.stmt, ...]
    ) -> list[Leaf | CodeBlock]:
        """The lines from `start` to `end` cut where a statement of this body begins on a line of its own."""
        groups: list[tuple[int, list[ast.stmt]]] = []
        reach = 0
        for statement in body:
            top = _top(statement)
            if groups and (top < reach or self._follows_backslash(top)):
                groups[-1][1].append(statement)  # after a semicolon
            else:
                groups.append((top if groups else start, [statement]))
            reach = statement.end_lineno or top
        ends = [top for top, _ in groups[1:]] + [end] * bool(groups)
        return [self._part(top, until, group, within) for (top, group), until in zip(groups, ends, strict=True)]

    def _part(self, start: int, end: int, group: list[ast.stmt], within: tuple[ast.stmt, ...]) -> Leaf | CodeBlock:
        bodies = self._bodies(group[0]) if len(group) == 1 and end - start > SMALL_BLOCK else []
        place = len(self.leaves)
        if not bodies:
            self.leaves.append(Leaf(start, end, group, within, place))
            return self.leaves[-1]
        branches = []
        for body, last in zip(bodies, [*(body[-1] for body in bodies[:-1]), None], strict=True):
            opened = _top(body[0])
            until = end if last is None else last.end_lineno or end
            indent = self.lines[opened][: len(self.lines[opened]) - len(self.lines[opened].lstrip(" \t"))]
            parts = self._cut(body, opened, until, (*within, group[0]))
            branches.append(Branch(start, opened, until, indent, parts))
            start = until
        places = range(place, len(self.leaves))
        if isinstance(group[0], Scope):
            self.functions[id(group[0])] = places
        return CodeBlock(branches[0].start, end, branches, places)

    def _declarations(self) -> Iterator[tuple[int, range]]:
        """Leaves with a `global` or `nonlocal`, and the leaves that would mean something else without them."""
        for leaf in self.leaves:
            around = [self.functions[id(block)] for block in leaf.within if isinstance(block, Scope)]
            nodes = (node for statement in leaf.statements for node in ast.walk(statement))
            if around and any(isinstance(node, ast.Global | ast.Nonlocal) for node in nodes):
                yield leaf.place, around[-1]

    def _bodies(self, statement: ast.stmt) -> list[list[ast.stmt]]:
        """The bodies of a block in the order of the text; none for a statement that cannot be taken apart.

        That is one with a body that shares its first line with other text.
        """
        bodies = [body for body in _bodies(statement, self.lines) if body]
        return bodies if self.open_blocks and all(map(self._stands_alone, bodies)) else []

    def _stands_alone(self, body: list[ast.stmt]) -> bool:
        top = _top(body[0])
        return not self.lines[top][: body[0].col_offset].strip(" \t\f") and not self._follows_backslash(top)

    def _follows_backslash(self, row: int) -> bool:
        """Whether a row, from 0, continues the one above."""
        return row > 0 and self.lines[row - 1].endswith("\\")


def _top(statement: ast.stmt) -> int:
    """The first line of a statement with its decorators, from 0."""
    marks: list[ast.expr] = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(mark.lineno for mark in marks)]) - 1


def _bodies(statement: ast.stmt, lines: list[str]) -> list[list[ast.stmt]]:
    if isinstance(statement, ast.Match):
        return [case.body for case in statement.cases]
    bodies = [getattr(statement, "body", [])]
    bodies += [handler.body for handler in getattr(statement, "handlers", [])]
    rest: list[ast.stmt] = getattr(statement, "orelse", [])
    while isinstance(statement, ast.If) and len(rest) == 1 and isinstance(inner := rest[0], ast.If):
        if not lines[inner.lineno - 1].encode()[inner.col_offset :].startswith(b"elif"):
            break
        bodies.append(inner.body)
        rest = inner.orelse
    return [*bodies, rest, getattr(statement, "finalbody", [])]


# ---------------------------------------------------------------- what matters


IMPORT, ENDING, MODEL, SETTING, DEPENDENCY, REST = range(6)


def _ranks(leaves: Sequence[Leaf]) -> list[tuple[int, int, int]]:
    """What is kept first: smaller is sooner."""
    acting = [leaf.place for leaf in leaves if not _only_prints(leaf)]
    last = set(acting[-LAST_STATEMENTS:])
    kinds = [_kind(leaf, leaf.place in last) for leaf in leaves]
    distances = _distances(leaves, [place for place, kind in enumerate(kinds) if ENDING <= kind <= SETTING])
    ranks = []
    for place, kind in enumerate(kinds):
        if kind == ENDING:
            ranks.append((kind, 0, -place))
        elif kind == REST and place in distances:
            ranks.append((DEPENDENCY, distances[place], place))
        else:
            ranks.append((kind, 0, place))
    return ranks


def _distances(leaves: Sequence[Leaf], seeds: Iterable[int]) -> dict[int, int]:
    """How many steps each leaf is away from the seeds, going from a name that is read to where it gets its value."""
    makers: dict[str, list[int]] = {}
    for leaf in leaves:
        for name in _touched(leaf):
            makers.setdefault(name, []).append(leaf.place)
    blocks = {id(block): block for leaf in leaves for block in leaf.within}
    heads = {key: _head_names(block) for key, block in blocks.items()}
    distances = dict.fromkeys(seeds, 0)
    queue = deque(distances)
    while queue:
        place = queue.popleft()
        for name in _used(leaves[place].statements).union(*(heads[id(block)] for block in leaves[place].within)):
            for maker in makers.pop(name, ()):  # once: the first to ask for a name is the nearest
                if maker not in distances:
                    distances[maker] = distances[place] + 1
                    queue.append(maker)
    return distances


def _kind(leaf: Leaf, is_last: bool) -> int:
    if any(isinstance(statement, ast.Import | ast.ImportFrom) for statement in leaf.statements):
        return IMPORT
    if is_last or any(map(writes, leaf.statements)):
        return ENDING
    if all(map(_is_setting, leaf.statements)):
        return SETTING
    return MODEL if any(map(_builds_model, leaf.statements)) else REST


def _only_prints(leaf: Leaf) -> bool:
    """Whether all that a leaf does is print, draw or log."""
    values = [statement.value if isinstance(statement, ast.Expr) else None for statement in leaf.statements]
    return all(isinstance(value, ast.Call) and _root(value) in SPEAKING for value in values)


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
    """Whether something with a capital letter is made, or something is fitted, trained or predicted."""
    if isinstance(statement, Scope):
        return False
    for node in ast.walk(statement):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if (name[:1].isupper() and name not in PLAIN_CLASSES) or name in MODEL_CALLS:
                return True
    return False


def _head_names(block: ast.stmt) -> set[str]:
    """Names that the first lines of a block read."""
    heads = [value for name, value in ast.iter_fields(block) if name not in ("body", "orelse", "finalbody")]
    parts = [head for head in heads if isinstance(head, ast.expr)]
    return _used([ast.Expr(part) for part in [*parts, *(item.context_expr for item in getattr(block, "items", ()))]])


def _used(statements: list[ast.stmt]) -> set[str]:
    """Names that statements read."""
    names = names_of(ast.Module(statements, []))
    return names.used | names.later


def _touched(leaf: Leaf) -> set[str]:
    """Names whose values a leaf may make or change; what a function gives back belongs to the function's name."""
    names: set[str] = set()
    for statement in leaf.statements:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name | ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
                names.add(_root(node))
            elif isinstance(node, Scope):
                names.add(node.name)
            elif isinstance(node, ast.Return | ast.Yield | ast.YieldFrom):
                names.update(block.name for block in leaf.within if isinstance(block, Scope))
        if isinstance(statement, ast.Expr) and isinstance(call := statement.value, ast.Call):
            if isinstance(call.func, ast.Attribute):
                names.add(_root(call.func))
            elif _root(call.func) not in BUILTINS:
                names.update(map(_root, call.args))
    return names - {""}


def _root(node: ast.expr) -> str:
    """The name that an attribute, item or call hangs on: `frame` for `frame["a"].values`."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call | ast.Starred):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""
