"""Which names a program binds and which it needs, and whether it writes a file: what joins the blocks of a reply."""

from __future__ import annotations

import ast
import builtins
from dataclasses import dataclass

WRITING_CALLS = frozenset(
    ("to_csv", "write_csv", "sink_csv", "savetxt", "writerow", "writerows", "write", "writelines", "write_text")
)
KNOWN_NAMES = frozenset(dir(builtins)) | {"__file__", "__doc__", "__annotations__"}
Comprehension = ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp


@dataclass(frozen=True)
class Function:
    """A function or class of a scope: what it is called, whether it writes a file, which names it takes from outside.

    The name of a lambda is empty. What a function needs is needed when it is called, not where it stands.
    """

    name: str
    writes: bool
    needs: set[str]


class Names:
    """Which names a scope binds, needs at once and needs later (in functions), met in the order of execution."""

    def __init__(self) -> None:
        self.bound: set[str] = set()
        self.used: set[str] = set()
        self.needed: set[str] = set()  # used before they are bound
        self.later: set[str] = set()
        self.shared: set[str] = set()  # declared global here or further in
        self.walrus: set[str] = set()  # bound by `:=`, which reaches out of a comprehension
        self.star = False  # `from x import *` may bind anything
        self.calls = self.writes = False  # at once, not inside a function
        self.functions: list[Function] = []

    def missing(self) -> set[str]:
        """Names that must come from outside this scope."""
        return (self.needed | (self.later - self.bound)) - KNOWN_NAMES

    def use(self, names: set[str]) -> None:
        """Meet names that are read."""
        self.used |= names
        self.needed |= names - self.bound

    def visit(self, *nodes: ast.AST | None) -> None:
        """Meet syntax trees in the order in which Python runs them, which is not always that of the text."""
        for node in nodes:
            match node:
                case None:
                    pass
                case ast.Name():
                    self.bound.add(node.id) if isinstance(node.ctx, ast.Store) else self.use({node.id})
                case ast.Assign():
                    self.visit(node.value, *node.targets)
                case ast.AugAssign():
                    self.use({node.target.id} if isinstance(node.target, ast.Name) else set())
                    self.visit(node.value, node.target)
                case ast.AnnAssign():
                    self.visit(node.annotation, node.value, node.target if node.value else None)
                case ast.NamedExpr():
                    self.visit(node.value, node.target)
                    self.walrus.add(node.target.id)
                case ast.For() | ast.AsyncFor():
                    self.visit(node.iter, node.target, *node.body, *node.orelse)
                case ast.Import() | ast.ImportFrom():
                    self.star |= any(alias.name == "*" for alias in node.names)
                    self.bound |= {alias.asname or alias.name.partition(".")[0] for alias in node.names}
                case ast.Global():
                    self.shared |= set(node.names)
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    self.visit(*node.decorator_list, node.returns)
                    self._function(node.name, node.args, *node.body)
                    self.bound.add(node.name)
                case ast.Lambda():
                    self._function("", node.args, node.body)
                case ast.ClassDef():
                    self._class(node)
                case ast.ListComp() | ast.SetComp() | ast.GeneratorExp():
                    self._comprehension(node, node.elt)
                case ast.DictComp():
                    self._comprehension(node, node.key, node.value)
                case _:
                    self._other(node)

    def _other(self, node: ast.AST) -> None:
        name = getattr(node, "rest" if isinstance(node, ast.MatchMapping) else "name", None)
        if isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar | ast.MatchMapping) and name:
            self.bound.add(name)
        if isinstance(node, ast.Call):
            self.calls = True
            self.writes |= _writing(node)
        self.visit(*ast.iter_child_nodes(node))

    def _function(self, name: str, arguments: ast.arguments, *body: ast.AST) -> None:
        optional = [argument for argument in (arguments.vararg, arguments.kwarg) if argument is not None]
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *optional]
        self.visit(*arguments.defaults, *arguments.kw_defaults, *(argument.annotation for argument in every))
        inner = Names()
        inner.bound |= {argument.arg for argument in every}
        inner.visit(*body)
        free = (inner.needed | inner.later) - (inner.bound - inner.shared)
        self._publish(inner)
        self.later |= free
        self.functions.append(Function(name, inner.writes or any(each.writes for each in inner.functions), free))

    def _class(self, node: ast.ClassDef) -> None:
        self.visit(*node.decorator_list, *node.bases, *node.keywords)
        inner = Names()
        inner.visit(*node.body)
        self._publish(inner)
        self.use(inner.needed)
        self.later |= inner.later
        self.functions.append(Function(node.name, any(each.writes for each in inner.functions), inner.later))
        self.bound.add(node.name)

    def _publish(self, inner: Names) -> None:
        """What an inner scope binds under `global` is bound out here."""
        self.bound |= inner.bound & inner.shared
        self.shared |= inner.shared

    def _comprehension(self, node: Comprehension, *body: ast.AST) -> None:
        inner = Names()
        for loop in node.generators:
            inner.visit(loop.iter, loop.target, *loop.ifs)
        inner.visit(*body)
        self.use(inner.needed)
        self.later |= inner.later - inner.bound
        self.calls |= inner.calls
        self.writes |= inner.writes
        self.bound |= inner.walrus
        self.walrus |= inner.walrus


def names_of(tree: ast.Module) -> Names:
    """The names of a whole program; of one that is nested too deeply to follow, none."""
    names = Names()
    try:
        names.visit(tree)
    except RecursionError:
        return Names()
    return names


def writes(statement: ast.AST) -> bool:
    """Whether code writes a file, or defines a function that does."""
    return any(isinstance(node, ast.Call) and _writing(node) for node in ast.walk(statement))


def _writing(call: ast.Call) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    modes = [*call.args[1:2], *(word.value for word in call.keywords if word.arg == "mode")]
    known = [mode.value for mode in modes if isinstance(mode, ast.Constant)]
    opens = name == "open" and any(isinstance(mode, str) and "r" not in mode for mode in known)
    return opens or name in WRITING_CALLS
