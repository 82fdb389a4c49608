"""Statements in a form in which harmless differences are gone, so that what is left can be compared as text.

Gone are: where tensors lie and whether copying waits, the order of alternatives, the model's further arguments, which
of several names for one model is used, caches around a function.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from rewardrate.environments.speedrun.texts import Bindings, bindings

MODEL = re.compile(r"(raw_?)?(model|net|network|module)|raw")
SAME = frozenset({"contiguous", "pin_memory", "cpu", "cuda"})
WRAPPERS = frozenset({"compile", "DistributedDataParallel", "DDP"})
CACHES = frozenset({"cache", "lru_cache"})
BATCH = re.compile(r"(val|valid|validation|eval)_?(micro_?)?batch(_?size)?", re.I)
TOKENS = re.compile(r"(val|valid|validation|eval)_?tokens", re.I)


@dataclass
class Script:
    """What is known of a script while its statements are put into their normal form."""

    known: Bindings
    wrapped: Bindings
    "The same with names that are also those of parameters: a model is called `model` in every function."
    models: Mapping[str, int]
    "Function -> place of the argument that is the model."
    seen: set[str] = field(default_factory=set)
    "The models that were met at those places."
    own: set[str] = field(default_factory=set)
    "Names of numbers that no measurement uses (`validation.own_numbers`)."


def script_of(tree: ast.Module) -> Script:
    """The names of a script, and its functions that take a model."""
    models: dict[str, int] = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            places = [place for place, one in enumerate(node.args.args) if MODEL.fullmatch(one.arg)]
            if places:
                models[node.name] = places[0]
    return Script(bindings(tree), bindings(tree, parameters=False), models)


def normal(node: ast.AST, script: Script | None = None) -> str:
    """A statement or expression in its normal form, as text."""
    copied = ast.parse(ast.unparse(node)).body
    return "\n".join(ast.unparse(_Normal(script).visit(one)) for one in copied)


class _Normal(ast.NodeTransformer):
    def __init__(self, script: Script | None) -> None:
        self.script = script

    def visit_Call(self, call: ast.Call) -> ast.expr:
        self.generic_visit(call)
        call.keywords = [word for word in call.keywords if word.arg != "non_blocking"]
        if isinstance(call.func, ast.Attribute):
            return call.func.value if _keeps_values(call) else call
        name = ast.unparse(call.func)
        if self.script is not None and name in self.script.models and len(call.args) > self.script.models[name]:
            place = self.script.models[name]
            model = root(call.args[place], self.script.wrapped)
            if model:
                self.script.seen.add(model)
                call.args[place] = ast.Name("MODEL", ast.Load())
        elif re.search(r"model|net$", name):
            return ast.Call(call.func, call.args[:2], [])
        return call

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.BoolOp:
        self.generic_visit(node)
        node.values = sorted(node.values, key=ast.unparse)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        self.generic_visit(node)
        node.decorator_list = [one for one in node.decorator_list if not CACHES & set(_words_of(one))]
        return node


def _words_of(node: ast.AST) -> Iterator[str]:
    for part in ast.walk(node):
        if isinstance(part, ast.Name | ast.Attribute):
            yield part.id if isinstance(part, ast.Name) else part.attr


def _keeps_values(call: ast.Call) -> bool:
    """Whether a method call only says where a tensor lies: x.to(device), x.pin_memory()."""
    assert isinstance(call.func, ast.Attribute)
    if call.func.attr in SAME:
        return True
    given = [*call.args, *(word.value for word in call.keywords)]
    if call.func.attr != "to" or len(given) != 1 or any(word.arg != "device" for word in call.keywords):
        return False
    if isinstance(given[0], ast.Constant):
        return isinstance(given[0].value, str | int)
    return any("device" in word for word in _words_of(given[0]))


def root(node: ast.expr, known: Bindings, depth: int = 0) -> str:
    """The model that an expression stands for, whatever wraps it; empty for one that is made on the spot."""
    if depth > 8:
        return ""
    if isinstance(node, ast.Name) and isinstance(value := known.get(node.id), ast.Name | ast.IfExp | ast.Call):
        return root(value, known, depth + 1) or node.id
    if isinstance(node, ast.Attribute) and node.attr in ("module", "_orig_mod"):
        return root(node.value, known, depth + 1)
    if isinstance(node, ast.IfExp):
        both = {root(node.body, known, depth + 1), root(node.orelse, known, depth + 1)}
        return both.pop() if len(both) == 1 else ""
    if isinstance(node, ast.Call):
        wraps = node.args and WRAPPERS & set(_words_of(node.func))
        return root(node.args[0], known, depth + 1) if wraps else ""
    return ast.unparse(node) if isinstance(node, ast.Name | ast.Attribute) else ""


def alternatives(node: ast.expr) -> list[str]:
    """The operands of an `or`, or the expression alone."""
    parts: Sequence[ast.expr] = node.values if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or) else [node]
    return [normal(part) for part in parts]


def is_batch(node: ast.stmt, tree: ast.Module, known: Bindings) -> bool:
    """Whether a statement only sets how many sequences one forward pass of validation takes, and loses none by it.

    Where the script divides by that number, it must divide the number of validation tokens.
    """
    target = node.targets[0] if isinstance(node, ast.Assign) and len(node.targets) == 1 else None
    target = node.target if isinstance(node, ast.AnnAssign) else target
    if (
        not isinstance(target, ast.Name)
        or not BATCH.fullmatch(target.id)
        or not isinstance(known.get(target.id), ast.expr)
    ):
        return False
    sizes = whole(known[target.id], known)
    if not sizes or min(sizes) < 1:
        return False
    if not any(_divides_by(part, target.id) for part in ast.walk(tree)):
        return True
    tokens = [count for name, value in known.items() if TOKENS.fullmatch(name) for count in whole(value, known)]
    return bool(tokens) and all(count % size == 0 for count in tokens for size in sizes)


def _divides_by(node: ast.AST, name: str) -> bool:
    by = node.right if isinstance(node, ast.BinOp) and isinstance(node.op, ast.FloorDiv | ast.Div | ast.Mod) else None
    return by is not None and name in set(_words_of(by))


MOST_SIZES = 64  # that an expression may come to; beyond that it cannot be told


def whole(node: ast.expr, known: Bindings, depth: int = 0) -> set[int]:
    """The whole numbers that an expression of constants may come to; none when it cannot be told."""
    if depth > 8:
        return set()
    if isinstance(node, ast.Constant) and type(node.value) is int and abs(node.value) < 2**40:
        return {node.value}
    if isinstance(node, ast.Name) and node.id in known:
        return whole(known[node.id], known, depth + 1)
    if isinstance(node, ast.IfExp):
        both = whole(node.body, known, depth + 1), whole(node.orelse, known, depth + 1)
        return both[0] | both[1] if all(both) else set()
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.FloorDiv | ast.Add):
        left, right = (whole(side, known, depth + 1) for side in (node.left, node.right))
        if len(left) * len(right) > MOST_SIZES:
            return set()
        pairs = [(a, b) for a in left for b in right]
        if isinstance(node.op, ast.FloorDiv):
            return {a // b for a, b in pairs if b}
        return {a * b if isinstance(node.op, ast.Mult) else a + b for a, b in pairs}
    return set()
