"""The script that a language model's reply means, and the plan written before it.

Rules, in order:

1. A reply that is itself a program is the script.
2. `<think>` parts are dropped, drafts included; one that never ends is dropped to the end of the reply.
3. Fenced blocks are read as in CommonMark, at any indentation. A closing fence inside a triple-quoted string does not
   close the block if the longer reading compiles.
4. Only blocks tagged as Python, or not tagged, can be scripts, and only if they compile and do something.
5. Of several, the last one that writes a file (itself, or by calling a function that does) is the final version. Names
   that it uses and does not bind are looked for in the blocks before it, nearest first; where there are any, the parts
   are joined in order. A block that only repeats lines of the script is an excerpt and adds nothing.

The code is the text of the block or blocks, character for character, without the indentation that their lines share.
Lines end in a line feed. Time is linear in the reply; a block of more than a million characters is not read.
"""

from __future__ import annotations

import ast
import builtins
import re
import threading
import warnings
from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rewardrate.errors import InputError

LONGEST_SCRIPT = 1_000_000  # characters; a syntax tree costs hundreds of bytes for each
PATIENCE = 1_000_000  # characters that may be read again to find the end of a block whose strings hold fences
MOST_BLOCKS = 100  # scripts that are weighed against each other, from the end

REMEDY = "put the whole script into one ```python block"
PYTHON_TAG = re.compile(r"(?:i?python|py)[\d.]*|code|tool_code|[\w./-]*\.py", re.IGNORECASE)
OPENING = re.compile(r"([ \t]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)?)(`{3,}|~{3,})(.*)", re.DOTALL)
THINK_TAG = re.compile(r"<(/?)think(?:ing)?>", re.IGNORECASE)
WRITING_CALLS = frozenset(
    ("to_csv", "write_csv", "sink_csv", "savetxt", "writerow", "writerows", "write", "writelines", "write_text")
)
KNOWN_NAMES = frozenset(dir(builtins)) | {"__file__", "__doc__", "__annotations__"}
_FILTERS = threading.Lock()  # the warning filters belong to the whole process


@dataclass(frozen=True)
class Extraction:
    """What a reply holds: the script, or one sentence that tells the model why there is none."""

    code: str | None
    plan: str
    "The text before the code; all of the text when there is no code."
    problem: str
    "Empty when there is code."


def extract(reply: str) -> Extraction:
    """The script of a reply, by the rules of this module. It compiles and does something, or it is None."""
    if not isinstance(reply, str):
        raise InputError("reply", reply, "must be text", "decode the tokens first")
    text = reply.replace("\r\n", "\n").replace("\r", "\n")
    visible, cut_in_thought = _without_thoughts(text)
    for whole in (text, visible):
        for code in (whole.strip("\n") + "\n", whole.strip() + "\n"):
            tree = parsed(code)
            if isinstance(tree, ast.Module) and _does_something(tree):
                return Extraction(code, "", "")
    lines = visible.split("\n")
    blocks = list(_blocks(lines, loose=False))
    found = _decision(blocks)
    if isinstance(found, str):
        second = _decision(list(_blocks(lines, loose=True)))
        if not isinstance(second, str):
            found = second
        elif cut_in_thought and not blocks:
            found = "The reply ended inside its <think> part, before any script: think less, then " + REMEDY + "."
        elif not visible.strip():
            found = "The reply is empty: " + REMEDY + "."
    if isinstance(found, str):
        return Extraction(None, visible.strip(), found)
    code = "".join(block.code for block in found)
    return Extraction(code, "\n".join(lines[: found[0].opened]).strip(), "")


def _without_thoughts(text: str) -> tuple[str, bool]:
    """The text outside `<think>` parts, and whether the last of them was still open at the end.

    A tag inside a fenced block is text of the script. An end without a beginning ends a thought that the prompt began.
    """
    if "<think" not in (lowered := text.lower()) and "</think" not in lowered:
        return text, False
    kept: list[str] = []
    thinking = seen = False
    fence = ""
    for line in text.split("\n"):
        if fence:
            kept.append(line)
            if _closes(line, fence):
                fence = ""
            elif not seen and THINK_TAG.fullmatch(line.strip()) and "</" in line:
                kept, fence, seen = [], "", True
            continue
        rest, start = "", 0
        whole = not thinking
        for tag in THINK_TAG.finditer(line):
            if line[max(0, tag.start() - 1) : tag.start()] == "`":
                continue
            if tag.group(1) and not thinking and not seen:
                kept, rest = [], ""
            elif not tag.group(1) and not thinking:
                rest += line[start : tag.start()]
            thinking, seen, start = not tag.group(1), True, tag.end()
        rest += "" if thinking else line[start:]
        if whole or rest:
            kept.append(rest)
        if not thinking and (opening := _opening(rest)):
            fence = opening[1]
    return "\n".join(kept), thinking


