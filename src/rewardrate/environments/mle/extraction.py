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
Lines end in a line feed. Every reply is answered in less than two seconds: of a longer one the last 500,000 characters
are read, of these 200,000 as code, and a script of more than 100,000, or one that Python would take long to compile, is
refused.
"""

from __future__ import annotations

import ast
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

from rewardrate.environments.mle.names import Names, names_of
from rewardrate.environments.mle.programs import LONGEST_SCRIPT, MOST_STEPS, does_something, too_long, weighed
from rewardrate.errors import InputError

LONGEST_REPLY = 500_000  # characters; the script stands at the end
PATIENCE = 200_000  # characters of code that are read in one reply: the same ones may have to be read several times
SMALLEST_READING = 50  # characters that a shorter block counts for
MOST_BLOCKS = 100  # scripts that are weighed against each other, from the end
MOST_VERSIONS = 10  # of which so many may turn out to miss names

REMEDY = "put the whole script into one ```python block"
PYTHON_TAG = re.compile(r"(?:i?python|py)[\d.]*|code|tool_code|[\w./-]*\.py", re.IGNORECASE)
OPENING = re.compile(r"([ \t]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)?)(`{3,}|~{3,})(.*)", re.DOTALL)
THINK_TAG = re.compile(r"<(/?)think(?:ing)?>", re.IGNORECASE)


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
    text = reply.replace("\r\n", "\n").replace("\r", "\n")[-LONGEST_REPLY:]
    visible, cut_in_thought = _without_thoughts(text)
    reader = _ReplyParser()
    for whole in (text, visible):
        for code in (whole.strip("\n") + "\n", whole.strip() + "\n"):
            tree = reader.tree(code)
            if isinstance(tree, ast.Module) and does_something(tree):
                return Extraction(code, "", "")
    lines = visible.split("\n")
    blocks = list(_blocks(lines, reader, loose=False))
    found = _decision(blocks, reader)
    if isinstance(found, str):
        second = _decision(list(_blocks(lines, reader, loose=True)), reader)
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


class _ReplyParser:
    """Parses code for one reply: the same text once, and within limits for all of it together."""

    def __init__(self) -> None:
        self._left, self._steps = PATIENCE, MOST_STEPS
        self._known: dict[str, ast.Module | str] = {}
        self._names: dict[str, Names] = {}

    def tree(self, code: str) -> ast.Module | str:
        """The syntax tree of code that compiles; else why it does not, or that too much was read already."""
        if code in self._known:
            return self._known[code]
        if len(code) <= LONGEST_SCRIPT:  # a longer one is refused unread
            if self._left < len(code):
                return f"there are more than {PATIENCE} characters of code to read"
            self._left -= max(SMALLEST_READING, len(code))
        tree, steps = weighed(code, self._steps)
        self._steps -= steps
        self._known[code] = tree
        return tree

    def names(self, code: str, tree: ast.Module) -> Names | None:
        """The names of a program; None for one that does nothing."""
        if code not in self._names and does_something(tree):
            self._names[code] = names_of(tree)
        return self._names.get(code)


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
    names: Names | None = None  # present exactly when the block can be a script

    @property
    def is_python(self) -> bool:
        return PYTHON_TAG.fullmatch(self.tag) is not None

    @cached_property
    def missing(self) -> set[str]:
        """Names that another block must bind."""
        return self.names.missing() if self.names is not None else set()

    @cached_property
    def statements(self) -> set[str]:
        """Its lines, without indentation, comments and blank ones."""
        lines = (line.strip() for line in self.code.split("\n"))
        return {line for line in lines if line and not line.startswith("#")}


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


def _blocks(lines: list[str], reader: _ReplyParser, *, loose: bool) -> Iterator[_Block]:
    """The fenced blocks from top to bottom; `loose` also takes fences that share a line with other text."""
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
        block = _read(lines=lines, opened=opened, end=end, tag=tag, indent=indent, fence=fence, reader=reader)
        longer, last = block, end
        while "unterminated triple-quoted" in longer.error and last < len(lines):
            last = _closing_after_string(lines, last, fence)
            longer = _read(lines=lines, opened=opened, end=last, tag=tag, indent=indent, fence=fence, reader=reader)
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


def _read(lines: list[str], opened: int, end: int, tag: str, indent: str, fence: str, reader: _ReplyParser) -> _Block:
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
    if (size := sum(map(len, body)) + len(body)) > 2 * LONGEST_SCRIPT:  # whatever its margin
        block.error = too_long(size)
        return block
    block.code = "".join(line + "\n" for line in _without_margin(body))
    tree = reader.tree(block.code)
    if isinstance(tree, str) and indent:  # a string may reach further left than the fence
        space = re.compile(rf"[ \t]{{0,{len(indent)}}}")
        looser = "".join(space.sub("", line, count=1) + "\n" for line in body)
        if not isinstance(second := reader.tree(looser), str):
            block.code, tree = looser, second
    if isinstance(tree, str):
        block.error = tree
    else:
        block.names = reader.names(block.code, tree)
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


# ---------------------------------------------------------------- which blocks are the script


def _decision(blocks: list[_Block], reader: _ReplyParser) -> list[_Block] | str:
    """The blocks that are the script, in order; or the sentence that says why there is none."""
    scripts = [block for block in blocks if block.names is not None][-MOST_BLOCKS:]
    broken = [block for block in blocks if block.error and (block.is_python or not scripts)]
    if scripts:
        parts, whole, writes = _final_version(scripts, reader)
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


def _final_version(scripts: list[_Block], reader: _ReplyParser) -> tuple[list[_Block], bool, bool]:
    """The parts of the last script that misses no name (else of the last), whether that is so, whether it writes."""
    writers: set[str] = set()
    providers: dict[str, list[int]] = {}
    ends, calling = [], []
    for place, block in enumerate(scripts):
        names = block.names or Names()
        for _ in range(2):  # a function may call one that is defined below it
            writers |= {each.name for each in names.functions if each.name and (each.writes or each.needs & writers)}
        if names.writes or names.used & writers:
            ends.append(place)
        if names.calls:
            calling.append(place)
        for name in names.bound:
            providers.setdefault(name, []).append(place)
    second: list[_Block] = []
    for last in list(reversed(ends or calling or range(len(scripts))))[:MOST_VERSIONS]:
        parts, whole = _parts(scripts, providers, last, reader)
        if parts[-1] is not scripts[last]:
            continue  # an excerpt of the part before it
        if whole:
            return parts, True, bool(ends)
        second = second or parts
    return second or [scripts[-1]], False, bool(ends)


def _parts(
    scripts: list[_Block], providers: dict[str, list[int]], last: int, reader: _ReplyParser
) -> tuple[list[_Block], bool]:
    """The script that ends with block `last`: with the blocks it needs, and those between that use their names."""
    missing = [block.missing for block in scripts[: last + 1]]
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
        if not parts or not scripts[place].statements <= parts[-1].statements:
            parts.append(scripts[place])
    star = any(part.names is not None and part.names.star for part in parts)
    if len(parts) > 1 and isinstance(reader.tree("".join(part.code for part in parts)), str):
        return [scripts[last]], False
    return parts, star or not lost


def _first(providers: dict[str, list[int]], start: int) -> Callable[[str], int]:
    """The first block from `start` on that binds a name; -1 for a name that none binds."""

    def first(name: str) -> int:
        places = providers.get(name, [])
        at = bisect_left(places, start)
        return places[at] if at < len(places) else -1

    return first
