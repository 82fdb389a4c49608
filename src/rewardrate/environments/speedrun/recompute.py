"""The referee's own computation of a loss from a saved model: this file is sent into a box of its own and run there.

The model is a TorchScript program, made by tracing: straight-line tensor operations and numbers, none of the script's
Python. The program is given token sequences and returns logits; targets, softmax, sums and the comparison of runs are
ours. Standard library and torch only; torch is imported where it is used, and nothing of this package is.
"""

from __future__ import annotations

import io
import json
import os
import struct
import zipfile
import zlib
from collections.abc import Iterator
from typing import Any

REQUEST = "request.json"
PRIM = {
    "Constant",
    "DictConstruct",
    "GetAttr",
    "ListConstruct",
    "ListUnpack",
    "NumToTensor",
    "TupleConstruct",
    "TupleIndex",
    "TupleUnpack",
    "device",
    "dtype",
    "layout",
}
REFUSED = {
    "backward",
    "from_file",
    "grad",
    "manual_seed",
    "requires_grad_",
    "save",
    "seed",
    "set",
    "set_",
    "set_data",
    "set_grad_enabled",
    "warn",
}
REFUSED_PARTS = ("empty", "resize", "_unsafe_")  # memory that was not written by the program may hold what others freed
HOOKS = (b"__setstate__", b"__forward_hooks__", b"__forward_pre_hooks__")
MOST_TOKENS = 2**20  # of one call
REPEAT_TOLERANCE = 1e-3


class Refused(ValueError):
    """The saved model breaks a rule."""


def main() -> None:
    """Carry out request.json and write the answer to the file that it names."""
    with open(REQUEST, encoding="utf-8") as file:
        request = json.load(file)
    failure = _unfit(request["device"])
    answer: Any = {"failure": failure} if failure else [_answer(request, check) for check in request["checks"]]
    with open(request["answer"], "w", encoding="utf-8") as file:
        json.dump(answer, file)


def _unfit(device: str) -> str:
    """Why this box cannot evaluate any model, before it has looked at one; empty when it can."""
    import torch

    if hasattr(torch._C, "_jit_set_texpr_fuser_enabled"):
        torch._C._jit_set_texpr_fuser_enabled(False)  # compiles kernels for a single pass
    try:
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError) as error:
        return f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[-1][:300]}"
    return ""


def _answer(request: dict[str, Any], check: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"problem": ""}
    try:
        _fill(found, request, check)
    except Refused as error:
        found["problem"] = str(error)
    except (RuntimeError, ValueError, IndexError, TypeError, AttributeError, OSError, MemoryError) as error:
        lines = str(error).strip().splitlines() or [""]
        found["problem"] = f"the saved model does not run: {type(error).__name__}: {lines[-1][:300]}"
    return found


def _fill(found: dict[str, Any], request: dict[str, Any], check: dict[str, Any]) -> None:
    model = Model(os.path.join("data", "models", check["file"]), request["device"])
    found["step"] = model.step
    count = request["tokens"]
    if count % model.length:
        raise Refused(f"sequences of {model.length} tokens do not divide the {count:,} validation tokens")
    tokens = read_tokens(request["open"])
    found["open_loss"] = model.loss(tokens, count, request["seed"])
    if check["final"]:
        if request["hidden"]:
            tokens = read_tokens(request["hidden"])
            found["hidden_loss"] = model.loss(tokens, count, request["seed"])
        found["leak"] = model.leak(tokens, count, request["probes"], request["seed"])
    found["drift"] = model.drift()