# ---------------------------------------------------------------- fences


@dataclass
class _Block:
    """One fenced block: where it stands, what it holds, and why it is no script if it is none."""

    opened: int
    tag: str
    closed: bool
    code: str = ""
    error: str = ""
    names: _Names | None = None  # present exactly when the block can be a script

    @property
    def is_python(self) -> bool:
        return PYTHON_TAG.fullmatch(self.tag) is not None


def _opening(line: str) -> tuple[str, str, str] | None:
    """Indentation, marks and info string of an opening fence."""
    match = OPENING.match(line)
    if match is None or (match[2][0] == "`" and "`" in match[3]):
        return None
    return match[1], match[2], match[3].strip()


def _loose_opening(line: str) -> tuple[str, str, str] | None:
    """A fence at the end of a line of prose: `Here it is: ```python`."""
    head, mark, tag = line.rpartition("```")
    if mark and PYTHON_TAG.fullmatch(tag.strip()) and not head.endswith("`"):
        return "", mark, tag.strip()
    return None


def _closes(line: str, fence: str) -> bool:
    marks = line.strip(" \t")
    return len(marks) >= len(fence) and marks == fence[0] * len(marks)


def _blocks(lines: list[str], *, loose: bool) -> Iterator[_Block]:
    """The fenced blocks from top to bottom; `loose` also takes fences that share a line with other text."""
    patience = PATIENCE
    at = 0
    while at < len(lines):
        opening = _opening(lines[at]) or (_loose_opening(lines[at]) if loose else None)
        opened, at = at, at + 1
        if opening is None:
            continue
        indent, fence, info = opening
        words = re.sub(r"[{}:,=]", " ", info).split()
        tag = words[0].lstrip(".") if words else ""
        if fence == "```" and tag.lower() in ("markdown", "md"):
            continue  # a reply wrapped whole in a markdown block: the fences inside it are the real ones
        end = _closing(lines, at, fence, loose)
        block = _read(lines, opened, end, tag, indent, fence)
        longer, last = block, end
        while "unterminated triple-quoted" in longer.error and last < len(lines) and patience > 0:
            last = _closing_after_string(lines, last, fence)
            patience -= sum(len(line) + 1 for line in lines[opened:last])
            longer = _read(lines, opened, last, tag, indent, fence)
        if not longer.error:
            block, end = longer, last
        yield block
        at = end + 1


def _closing(lines: list[str], at: int, fence: str, loose: bool) -> int:
    """The first line from `at` that closes the fence; the number of lines when none does."""
    while at < len(lines) and not (_closes(lines[at], fence) or (loose and lines[at].rstrip().endswith(fence))):
        at += 1
    return at


def _closing_after_string(lines: list[str], at: int, fence: str) -> int:
    """The first closing fence after the next triple quote: those before it stand in the same string."""
    while at < len(lines) and '"""' not in lines[at] and "'''" not in lines[at]:
        at += 1
    return _closing(lines, at + 1, fence, loose=False) if at < len(lines) else at


def _read(lines: list[str], opened: int, end: int, tag: str, indent: str, fence: str) -> _Block:
    """The block between two fences, compiled and looked through if it can be a script."""
    block = _Block(opened, tag, closed=end < len(lines))
    if tag and not block.is_python:
        return block
    body = lines[opened + 1 : end]
    if block.closed and not _closes(lines[end], fence):
        body.append(lines[end].rstrip().rstrip(fence[0]))
    if not block.closed and body and not body[-1]:
        body.pop()  # what follows the last line feed is no line
    if not any(line.strip() for line in body):
        return block
    block.code = "".join(line + "\n" for line in _without_margin(body))
    tree = parsed(block.code)
    if isinstance(tree, str) and indent:  # a string may reach further left than the fence
        space = re.compile(rf"[ \t]{{0,{len(indent)}}}")
        looser = "".join(space.sub("", line, count=1) + "\n" for line in body)
        if not isinstance(second := parsed(looser), str):
            block.code, tree = looser, second
    if isinstance(tree, str):
        block.error = tree
    elif _does_something(tree):
        block.names = _names(tree)
    return block


