"""The referee's own computation of a loss from a saved model: this file is sent into a box of its own and run there.

The model is a TorchScript program, made by tracing: straight-line tensor operations and numbers, none of the script's
Python. The program is given token sequences and returns logits; targets, softmax, sums and the comparison of runs are
ours. Standard library and torch only; torch is imported where it is used, and nothing of this package is.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import socket
import struct
import weakref
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

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
    "segment_reduce",
    "set",
    "set_",
    "set_data",
    "set_grad_enabled",
    "warn",
}
# Memory that was not written by the program may hold what others freed; and operators that believe indices unchecked.
REFUSED_PARTS = ("empty", "resize", "_unsafe", "sparse", "nested", "packed", "fbgemm")
HOOKS = (b"__setstate__", b"__forward_hooks__", b"__forward_pre_hooks__")
MOST_TOKENS = 2**20  # of one call
MOST_CHANNELS = 253  # that Linux hands over at once
REPEAT_TOLERANCE = 1e-3
LEAST_WINDOWS = 64  # fewer are too few to draw other ones from, and to draw many places in


class ProgramRefused(ValueError):
    """The saved model breaks a rule."""


FAILURES = (RuntimeError, ValueError, IndexError, TypeError, AttributeError, AssertionError, OSError, MemoryError)


def main() -> None:
    """Carry out request.json and write the answer to the file that it names."""
    with open(REQUEST, encoding="utf-8") as file:
        request = json.load(file)
    request["workers"] = _alone()
    failure = _unfit(request["device"])
    answer: Any = {"failure": failure} if failure else [_answer_apart(request, check) for check in request["checks"]]
    with open(request["answer"], "w", encoding="utf-8") as file:
        json.dump(answer, file)


def _alone() -> int:
    """How many processes may work side by side; each keeps to one thread, for a copy of one with more would hang."""
    import torch

    workers: int = torch.get_num_threads()
    torch.set_num_threads(1)
    return workers


def _unfit(device: str) -> str:
    """Why this box cannot evaluate any model, before it has looked at one; empty when it can."""
    import torch

    if hasattr(torch._C, "_jit_set_texpr_fuser_enabled"):
        torch._C._jit_set_texpr_fuser_enabled(False)  # compiles kernels for a single pass
    try:
        apart(lambda: bytes(torch.zeros(1, device=device).cpu().numpy().tobytes()))
    except ProgramRefused as error:
        return str(error).partition("does not run: ")[2] or str(error)
    return ""


def _answer_apart(request: dict[str, Any], check: dict[str, Any]) -> dict[str, Any]:
    """The answer to one check, from a process that has seen no tokens of an earlier one."""
    try:
        found: dict[str, Any] = json.loads(apart(lambda: json.dumps(_answer(request, check)).encode()))
    except ProgramRefused as error:
        return {"problem": str(error)}
    return found


def _answer(request: dict[str, Any], check: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"problem": ""}
    try:
        _fill(found, request, check)
    except FAILURES as error:
        found["problem"] = _words(error)
    return found


def _fill(found: dict[str, Any], request: dict[str, Any], check: dict[str, Any]) -> None:
    model = SavedModel(os.path.join("data", "models", check["file"]), request["device"], request["workers"])
    found["step"] = model.step
    count = request["tokens"]
    if count % model.length:
        raise ProgramRefused(f"sequences of {model.length} tokens do not divide the {count:,} validation tokens")
    if count // model.length < LEAST_WINDOWS:
        rule = f"of the {count:,} validation tokens that is {count // model.length}, and {LEAST_WINDOWS} are needed"
        raise ProgramRefused(f"its sequences have {model.length:,} tokens; {rule}")
    tokens = read_tokens(request["open"])
    found["open_loss"] = model.loss(tokens, count, request["seed"])
    if check["final"]:
        if request["hidden"]:
            tokens = read_tokens(request["hidden"])
            found["hidden_loss"] = model.loss(tokens, count, request["seed"])
        found["leak"] = model.leak(tokens, count, request["probes"], request["seed"])
        found["gain"] = model.gain
    found["drift"] = model.drift()


class SavedModel:
    """A saved program and the shape it was traced for.

    The program is loaded and looked at here, and run in processes that end with their answer: whatever it writes to
    its numbers, to freed memory, to the state of torch or of its random numbers is gone before the next call. They are
    copies of a process that was split off before any tokens were read (`Starter`), and are given the inputs of their
    own call, and its targets once the program is done: a program that reads beyond its tensors finds nothing there.
    On a CPU every call has a process of its own; on a GPU, where a process takes a second to start, all calls of one
    pass share one, each with a program loaded anew: nothing gets from the calls that are scored into those that probe.
    """

    def __init__(self, path: str, device: str, workers: int = 1) -> None:
        import torch

        torch.set_grad_enabled(False)
        self._torch, self.device, self._workers = torch, torch.device(device), workers
        self._archive = rewritten(path)
        extra = {"shape": "", "step": ""}
        self.program = self._loaded("cpu", extra)
        self.batch, self.length = shape_of(_word(extra["shape"]))
        step = _word(extra["step"])
        self.step = int(step) if step.isdigit() and len(step) < 12 else -1
        operations(self.program.inlined_graph)
        self._starter = Starter(self._serve)
        self._first: Any = None
        self._scored: Any = None
        self.gain = 0.0

    def _loaded(self, device: Any, extra: dict[str, str] | None = None) -> Any:
        load: Any = self._torch.jit.load
        return load(io.BytesIO(self._archive), map_location=self._torch.device(device), _extra_files=extra)

    def loss(self, tokens: Any, count: int, seed: int) -> float:
        """Mean cross-entropy over exactly `count` tokens, in windows of the model's length."""
        self._scored = (tokens, count, self._score(tokens, count, seed))
        return float(-self._scored[2].double().sum()) / count

    def _score(self, tokens: Any, count: int, seed: int) -> Any:
        """Log-probabilities of all targets, windows x positions.

        The windows come in an order of ours: a program could look up the last target of one window in the next.
        """
        inputs, targets = self._windows(tokens, count)
        found = self._torch.zeros(targets.shape)
        parts = list(self._calls(len(inputs), len(inputs), self._generator(seed)))
        answers = self._answers([(inputs[part], targets[part]) for part, _ in parts])
        for (part, real), answer in zip(parts, answers, strict=True):
            found[part[:real]] = answer[:real]
        return found

    def leak(self, tokens: Any, count: int, probes: int, seed: int) -> float:
        """How far predictions move when only tokens after them are changed: the largest change. Sets `gain`.

        In every window a place is drawn and all tokens after it are replaced: in half of the windows by those of
        another window, in the others by tokens drawn at random; the next one certainly, by any other with equal
        probability. Predictions up to that place must be those that were scored. The windows of a call are others than
        when they were scored: whoever looks at other windows of the call is seen at every position.

        `gain` is the mean change of the log-probability at the places themselves, where no later token is left:

            gain = mean over probes of  log q(y | true tokens) - log q(y | tokens replaced after the place)

        For every replacement the right-hand q adds up to one over y, so a model that gains g per token by looking
        ahead, by whatever rule, has a mean gain of at least g: no choice of what it predicts can hide it.
        """
        torch = self._torch
        inputs, targets = self._windows(tokens, count)
        if self._scored is None or self._scored[0] is not tokens or self._scored[1] != count:
            self.loss(tokens, count, seed)
        generator = self._generator(seed + 1)
        size = int(tokens.max()) + 1
        parts = [part for part, _ in self._calls(len(inputs), max(probes, 1), generator)]
        places = [torch.randint(0, self.length, (self.batch, 1), generator=generator) for _ in parts]
        pairs = list(zip(parts, places, strict=True))
        changed = [self._replaced(inputs, part, place, size, generator) for part, place in pairs]
        answers = self._answers([(one, targets[part]) for one, part in zip(changed, parts, strict=True)])
        position = torch.arange(self.length)[None]
        worst, gains = self._company(inputs, targets, probes, size, generator)
        for (part, place), after in zip(pairs, answers, strict=True):
            moved = self._scored[2][part] - after
            worst = max(worst, float(torch.where(position <= place, moved.abs(), 0.0).max()))
            gains.append(moved.gather(1, place))
        self.gain = max(self.gain, float(torch.cat(gains).double().mean()))
        return worst

    def _company(self, inputs: Any, targets: Any, probes: int, size: int, generator: Any) -> tuple[float, list[Any]]:
        """The same for half of the windows of a call, by others in their place; no gains yet. Sets `gain`.

        First tokens stay in every other probe: where one call holds all windows, the last target of each is there.
        """
        torch, wanted = self._torch, max(probes // 4, LEAST_WINDOWS)
        parts = [part for part, _ in self._calls(len(inputs), wanted, generator)]
        kept = [torch.rand((self.batch, 1), generator=generator) < 0.5 for _ in parts]
        drawn = [torch.randint(0, size, inputs[part].shape, generator=generator) for part in parts]
        changed = [torch.where(mine, inputs[part], other) for part, mine, other in zip(parts, kept, drawn, strict=True)]
        answers = self._answers([(one, targets[part]) for one, part in zip(changed, parts, strict=True)])
        moved = torch.where(torch.cat(kept), self._scored[2][torch.cat(parts)] - torch.cat(answers), 0.0)
        self.gain = 2 * float(moved.double().sum()) / (max(1, int(torch.cat(kept).sum())) * self.length)
        return float(moved.abs().max()), []

    def _replaced(self, inputs: Any, part: Any, place: Any, size: int, generator: Any) -> Any:
        """Windows with all tokens after their places replaced, the next one by another than it was."""
        torch, count = self._torch, len(part)
        step = torch.randint(1, max(2, len(inputs)), (count,), generator=generator)
        natural = inputs[(part + step) % len(inputs)]
        drawn = torch.randint(0, size, natural.shape, generator=generator)
        other = torch.where(torch.rand((count, 1), generator=generator) < 0.5, natural, drawn)
        position = torch.arange(self.length)[None]
        changed = torch.where(position > place, other, inputs[part])
        same = (changed == inputs[part]) & (position == place + 1)
        shifted = changed + torch.randint(1, max(2, size), changed.shape, generator=generator)
        return torch.where(same, shifted % size, changed)

    def drift(self) -> float:
        """How far the answer to the first call is another the second time: a program must draw no random numbers."""
        if self._first is None:
            return 0.0
        inputs, targets, before = self._first
        return float((self._answers([(inputs, targets)])[0] - before).abs().max())

    def _calls(self, windows: int, wanted: int, generator: Any) -> Iterator[tuple[Any, int]]:
        """The windows of each call, in an order of ours, until `wanted` have come; and how many of them are new.

        Where more are wanted than there are, they come again. A call is always full: where windows run out it goes on
        with the first ones. Otherwise a program could tell by the filling whether it is scored or probed.
        """
        order = self._torch.randperm(windows, generator=generator)
        for start in range(0, wanted, self.batch):
            yield order[(start + self._torch.arange(self.batch)) % windows], min(self.batch, max(0, windows - start))

    def _windows(self, tokens: Any, count: int) -> tuple[Any, Any]:
        inputs, targets = tokens[:count], tokens[1 : count + 1]
        return inputs.view(-1, self.length), targets.view(-1, self.length)

    def _generator(self, seed: int) -> Any:
        return self._torch.Generator().manual_seed(seed)

    def _answers(self, calls: Sequence[tuple[Any, Any]]) -> list[Any]:
        """Log-probability of every target of every call; no call can leave anything for a later one to find."""
        torch = self._torch
        group = 1 if self.device.type == "cpu" else len(calls)
        side = min(self._workers, MOST_CHANNELS)
        works = [calls[at : at + group] for at in range(0, len(calls), group)]
        groups = [works[at : at + side] for at in range(0, len(works), side)]
        contents = [one for some in groups for one in self._starter.ask(some)]
        numbers = torch.frombuffer(bytearray(b"".join(contents)), dtype=torch.float32)
        sizes = [targets.numel() for _, targets in calls]
        if [len(one) for one in contents] != [4 * sum(sizes[at : at + group]) for at in range(0, len(calls), group)]:
            raise ProgramRefused("the saved model got at the process that evaluates it")
        if not bool(torch.isfinite(numbers).all()):
            raise ProgramRefused("the saved model returns numbers that are not finite")
        found = [one.view(targets.shape) for one, (_, targets) in zip(numbers.split(sizes), calls, strict=True)]
        if self._first is None:
            self._first = (*calls[0], found[0])
        return found

    def _serve(self, channel: socket.socket) -> None:
        """In a process of its own: answer calls one after another. Targets are asked for when the program is done."""
        torch, found, size = self._torch, [], 8 * self.batch * self.length
        torch.set_num_threads(1)
        while inputs := _received(channel, size):
            torch.seed()
            logits = self._logits(torch.frombuffer(bytearray(inputs), dtype=torch.int64).view(-1, self.length))
            channel.sendall(b".")
            targets = torch.frombuffer(bytearray(_received(channel, size)), dtype=torch.int64).view(-1, self.length)
            if logits.size(2) <= int(targets.max()):
                raise ProgramRefused(f"the saved model has {logits.size(2)} logits, and there are more tokens")
            log_q = torch.log_softmax(logits.float(), dim=-1).gather(2, targets.to(self.device)[..., None])
            found.append(bytes(log_q.cpu().contiguous().numpy().tobytes()))
        channel.sendall(b"+" + b"".join(found))

    def _logits(self, inputs: Any) -> Any:
        program = self.program if self.device.type == "cpu" else self._loaded(self.device)
        logits = program.forward(inputs.to(self.device))  # what was looked at, and no hook around it
        if not isinstance(logits, self._torch.Tensor) or logits.dim() != 3 or logits.shape[:2] != inputs.shape:
            raise ProgramRefused("the saved model must return logits: sequences x positions x vocabulary")
        return logits


class Starter:
    """A process that starts others: copies of this one as it is now, whatever this one reads later.

    Each is given one end of a channel and carries out `work` with it. Nothing that is sent to one is ever in the
    memory of another, nor in that of the process that starts them: channels are handed over, not their contents.
    """

    def __init__(self, work: Callable[[socket.socket], None]) -> None:
        self._line, theirs = socket.socketpair()
        process = os.fork()
        if not process:
            self._line.close()
            _start_others(theirs, work)
        theirs.close()
        weakref.finalize(self, _dismiss, self._line, process, os.getpid())

    def ask(self, questions: Sequence[Sequence[tuple[Any, Any]]]) -> list[bytes]:
        """What processes answer, side by side, that are each asked several pairs of tensors one after another.

        The second of a pair is sent when the process says that it has done with the first. What torch raises there is
        raised here as Refused; nothing but bytes is taken from them.
        """
        pairs = [socket.socketpair() for _ in questions]
        socket.send_fds(self._line, [b"+"], [other.fileno() for _, other in pairs])
        for _, other in pairs:
            other.close()
        channels = [one for one, _ in pairs]
        for place in range(max(map(len, questions))):
            asked = [(one, calls[place]) for one, calls in zip(channels, questions, strict=True) if place < len(calls)]
            for channel, (first, _) in asked:
                _send(channel, first)
            for channel, (_, second) in asked:
                if channel.recv(1, socket.MSG_PEEK) == b".":  # else it has failed, and says why below
                    _send(channel, second if channel.recv(1) else None)
        answers = [_last_words(channel) for channel in channels]
        codes = struct.unpack(f"<{len(channels)}i", _received(self._line, 4 * len(channels)))
        return [_believed(*pair) for pair in zip(answers, codes, strict=True)]


def apart(work: Callable[[], bytes]) -> bytes:
    """What a piece of work returns, done in a process of its own that ends with its answer. It may raise Refused."""
    return Starter(lambda channel: channel.sendall(b"+" + work())).ask([[]])[0]


def _dismiss(line: socket.socket, process: int, owner: int) -> None:
    """Let a starter end, which it does when no caller is left."""
    with line, contextlib.suppress(OSError):  # in a copy of its owner it is another's child
        if os.getpid() == owner:
            line.shutdown(socket.SHUT_RDWR)  # copies of this process may hold the line too: closing would not end it
            os.waitpid(process, 0)


def _start_others(line: socket.socket, work: Callable[[socket.socket], None]) -> NoReturn:
    try:
        while numbers := socket.recv_fds(line, 1, MOST_CHANNELS)[1]:
            children = []
            for number in numbers:
                children.append(os.fork())
                if not children[-1]:
                    line.close()
                    for other in set(numbers) - {number}:  # a channel ends when the only one who has it does
                        with contextlib.suppress(OSError):
                            os.close(other)
                    _carry_out(work, number)
                os.close(number)
            codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
            line.sendall(struct.pack(f"<{len(codes)}i", *codes))
        os._exit(0)
    finally:
        os._exit(1)


def _carry_out(work: Callable[[socket.socket], None], number: int) -> NoReturn:
    try:
        channel = socket.socket(fileno=number)
        try:
            work(channel)
        except FAILURES as error:
            channel.sendall(b"-" + _words(error).encode("utf-8", "replace"))
        os._exit(0)
    finally:
        os._exit(1)


def _send(channel: socket.socket, tensor: Any) -> None:
    with contextlib.suppress(OSError):  # it has ended, and its last words or its exit code say why
        channel.sendall(tensor.contiguous().numpy().tobytes())


def _received(channel: socket.socket, size: int) -> bytes:
    """So many bytes, or fewer where no more come."""
    found = bytearray()
    while len(found) < size and (part := channel.recv(min(size - len(found), 2**20))):
        found += part
    return bytes(found)


def _last_words(channel: socket.socket) -> bytes:
    """Tell a process that nothing more comes, and hear what it says before it ends."""
    with channel, contextlib.suppress(OSError):
        channel.shutdown(socket.SHUT_WR)
        return _received(channel, 2**40)
    return b""


def _believed(answer: bytes, code: int) -> bytes:
    if code or answer[:1] not in (b"+", b"-"):
        raise ProgramRefused(f"the saved model ended the process that evaluates it ({code})")
    if answer[:1] == b"-":
        raise ProgramRefused(answer[1:].decode("utf-8", "replace"))
    return answer[1:]


def _words(error: BaseException) -> str:
    """What is told of an exception that evaluating a model raised."""
    if isinstance(error, ProgramRefused):
        return str(error)
    lines = str(error).strip().splitlines() or [""]
    return f"the saved model does not run: {type(error).__name__}: {lines[-1][:300]}"


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
        raise ProgramRefused(f"its shape is {text[:40]!r}, and it must be two whole numbers")
    batch, length = map(int, words)
    if batch < 1 or length < 2 or batch * length > MOST_TOKENS:
        raise ProgramRefused(f"its shape is {batch} x {length}, and it must hold 2 to {MOST_TOKENS:,} tokens")
    return batch, length


def rewritten(path: str) -> bytes:
    """The archive written anew from what was looked at; refused with code that would run unseen.

    Two readers can find different files in one archive (two of one name, two directories): torch is given ours.
    """
    made = io.BytesIO()
    try:
        with zipfile.ZipFile(path) as given, zipfile.ZipFile(made, "w") as archive:
            names = given.namelist()
            if len(set(names)) < len(names):
                raise ProgramRefused("the saved model holds two files of one name")
            if not any("/code/" in name for name in names):
                raise ProgramRefused("the saved model is not a traced program")
            for name in names:
                content = given.read(name)
                if "/code/" in name and any(word in content for word in HOOKS):
                    raise ProgramRefused("the saved model runs code when it is loaded, or before or after it is called")
                archive.writestr(name, content)
    except (zipfile.BadZipFile, zlib.error, EOFError):
        raise ProgramRefused("the saved model is not an archive") from None
    return made.getvalue()


def operations(graph: Any) -> None:
    """Refuse anything but straight-line tensor operations: no loops, branches, files, or operators of others."""
    for node in graph.nodes():
        space, _, name = node.kind().partition("::")
        known = space == "aten" and name not in REFUSED and not any(part in name for part in REFUSED_PARTS)
        if not known and not (space == "prim" and name in PRIM):
            raise ProgramRefused(f"the saved model uses {node.kind()}, which a traced program has no need of")


def _word(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


if __name__ == "__main__":
    main()