class Model:
    """A saved program and the shape it was traced for."""

    def __init__(self, path: str, device: str) -> None:
        import torch

        torch.set_grad_enabled(False)
        self._torch, self.device = torch, torch.device(device)
        extra = {"shape": "", "step": ""}
        load: Any = torch.jit.load
        self.program = load(rewritten(path), map_location=self.device, _extra_files=extra)
        self.batch, self.length = shape_of(_word(extra["shape"]))
        step = _word(extra["step"])
        self.step = int(step) if step.isdigit() and len(step) < 12 else -1
        operations(self.program.inlined_graph)
        forgetful(self.program.inlined_graph)
        self._first: Any = None
        self._scored: Any = None

    def loss(self, tokens: Any, count: int, seed: int) -> float:
        """Mean cross-entropy over exactly `count` tokens, in windows of the model's length."""
        self._scored = (tokens, count, self._score(tokens, count, seed))
        return float(-self._scored[2].double().sum()) / count

    def _score(self, tokens: Any, count: int, seed: int) -> Any:
        """Log-probabilities of all targets, windows x positions.

        The windows come in an order of ours: a program could look up the last target of one window in the next.
        """
        inputs, targets = self._windows(tokens, count)
        found = self._torch.zeros(targets.shape, device=self.device)
        for part, real in self._calls(len(inputs), len(inputs), self._generator(seed)):
            found[part[:real].to(self.device)] = self._log_probability(inputs[part], targets[part])[:real]
        return found

    def leak(self, tokens: Any, count: int, probes: int, seed: int) -> float:
        """How far a prediction moves when only tokens after it are changed: the largest change over the probes.

        In every window a place is drawn; all tokens after it are replaced by those of another window, the next one
        certainly; predictions up to that place must be those that were scored. The place may lie before the first
        token (all are replaced) or be the last (none is), and the windows of a call are others than when they were
        scored: whoever looks at other windows of the call is then seen at every position.
        """
        torch = self._torch
        inputs, targets = self._windows(tokens, count)
        if self._scored is None or self._scored[0] is not tokens or self._scored[1] != count:
            self.loss(tokens, count, seed)
        before = self._scored[2]
        generator = self._generator(seed + 1)
        worst = 0.0
        for part, _ in self._calls(len(inputs), max(probes, 1), generator):
            place = torch.randint(-1, self.length, (len(part), 1), generator=generator)
            other = inputs[torch.randint(0, len(inputs), (len(part),), generator=generator)]
            position = torch.arange(self.length)[None]
            changed = torch.where(position > place, other, inputs[part])
            same = (changed == inputs[part]) & (position == place + 1)
            changed = torch.where(same, (changed + 1) % (int(tokens.max()) + 1), changed)
            after = self._log_probability(changed, targets[part])
            moved = (before[part.to(self.device)] - after).abs()
            worst = max(worst, float(torch.where((position <= place).to(self.device), moved, 0.0).max()))
        return worst

    def drift(self) -> float:
        """How far the answer to the first call has moved by now: a program must not learn while it is looked at."""
        if self._first is None:
            return 0.0
        inputs, targets, before = self._first
        return float((self._log_probability(inputs, targets) - before).abs().max())

    def _calls(self, windows: int, wanted: int, generator: Any) -> Iterator[tuple[Any, int]]:
        """The windows of each call, in an order of ours, until `wanted` have come; and how many of them are new.

        Where more are wanted than there are, they come again. A call is always full: where windows run out it goes on
        with the first ones. Otherwise a program could tell
        by the filling whether it is scored or probed, and look ahead only when it is scored.
        """
        order = self._torch.randperm(windows, generator=generator)
        for start in range(0, wanted, self.batch):
            yield order[(start + self._torch.arange(self.batch)) % windows], min(self.batch, max(0, windows - start))

    def _windows(self, tokens: Any, count: int) -> tuple[Any, Any]:
        inputs, targets = tokens[:count], tokens[1 : count + 1]
        return inputs.view(-1, self.length), targets.view(-1, self.length)

    def _generator(self, seed: int) -> Any:
        return self._torch.Generator().manual_seed(seed)

    def _log_probability(self, inputs: Any, targets: Any) -> Any:
        """Log-probability of every target, the softmax being ours."""
        torch = self._torch
        logits = self.program.forward(inputs.to(self.device))  # what was looked at, and no hook around it
        if not isinstance(logits, torch.Tensor) or logits.dim() != 3 or tuple(logits.shape[:2]) != tuple(inputs.shape):
            raise Refused("the saved model must return logits: sequences x positions x vocabulary")
        if logits.size(2) <= int(targets.max()):
            raise Refused(f"the saved model has {logits.size(2)} logits, and there are more tokens")
        found = torch.log_softmax(logits.float(), dim=-1).gather(2, targets.to(self.device)[..., None])[..., 0]
        if not bool(torch.isfinite(found).all()):
            raise Refused("the saved model returns numbers that are not finite")
        if self._first is None:
            self._first = (inputs, targets, found)
        return found


def read_tokens(paths: list[str]) -> Any:
    """The tokens of shards in their order, as a tensor."""
    import torch

    parts = []
    for path in paths:
        with open(path, "rb") as file:
            (count,) = struct.unpack_from("<i", file.read(1024), 8)
            parts.append(torch.frombuffer(bytearray(file.read(2 * count)), dtype=torch.uint16).to(torch.int64))
    return torch.cat(parts)


def shape_of(text: str) -> tuple[int, int]:
    """(sequences, positions) of one call, as the file states it."""
    words = text.split()
    if len(words) != 2 or not all(word.isdigit() and len(word) < 8 for word in words):
        raise Refused(f"its shape is {text[:40]!r}, and it must be two whole numbers")
    batch, length = map(int, words)
    if batch < 1 or length < 2 or batch * length > MOST_TOKENS:
        raise Refused(f"its shape is {batch} x {length}, and it must hold 2 to {MOST_TOKENS:,} tokens")
    return batch, length


def rewritten(path: str) -> io.BytesIO:
    """The archive written anew from what was looked at; refused with code that would run unseen.

    Two readers can find different files in one archive (two of one name, two directories): torch is given ours.
    """
    made = io.BytesIO()
    try:
        with zipfile.ZipFile(path) as given, zipfile.ZipFile(made, "w") as archive:
            names = given.namelist()
            if len(set(names)) < len(names):
                raise Refused("the saved model holds two files of one name")
            if not any("/code/" in name for name in names):
                raise Refused("the saved model is not a traced program")
            for name in names:
                content = given.read(name)
                if "/code/" in name and any(word in content for word in HOOKS):
                    raise Refused("the saved model runs code when it is loaded, or before or after it is called")
                archive.writestr(name, content)
    except (zipfile.BadZipFile, zlib.error, EOFError):
        raise Refused("the saved model is not an archive") from None
    made.seek(0)
    return made


def operations(graph: Any) -> None:
    """Refuse anything but straight-line tensor operations: no loops, branches, files, or operators of others."""
    for node in graph.nodes():
        space, _, name = node.kind().partition("::")
        known = space == "aten" and name not in REFUSED and not any(part in name for part in REFUSED_PARTS)
        if not known and not (space == "prim" and name in PRIM):
            raise Refused(f"the saved model uses {node.kind()}, which a traced program has no need of")


def forgetful(graph: Any) -> None:
    """Refuse a program that may write to what it keeps (weights, constants): it could remember earlier calls.

    A piece of a list (`chunk`, `unbind`) counts as kept when it is written in place: it cannot be told apart.
    """
    aliases = graph.alias_db()
    for node in graph.nodes():
        if node.kind() in ("prim::GetAttr", "prim::Constant") and any(map(aliases.has_writers, node.outputs())):
            raise Refused("the saved model writes to its own numbers when it is called, and could learn meanwhile")


def _word(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


if __name__ == "__main__":
    main()