def _without_margin(body: list[str]) -> list[str]:
    """The lines without the white space that all of them begin with; lines of white space do not count."""
    margin: str | None = None
    for line in body:
        if line.strip():
            space = line[: len(line) - len(line.lstrip(" \t"))]
            margin = space if margin is None else margin[: _shared(margin, space)]
            if not margin:
                return body
    margin = margin or ""
    return [line.removeprefix(margin) if line.strip() else line[len(margin) :] for line in body]


def _shared(first: str, second: str) -> int:
    size = min(len(first), len(second))
    return next((place for place in range(size) if first[place] != second[place]), size)


# ---------------------------------------------------------------- programs


@contextmanager
def quiet() -> Iterator[None]:
    """Without the warnings that Python has for a script's source."""
    with _FILTERS, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def parsed(code: str) -> ast.Module | str:
    """The syntax tree of code that compiles; else why it does not, in a few words."""
    if len(code) > LONGEST_SCRIPT:
        return f"it has {len(code)} characters, more than {LONGEST_SCRIPT}"
    try:
        with quiet():
            tree = ast.parse(code)
            compile(tree, "<reply>", "exec", dont_inherit=True)
    except SyntaxError as error:
        return f"line {error.lineno or 1}: {' '.join(str(error.msg).split())}"
    except (RecursionError, MemoryError):
        return "it is nested too deeply"
    except (ValueError, OverflowError, SystemError):
        return "it holds a NUL byte" if "\0" in code else "it holds characters that are not valid text"
    return tree


def _does_something(tree: ast.Module) -> bool:
    """False for what compiles by chance: names, tuples, constants, `label: value`, a lone keyword."""
    idle = (ast.Expr, ast.Pass, ast.Assert, ast.Raise, ast.Delete, ast.Global, ast.AnnAssign)
    for statement in tree.body:
        if not isinstance(statement, idle) or (isinstance(statement, ast.AnnAssign) and statement.value):
            return True
        if any(isinstance(node, ast.Call | ast.Await | ast.NamedExpr) for node in ast.walk(statement)):
            return True
    return False


class _Names:
    """Which names a scope binds, needs at once and needs later (in functions), met in the order of execution."""

    def __init__(self) -> None:
        self.bound: set[str] = set()
        self.used: set[str] = set()
        self.needed: set[str] = set()  # used before they are bound
        self.later: set[str] = set()
        self.star = False  # `from x import *` may bind anything
        self.calls = self.writes = False  # at once, not inside a function
        self.functions: list[tuple[str, bool, set[str]]] = []  # name, whether it writes, what it needs

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
                case ast.For() | ast.AsyncFor():
                    self.visit(node.iter, node.target, *node.body, *node.orelse)
                case ast.Import() | ast.ImportFrom():
                    self.star |= any(alias.name == "*" for alias in node.names)
                    self.bound |= {alias.asname or alias.name.partition(".")[0] for alias in node.names}
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
        self.visit(*arguments.defaults, *arguments.kw_defaults)
        inner = _Names()
        inner.bound |= {node.arg for node in ast.walk(arguments) if isinstance(node, ast.arg)}
        inner.visit(*body)
        shared = {
            name for part in body for node in ast.walk(part) if isinstance(node, ast.Global) for name in node.names
        }
        free = (inner.needed | inner.later) - (inner.bound - shared)
        self.bound |= inner.bound & shared
        self.later |= free
        self.functions.append((name, inner.writes or any(row[1] for row in inner.functions), free))

    def _class(self, node: ast.ClassDef) -> None:
        self.visit(*node.decorator_list, *node.bases, *node.keywords)
        inner = _Names()
        inner.visit(*node.body)
        self.use(inner.needed)
        self.later |= inner.later
        self.functions.append((node.name, any(row[1] for row in inner.functions), inner.later))
        self.bound.add(node.name)

    def _comprehension(
        self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp, *body: ast.AST
    ) -> None:
        inner = _Names()
        for loop in node.generators:
            inner.visit(loop.iter, loop.target, *loop.ifs)
        inner.visit(*body)
        self.use(inner.needed)
        self.later |= inner.later - inner.bound
        self.calls |= inner.calls
        self.writes |= inner.writes
        self.bound |= {named.target.id for named in ast.walk(node) if isinstance(named, ast.NamedExpr)}


