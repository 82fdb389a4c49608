"""The text that an expression makes, as far as it can be read from the syntax: constants, f-strings, joined paths."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Mapping, Sequence

UNKNOWN = "\0"
"Stands in a text for a part that is only known when the script runs."

HOLES = re.compile(r"%[-+ #0-9]*(?:\.\d+)?[a-zA-Z]|\{[^{}]*\}")
DEEPEST, LONGEST = 8, 100_000

Bindings = Mapping[str, ast.expr]


def bindings(tree: ast.Module, *, parameters: bool = True) -> dict[str, ast.expr]:
    """Names that a script binds once and by a plain assignment, with what they are bound to.

    A parameter of that name is another binding, unless `parameters` is false.
    """
    found: dict[str, ast.expr] = {}
    times: Counter[str] = Counter()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            times[node.id] += 1
        elif isinstance(node, ast.arg) and parameters:
            times[node.arg] += 1
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            found[node.targets[0].id] = node.value
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            found[node.target.id] = node.value
    return {name: value for name, value in found.items() if times[name] == 1}


def text_of(node: ast.AST, known: Bindings | None = None) -> str:
    """The text of an expression with UNKNOWN for what cannot be read; all of it when it is no text.

    Every part is read once, however often names repeat it, and a text that grows beyond LONGEST is not read.
    """
    return _TextReader(known or {}).text(node, 0)


class _TextReader:
    """Reads one expression; `read` keeps what its parts came to."""

    def __init__(self, known: Bindings) -> None:
        self.known, self.read = known, dict[int, str]()

    def text(self, node: ast.AST, depth: int) -> str:
        if depth > DEEPEST:
            return UNKNOWN
        if id(node) not in self.read:
            found = self._text(node, depth)
            self.read[id(node)] = found if len(found) <= LONGEST else UNKNOWN
        return self.read[id(node)]

    def _text(self, node: ast.AST, depth: int) -> str:
        if isinstance(node, ast.Constant):
            value = node.value.decode("latin-1") if isinstance(node.value, bytes) else node.value
            return str(value) if isinstance(value, str | int | float) else UNKNOWN
        if isinstance(node, ast.JoinedStr):
            return self._joined(node.values, "", depth)
        if isinstance(node, ast.FormattedValue):
            return self.text(node.value, depth + 1) if node.format_spec is None else UNKNOWN
        if isinstance(node, ast.Name) and node.id in self.known:
            return self.text(self.known[node.id], depth + 1)
        if isinstance(node, ast.BinOp):
            return self._operator(node, depth + 1)
        return self._call(node, depth + 1) if isinstance(node, ast.Call) else UNKNOWN

    def _joined(self, nodes: Sequence[ast.AST], between: str, depth: int) -> str:
        parts, size = [], 0
        for node in nodes:
            parts.append(self.text(node, depth + 1))
            size += len(parts[-1])
            if size > LONGEST:
                return UNKNOWN
        return between.join(parts)

    def _operator(self, node: ast.BinOp, depth: int) -> str:
        left = self.text(node.left, depth)
        if isinstance(node.op, ast.Mod):
            return HOLES.sub(UNKNOWN, left)
        right = self.text(node.right, depth)
        return left + right if isinstance(node.op, ast.Add) else f"{left}/{right}" if _is_path(node) else UNKNOWN

    def _call(self, node: ast.Call, depth: int) -> str:
        name = _last(node.func)
        if name == "join" and isinstance(node.func, ast.Attribute) and _last(node.func.value) == "path":
            return self._joined(node.args, "/", depth - 1)
        if name in ("Path", "str") and len(node.args) == 1:
            return self.text(node.args[0], depth)
        if name == "format" and isinstance(node.func, ast.Attribute):
            return HOLES.sub(UNKNOWN, self.text(node.func.value, depth))
        return UNKNOWN


def _is_path(node: ast.BinOp) -> bool:
    """Whether a division joins paths: something in it is a text or a Path."""
    if not isinstance(node.op, ast.Div):
        return False
    parts = [part for part in ast.walk(node) if isinstance(part, ast.Constant | ast.Call)]
    texts = [part for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)]
    return bool(texts) or any(_last(part.func) == "Path" for part in parts if isinstance(part, ast.Call))


def _last(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
