"""Search-and-replace edits of a training script, and the terms on which they are accepted.

    <<<<<<< SEARCH
    lines of the parent, exactly as they stand there
    =======
    what they become
    >>>>>>> REPLACE

Every SEARCH must occur exactly once in the parent: blocks are applied together, so their order means nothing and no
block can match what another made. Each refusal has a name (`Reason`), which the docs list.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import Literal

from rewardrate.environments.changes import changed_lines
from rewardrate.environments.speedrun.normal_form import normal
from rewardrate.environments.speedrun.texts import text_of

Reason = Literal[
    "no-block",
    "broken-block",
    "too-many-blocks",
    "blank-search",
    "no-match",
    "several-matches",
    "overlap",
    "unchanged",
    "too-long",
    "syntax",
    "validation-touched",
]
OPEN, SPLIT, CLOSE = (re.compile(rule) for rule in (r"<{6,20} ?SEARCH\s*", r"={5,40}\s*", r">{6,20} ?REPLACE\s*"))
BLOCKS = 100
CHARACTERS = 400_000  # of the edited script; the longest record so far has a quarter of it
LOGGED = "val_loss"
BRANCH = (ast.stmt, ast.ExceptHandler, ast.match_case)  # what blocks of statements are made of


LONGEST_NUMBER = 4096  # bits: Python itself refuses to write out much longer ones


class EditRefused(ValueError):
    """An edit that is not accepted: its named reason, and a sentence that can be fed back to whoever wrote it."""

    def __init__(self, reason: Reason, words: str) -> None:
        super().__init__(words)
        self.reason: Reason = reason


@dataclass(frozen=True)
class Block:
    """One replacement."""

    search: str
    replace: str


@dataclass(frozen=True)
class Edited:
    """A script that came out of accepted edits."""

    code: str
    changed_lines: int


def opens(line: str) -> bool:
    """Whether a line begins an edit block."""
    return len(line) < 80 and OPEN.fullmatch(line) is not None


def closes(line: str) -> bool:
    """Whether a line ends one."""
    return len(line) < 80 and CLOSE.fullmatch(line) is not None


def blocks(text: str) -> list[Block]:
    """The edit blocks in a text, in order; words around them are not looked at. Raises EditRefused."""
    found: list[Block] = []
    search: list[str] | None = None
    replace: list[str] | None = None
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), start=1):
        if opens(line):
            if search is not None:
                raise EditRefused("broken-block", f"line {number}: a SEARCH begins inside another block")
            search, replace = [], None
        elif search is not None and replace is None and len(line) < 80 and SPLIT.fullmatch(line):
            replace = []
        elif closes(line):
            if search is None or replace is None:
                raise EditRefused(
                    "broken-block", f"line {number}: a REPLACE ends a block that has no SEARCH or ======="
                )
            found.append(Block("\n".join(search), "\n".join(replace)))
            search = replace = None
        elif search is not None:
            (search if replace is None else replace).append(line)
    if search is not None:
        raise EditRefused("broken-block", "the last block is not closed by >>>>>>> REPLACE")
    if not found:
        raise EditRefused("no-block", "there is no SEARCH/REPLACE block")
    if len(found) > BLOCKS:
        raise EditRefused("too-many-blocks", f"there are {len(found)} blocks, and at most {BLOCKS} are taken")
    return found


def apply(parent: str, text: str) -> Edited:
    """The parent with the edit blocks of `text` applied and accepted. Raises EditRefused with the first reason."""
    code = replaced(parent, blocks(text))
    check(parent, code)
    return Edited(code, changed_lines(parent, code))


def replaced(parent: str, found: list[Block]) -> str:
    """The parent with all blocks replaced at once; each must match exactly once, and none may overlap another."""
    places = sorted((_place(parent, block, number), number) for number, block in enumerate(found, start=1))
    pieces: list[str] = []
    end = 0
    for start, number in places:
        if start < end:
            raise EditRefused("overlap", f"block {number} touches text that another block replaces")
        block = found[number - 1]
        pieces += [parent[end:start], block.replace]
        end = start + len(block.search)
    return "".join([*pieces, parent[end:]])


def _place(parent: str, block: Block, number: int) -> int:
    if not block.search.strip():
        raise EditRefused("blank-search", f"block {number}: its SEARCH is blank")
    start = parent.find(block.search)
    shown = block.search.strip().splitlines()[0][:80]
    if start < 0:
        raise EditRefused("no-match", f"block {number}: its SEARCH (`{shown}`) does not occur in the script")
    if parent.find(block.search, start + 1) >= 0:
        raise EditRefused("several-matches", f"block {number}: its SEARCH (`{shown}`) occurs more than once")
    return start


def check(parent: str, code: str) -> None:
    """Whether an edited script is accepted: it differs, parses, and logs its validation as its parent does."""
    if code.strip() == parent.strip():
        raise EditRefused("unchanged", "the edits change nothing")
    if len(code) > CHARACTERS:
        raise EditRefused("too-long", f"the script would have {len(code):,} characters; at most {CHARACTERS:,}")
    if logged(parse(code)) != logged(parse(parent)):
        words = f"the lines that print {LOGGED} must stay exactly as they are, and none may be added"
        raise EditRefused("validation-touched", words)


def parse(code: str) -> ast.Module:
    """The syntax tree without texts that stand alone (docstrings); EditRefused when the text is no Python.

    EditRefused too for one that cannot be read within bounds.
    """
    try:
        tree = ast.parse(code)
        deepest(tree)
        _without_docstrings(tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and type(node.value) is int and node.value.bit_length() > LONGEST_NUMBER:
                raise EditRefused("syntax", f"line {node.lineno} holds a number of thousands of digits")
    except SyntaxError as error:
        raise EditRefused("syntax", f"the edited script does not parse: {error.msg} (line {error.lineno})") from None
    except EditRefused:
        raise
    except (ValueError, RecursionError, MemoryError) as error:
        raise EditRefused("syntax", f"the edited script does not parse ({type(error).__name__})") from None
    return tree


def _without_docstrings(tree: ast.Module) -> None:
    for node in ast.walk(tree):
        for _, block in branches(node):
            kept = [one for one in block if not (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant))]
            block[:] = kept or [ast.Pass()]


def deepest(tree: ast.AST, most: int = 120) -> int:
    """How deep a tree is nested; RecursionError beyond `most`, so that nothing that walks it can run out of stack."""
    depth, level = 0, [tree]
    while level:
        depth += 1
        if depth > most:
            raise RecursionError
        level = [child for node in level for child in ast.iter_child_nodes(node)]
    return depth


def logged(tree: ast.Module) -> list[str]:
    """Every statement with the text `val_loss` in a string, however it is put together, with where it stands.

    Each is named by its source form and by the headers around it (which branch of which if, for, def), so neither the
    line nor the condition under which it is reached can change unseen.
    """
    found: list[str] = []
    stack: list[tuple[ast.AST, tuple[str, ...]]] = [(tree, ())]
    while stack:
        node, around = stack.pop()
        within = branches(node)
        header = [child for child in ast.iter_child_nodes(node) if not isinstance(child, BRANCH)]
        if isinstance(node, ast.stmt) and any(says(part) for part in (header if within else [node])):
            shown = " ".join(ast.unparse(part) for part in header) if within else ast.unparse(node)
            found.append(" / ".join((*around, shown)))
        for branch, children in reversed(within):
            mine = () if isinstance(node, ast.Module) else (f"{_header(node, header)} {branch}",)
            stack += [(child, (*around, *mine)) for child in reversed(children)]
    return found


def branches(node: ast.AST) -> list[tuple[str, list[ast.AST]]]:
    """The blocks of statements inside a compound statement, by name (body, orelse, ...); none for a simple one."""
    found = []
    for name, value in ast.iter_fields(node):
        if isinstance(value, list) and value and isinstance(value[0], BRANCH):
            found.append((name, value))
    return found


def _header(node: ast.AST, header: list[ast.AST]) -> str:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return f"{type(node).__name__} {node.name}"
    parts = [normal(part) if isinstance(part, ast.expr) else ast.unparse(part) for part in header]
    return f"{type(node).__name__} {' '.join(parts)}"


def says(node: ast.AST) -> bool:
    """Whether a text with `val_loss` stands inside a node."""
    parts = [part for part in ast.walk(node) if isinstance(part, ast.Constant | ast.JoinedStr | ast.BinOp)]
    return any(LOGGED in text_of(part) for part in parts)
