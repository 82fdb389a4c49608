"""Files that a line of a script writes, and which of them are its own."""

from __future__ import annotations

import ast
import re

from rewardrate.environments.speedrun.texts import UNKNOWN

SUFFIXES = frozenset({"", "pt", "pth", "npy", "npz", "json", "jsonl", "txt", "log", "csv", "md", "safetensors"})
RESERVED = ("stdout", "stderr", "train_gpt", "data", "model.pt", "model_")
TAKEN = re.compile(r"(stdout|stderr|train_gpt|data)(\W|$)|model(\.pt|_?[\d\0])")
OS_WRITING = re.compile(
    r"os\.(remove|unlink|rename|renames|replace|symlink|link|truncate|ftruncate|rmdir|removedirs|mkdir|makedirs|chmod"
    r"|mkfifo|mknod|utime)"
)
DESCRIPTORS = re.compile(r"os\.(p?writev?|sendfile|copy_file_range|splice|f?open|fdopen|dup2?|pipe2?|close(range)?)")
"These write to, or exchange, files that are open already: standard output is one."
WRITING = frozenset({"tofile", "save", "savez", "savez_compressed", "savetxt", "save_file"})
ON_PATHS = frozenset({"unlink", "rename", "touch", "rmdir", "mkdir", "chmod"})  # methods of a Path, and of os


def written(node: ast.Call, full: str) -> list[ast.expr] | None:
    """What a call writes, makes or removes: its paths, none where they cannot be told.

    `full` is the name of what is called. None for a call that does nothing of the kind.
    """
    last, everything = full.rpartition(".")[2], [*node.args, *(word.value for word in node.keywords)]
    receiver = [node.func.value] if isinstance(node.func, ast.Attribute) else []
    if DESCRIPTORS.fullmatch(full):
        return []
    if OS_WRITING.fullmatch(full):
        return [one for one in node.args if not isinstance(one, ast.Constant) or isinstance(one.value, str | bytes)]
    if full == "torch.save":
        return everything[1:2]
    if last == "open" and node.args and isinstance(node.args[0], ast.Constant) and type(node.args[0].value) is int:
        return []  # a descriptor, which no name belongs to
    if last == "open" and full in ("open", "io.open", "codecs.open"):
        return _opened(node, 1, node.args[:1])
    if last == "open":
        return _opened(node, 0, receiver)
    if last == "memmap":
        return _opened(node, 2, [])
    if last in ("write_bytes", "write_text", "symlink_to", "hardlink_to"):
        return receiver
    if last in WRITING:
        return everything[:1]
    if last in ON_PATHS or (last == "replace" and len(everything) == 1):  # text.replace takes two
        return receiver + (node.args[:1] if last in ("rename", "replace") else [])
    return None


def _opened(node: ast.Call, place: int, paths: list[ast.expr]) -> list[ast.expr] | None:
    """The paths of a file that is opened to be written; none of them where it may be read too, or the mode is unknown.

    None for a file that is only read.
    """
    modes = [*node.args[place : place + 1], *(word.value for word in node.keywords if word.arg in ("mode", None))]
    for mode in modes:
        if not isinstance(mode, ast.Constant) or not isinstance(mode.value, str) or set(mode.value) & set("+c"):
            return []
        if set(mode.value) & set("wax"):
            return paths
    return None


def own_file(path: str) -> bool:
    """Whether a path (UNKNOWN in it or not) is certainly a file of the script's own, that nothing else reads.

    Relative, below the attempt's folder, named in its first part, of a kind that is data; not the log, the saved models
    that the referee takes, the shards or the script. What is unknown counts as a number: it cannot hold a slash.
    """
    path = path.removeprefix("./")
    head, last = path.split("/")[0], path.rpartition("/")[2]
    first = head.partition(UNKNOWN)[0]
    if not first or first in (".", "~") or first.startswith("~") or ".." in path.split("/") or last.endswith(UNKNOWN):
        return False
    if TAKEN.match(head) or (UNKNOWN in head and any(name.startswith(first) for name in RESERVED)):
        return False
    return last.rpartition(".")[2] in SUFFIXES if "." in last else bool(last)