def _writing(call: ast.Call) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    modes = [*call.args[1:2], *(word.value for word in call.keywords if word.arg == "mode")]
    opens = name == "open" and any(isinstance(mode, ast.Constant) and "r" not in str(mode.value) for mode in modes)
    return opens or name in WRITING_CALLS


def writes(statement: ast.AST) -> bool:
    """Whether code writes a file, or defines a function that does."""
    return any(isinstance(node, ast.Call) and _writing(node) for node in ast.walk(statement))


def _names(tree: ast.Module) -> _Names:
    names = _Names()
    try:
        names.visit(tree)
    except RecursionError:
        return _Names()  # too deep to follow: it stands alone
    return names


# ---------------------------------------------------------------- which blocks are the script


def _decision(blocks: list[_Block]) -> list[_Block] | str:
    """The blocks that are the script, in order; or the sentence that says why there is none."""
    scripts = [block for block in blocks if block.names is not None][-MOST_BLOCKS:]
    broken = [block for block in blocks if block.error and (block.is_python or not scripts)]
    if scripts:
        parts, whole, writes = _final_version(scripts)
        # A script that writes stands, whatever follows. Otherwise a broken block is the one that mattered, if it
        # comes later or may have bound the names that the script misses.
        broken = [] if writes else [block for block in broken if not whole or block.opened > parts[-1].opened]
        if not broken:
            return parts
    if not broken:
        return f"The reply holds no Python script: {REMEDY}."
    worst = max(broken, key=lambda block: (block.is_python, block.opened))
    if not worst.closed:
        return f"The reply was cut before its script ended ({worst.error}): write a shorter one and {REMEDY}."
    return f"The script does not compile ({worst.error}): correct it and {REMEDY}."


def _final_version(scripts: list[_Block]) -> tuple[list[_Block], bool, bool]:
    """The parts of the last script that misses no name (else of the last), whether that is so, whether it writes."""
    writers: set[str] = set()
    providers: dict[str, list[int]] = {}
    ends, calling = [], []
    for place, block in enumerate(scripts):
        names = block.names or _Names()
        for _ in range(2):  # a function may call one that is defined below it
            writers |= {name for name, writes, needs in names.functions if name and (writes or needs & writers)}
        if names.writes or names.used & writers:
            ends.append(place)
        if names.calls:
            calling.append(place)
        for name in names.bound:
            providers.setdefault(name, []).append(place)
    second: list[_Block] = []
    for last in reversed(ends or calling or range(len(scripts))):
        parts, whole = _parts(scripts, providers, last)
        if parts[-1] is not scripts[last]:
            continue  # an excerpt of the part before it
        if whole:
            return parts, True, bool(ends)
        second = second or parts
    return second or [scripts[-1]], False, bool(ends)


def _parts(scripts: list[_Block], providers: dict[str, list[int]], last: int) -> tuple[list[_Block], bool]:
    """The script that ends with block `last`: with the blocks it needs, and those between that use their names."""
    missing = [(block.names or _Names()).missing() for block in scripts[: last + 1]]
    chosen, queue, lost = {last}, [last], False
    while queue:
        here = queue.pop()
        for name in missing[here]:
            before = providers.get(name, [])
            place = bisect_left(before, here) - 1
            lost |= place < 0
            if place >= 0 and before[place] not in chosen:
                chosen.add(before[place])
                queue.append(before[place])
    start = min(chosen)
    for here in range(start + 1, last):
        if missing[here] and all(start <= place < here for place in map(_first(providers, start), missing[here])):
            chosen.add(here)
    parts: list[_Block] = []
    for place in sorted(chosen):
        if not parts or not _statements(scripts[place]) <= _statements(parts[-1]):
            parts.append(scripts[place])
    star = any(part.names is not None and part.names.star for part in parts)
    if len(parts) > 1 and isinstance(parsed("".join(part.code for part in parts)), str):
        return [scripts[last]], False
    return parts, star or not lost


def _first(providers: dict[str, list[int]], start: int) -> Callable[[str], int]:
    """The first block from `start` on that binds a name; -1 for a name that none binds."""

    def first(name: str) -> int:
        places = providers.get(name, [])
        at = bisect_left(places, start)
        return places[at] if at < len(places) else -1

    return first


def _statements(block: _Block) -> set[str]:
    lines = (line.strip() for line in block.code.split("\n"))
    return {line for line in lines if line and not line.startswith("#")}
