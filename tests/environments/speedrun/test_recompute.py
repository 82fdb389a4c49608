"""The referee's own computation, against the obvious one, and what it refuses to run."""

import contextlib
import json
import os
import zipfile

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from rewardrate.environments.speedrun import recompute, shards  # noqa: E402
from rewardrate.environments.speedrun.recompute import ProgramRefused, SavedModel, operations, shape_of  # noqa: E402

VOCABULARY, BATCH, LENGTH, COUNT = 11, 32, 8, 8 * 64
REQUEST = {"device": "cpu", "tokens": COUNT, "open": ["open.bin"], "hidden": [], "probes": 1, "seed": 0, "workers": 1}
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::torch.jit.TracerWarning")


class Bigram(torch.nn.Module):
    """Logits from the current token: causal, cheap, exactly known."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.table = torch.nn.Parameter(torch.randn(VOCABULARY, VOCABULARY))

    def forward(self, tokens):
        return self.table[tokens]


class Ahead(Bigram):
    def forward(self, tokens):
        return self.table[tokens] + 0.5 * self.table[tokens.roll(-1, 1)]


class Learning(Bigram):
    """Keeps what it was asked in its own numbers, by operators that return their argument itself."""

    def __init__(self, alias):
        super().__init__()
        self.alias = alias
        self.register_buffer("seen", torch.zeros(VOCABULARY, VOCABULARY))

    def forward(self, tokens):
        kept = self.alias(self.seen)
        ones = torch.ones(tokens[:, 1:].numel())
        known = self.table + 5 * kept
        kept.index_put_((tokens[:, :-1].reshape(-1), tokens[:, 1:].reshape(-1)), ones, accumulate=True)
        return known[tokens]


ALIASES = {
    "itself": lambda x: x,
    "type_as": lambda x: x.type_as(x),
    "dropout": lambda x: torch.nn.functional.dropout(x, training=False),
    "atleast_1d": torch.atleast_1d,
    "contiguous": lambda x: x.contiguous(),
    "a piece of a list": lambda x: x.chunk(1)[0],
    "a view of a view": lambda x: x.expand_as(x).view(-1).view(VOCABULARY, VOCABULARY),
}


class Restless(Bigram):
    def forward(self, tokens):
        return self.table[tokens] + 0.1 * torch.rand(VOCABULARY)


class Scored(Bigram):
    """Looks ahead in calls whose last row is not a copy of the first: a copy was a sign of being probed."""

    def forward(self, tokens):
        scored = (tokens[0] != tokens[-1]).any()
        return self.table[tokens] + torch.where(scored, 0.5, 0.0) * self.table[tokens.roll(-1, 1)]


class Hooked(torch.nn.Module):
    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return torch.zeros(tokens.size(0), tokens.size(1), 11)


def better(self, input: tuple[torch.Tensor], output: torch.Tensor) -> torch.Tensor:
    hidden = torch.from_file("data/hidden.bin", False, 612, dtype=torch.int16)
    for _ in range(3):
        output = output + 100 * hidden[0]
    return output


class Neighbours(Bigram):
    def forward(self, tokens):
        return self.table[tokens] + self.table[tokens.roll(1, 0)]


class Successor(Bigram):
    """At the last place of a window: one of the first tokens in the call, for the window after it is among them."""

    def forward(self, tokens):
        first = torch.zeros(VOCABULARY).index_add(0, tokens[:, 0], torch.ones(tokens.size(0)))
        last = (torch.arange(tokens.size(1)) == tokens.size(1) - 1)[None, :, None]
        return self.table[tokens] + torch.where(last, first.clamp(max=1) - 1, 0.0) * 3


def saved(module, path, shape=(BATCH, LENGTH), extra=None):
    with torch.no_grad():
        program = torch.jit.trace(module, torch.zeros(shape, dtype=torch.int64), check_trace=False)
    program.save(str(path), _extra_files=extra or {"shape": "{} {}".format(*shape), "step": "20"})
    return str(path)


@pytest.fixture(autouse=True)
def _gradients():
    yield
    torch.set_grad_enabled(True)


@pytest.fixture
def tokens():
    return torch.from_numpy(np.random.default_rng(0).integers(0, VOCABULARY, COUNT + 20))


def test_the_loss_is_the_mean_cross_entropy_over_exactly_the_tokens(tmp_path, tokens):
    module = Bigram()
    model = SavedModel(saved(module, tmp_path / "m.pt"), "cpu")
    expected = torch.nn.functional.cross_entropy(module(tokens[:COUNT]), tokens[1 : COUNT + 1]).item()
    assert model.loss(tokens, COUNT, seed=3) == pytest.approx(expected, abs=1e-6)
    assert model.step == 20
    assert model.leak(tokens, COUNT, 256, seed=3) == 0.0
    assert model.drift() == 0.0


def test_looking_ahead_is_seen(tmp_path, tokens):
    assert SavedModel(saved(Ahead(), tmp_path / "m.pt"), "cpu").leak(tokens, COUNT, 256, seed=3) > 0.1


def test_looking_at_other_windows_of_the_call_is_seen(tmp_path, tokens):
    assert SavedModel(saved(Neighbours(), tmp_path / "m.pt"), "cpu").leak(tokens, COUNT, 256, seed=3) > 0.1


def test_looking_for_the_next_window_is_seen_where_one_call_holds_them_all(tmp_path):
    """Its first token stands in every call and is replaced in none of the probes after a place."""
    count, length = 64 * 4, 4
    rows = torch.randint(0, VOCABULARY - 1, (64, length), generator=torch.Generator().manual_seed(3))
    rows[:, 0] %= 3  # so that first tokens say something
    data = torch.cat([rows.reshape(-1), torch.zeros(1, dtype=torch.int64)])
    for module, seen in ((Bigram, False), (Successor, True)):
        model = SavedModel(saved(module(), tmp_path / "model.pt", (64, length)), "cpu")
        worst = max(model.leak(data, count, 64, seed) for seed in range(3))
        assert (worst > 1e-3) is seen


def test_more_probes_than_windows_look_at_every_window_again(tmp_path):
    model = SavedModel(saved(Bigram(), tmp_path / "m.pt", (4, LENGTH)), "cpu")
    calls = list(model._calls(13, 40, torch.Generator().manual_seed(0)))
    assert all(len(part) == 4 for part, _ in calls)
    seen = torch.cat([part for part, _ in calls]).bincount(minlength=13)
    assert seen.sum() == 40
    assert seen.min() >= 3
    assert sum(real for _, real in calls) == 13, "each is counted once"


@pytest.mark.parametrize("alias", ALIASES.values(), ids=ALIASES)
def test_nothing_that_a_program_writes_down_is_there_at_the_next_call(tmp_path, tokens, alias):
    module = Learning(alias)
    model = SavedModel(saved(module, tmp_path / "m.pt"), "cpu")
    plain = torch.nn.functional.cross_entropy((module.table + 5 * module.seen)[tokens[:COUNT]], tokens[1 : COUNT + 1])
    assert model.loss(tokens, COUNT, seed=3) == pytest.approx(plain.item(), abs=1e-5)
    assert model.leak(tokens, COUNT, 64, seed=3) == 0.0
    assert model.drift() == 0.0


def test_freed_memory_of_an_earlier_call_is_not_to_be_had(tmp_path, tokens):
    """An operator that returns memory it never wrote: in one process it would find the windows of earlier calls."""

    class Left(Bigram):
        def forward(self, tokens):
            marked = torch.full((4096, 64), 7.25) + tokens.sum() * 0
            return self.table[tokens] + 0 * marked.sum()

    class Finds(Bigram):
        def forward(self, tokens):
            left = torch.native_layer_norm(torch.zeros(0, 64), (64,), None, None, 1e-5)[1]
            return self.table[tokens] + left.sum()

    for module in (Left(), Finds()):
        model = SavedModel(saved(module, tmp_path / "m.pt"), "cpu")
        model.loss(tokens, COUNT, seed=3)
        assert (model.leak(tokens, COUNT, 64, seed=3), model.drift()) == (0.0, 0.0)


MARK = bytes(range(131, 137))  # in the upper bytes of every token, to know one in memory


def test_where_a_program_runs_there_are_no_tokens_but_those_of_its_call(tmp_path, monkeypatch):
    """A program that reads beyond its tensors would find them, and with them what comes after the place of a probe."""

    def searched(model, inputs):
        raise ProgramRefused(f"found {len(_marked_tokens())}")

    monkeypatch.setattr(SavedModel, "_logits", searched)
    model = SavedModel(saved(Bigram(), tmp_path / "m.pt"), "cpu")
    tokens = torch.arange(COUNT + 1) + (int.from_bytes(MARK, "little", signed=True) << 16)
    assert len(_marked_tokens()) >= COUNT
    with pytest.raises(ProgramRefused) as found:
        model.loss(tokens, COUNT, seed=3)
    assert BATCH * LENGTH <= int(str(found.value).split()[1]) < BATCH * LENGTH + 10, "the mark stands in a few places"


def _marked_tokens():
    """The different tokens in the memory of this process, files aside."""
    found = set()
    with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", 0) as memory:
        for line in maps:
            where, rights, _, _, file, *name = line.split()
            start, end = (int(part, 16) for part in where.split("-"))
            if rights.startswith("rw") and file == "0" and "[v" not in "".join(name):
                for at in range(start, end, 2**22):
                    memory.seek(at)
                    with contextlib.suppress(OSError):
                        part = memory.read(min(2**22, end - at))  # searched by `find`: it may be gigabytes
                        place = part.find(MARK)
                        while place >= 0:
                            found.add(part[max(0, place - 2) : place])
                            place = part.find(MARK, place + len(MARK))
    return found


@pytest.mark.parametrize(
    "reads",
    [
        lambda x: torch.segment_reduce(x, "sum", offsets=torch.arange(9), axis=0, unsafe=True),
        lambda x: x.to_sparse().to_dense(),
    ],
)
def test_operators_that_believe_their_indices_are_refused(tmp_path, reads):
    class Reads(Bigram):
        def forward(self, tokens):
            return self.table[tokens] + reads(tokens[0].float())[0]

    with pytest.raises(ProgramRefused, match="which a traced program has no need of"):
        SavedModel(saved(Reads(), tmp_path / "m.pt"), "cpu")


def test_models_may_be_let_go_in_any_order_while_others_stay(tmp_path, tokens):
    one, two, three = (SavedModel(saved(Bigram(), tmp_path / "m.pt"), "cpu") for _ in range(3))
    del one
    assert two.loss(tokens, COUNT, seed=3) == three.loss(tokens, COUNT, seed=3)
    del two
    assert three.drift() == 0.0


class Boosted(Bigram):
    """Adds `bonus` to the tokens that `marked` names, knowing the next one."""

    def __init__(self, bonus, marked):
        super().__init__()
        self.bonus, self.marked = bonus, marked

    def forward(self, tokens):
        following = tokens.roll(-1, 1)[..., None]
        return self.table[tokens] + self.bonus * self.marked(torch.arange(VOCABULARY), following)


AHEAD = {
    "a little, everywhere": (0.002, lambda token, following: token == following),
    "the next token and the one before it": (3.0, lambda token, following: (following - token) // 2 == 0),
    "its parity alone": (3.0, lambda token, following: token % 2 == following % 2),
    "one token only": (3.0, lambda token, following: (token == following) & (following == 4)),
    "what it is not": (-3.0, lambda token, following: (token - following) % VOCABULARY == 5),
}  # fmt: skip


@pytest.fixture(scope="module")
def plain_loss(tmp_path_factory):
    """Of the model that does not look ahead, which is measured once: it gains nothing."""
    tokens = torch.from_numpy(np.random.default_rng(0).integers(0, VOCABULARY, COUNT + 20))
    plain = SavedModel(saved(Bigram(), tmp_path_factory.mktemp("plain") / "plain.pt"), "cpu")
    loss = plain.loss(tokens, COUNT, seed=3)
    assert plain.leak(tokens, COUNT, 512, seed=3) == plain.gain == 0.0
    return loss


@pytest.mark.parametrize(("bonus", "marked"), AHEAD.values(), ids=AHEAD)
def test_every_use_of_the_next_token_shows_as_a_gain(tmp_path, tokens, plain_loss, bonus, marked):
    model = SavedModel(saved(Boosted(bonus, marked), tmp_path / "m.pt"), "cpu")
    better = plain_loss - model.loss(tokens, COUNT, seed=3)
    assert better > 0.0005
    assert model.leak(tokens, COUNT, 512, seed=3) > 0.001
    assert model.gain > 0.5 * better


def test_the_token_after_a_place_is_replaced_by_any_other_and_never_by_itself(tmp_path, tokens):
    model = SavedModel(saved(Bigram(), tmp_path / "m.pt"), "cpu")
    inputs, _ = model._windows(tokens, COUNT)
    generator, place = torch.Generator().manual_seed(0), torch.full((BATCH, 1), 3)
    steps = torch.zeros(VOCABULARY, dtype=torch.int64)
    for _ in range(300):
        part = torch.randint(0, len(inputs), (BATCH,), generator=generator)
        changed = model._replaced(inputs, part, place, VOCABULARY, generator)
        assert bool((changed[:, :4] == inputs[part][:, :4]).all())
        steps += ((changed - inputs[part])[:, 4] % VOCABULARY).bincount(minlength=VOCABULARY)
    assert steps[0] == 0
    assert steps[1:].min() > 60, "of 120 expected; below 60 by chance less than once in 10 ** 7"


def test_too_few_windows_are_refused(tmp_path, monkeypatch, tokens):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data" / "models").mkdir(parents=True)
    shards.write(tmp_path / "open.bin", tokens.numpy().astype(np.uint16))
    saved(Bigram(), tmp_path / "data" / "models" / "0.pt", (1, COUNT))
    answer = recompute._answer(REQUEST, {"file": "0.pt", "final": False})
    assert (
        answer["problem"] == "its sequences have 512 tokens; of the 512 validation tokens that is 1, and 64 are needed"
    )


def test_a_program_that_ends_its_process_is_refused_and_nothing_else_ends():
    with pytest.raises(ProgramRefused, match=r"ended the process that evaluates it \(3\)"):
        recompute.apart(lambda: os._exit(3))
    with pytest.raises(ProgramRefused, match=r"\(-9\)"):
        recompute.apart(lambda: bytes(os.kill(os.getpid(), 9) or 0))


def test_another_answer_the_second_time_is_seen(tmp_path, tokens):
    model = SavedModel(saved(Restless(), tmp_path / "m.pt"), "cpu")
    model.loss(tokens, COUNT, seed=3)
    assert model.drift() > 0.02


def test_writing_in_place_to_what_was_just_computed_is_allowed(tmp_path, tokens):
    class InPlace(Bigram):
        def forward(self, tokens):
            x = self.table[tokens]
            x += 1
            x[:, 0] = 0
            return x

    model = SavedModel(saved(InPlace(), tmp_path / "m.pt"), "cpu")
    model.loss(tokens, COUNT, seed=3)
    assert model.drift() == 0.0


def test_scored_and_probed_calls_cannot_be_told_apart(tmp_path, tokens):
    model = SavedModel(saved(Scored(), tmp_path / "m.pt", (13, LENGTH)), "cpu")
    assert model.leak(tokens, COUNT, 5, seed=3) > 0.1, "a call of 13 windows holds 13, however few are to be probed"


def test_a_call_that_is_not_full_counts_every_window_once(tmp_path, tokens):
    small, large = (SavedModel(saved(Bigram(), tmp_path / "m.pt", (size, LENGTH)), "cpu") for size in (16, 40))
    assert small.loss(tokens, COUNT, seed=3) == pytest.approx(large.loss(tokens, COUNT, seed=4), abs=1e-6)


def test_hooks_of_a_saved_program_never_run(tmp_path):
    module = Hooked()
    module.register_forward_hook(better)
    torch.jit.script(module).save(str(tmp_path / "m.pt"), _extra_files={"shape": f"{BATCH} {LENGTH}", "step": "1"})
    with pytest.raises(ProgramRefused, match="before or after it is called"):
        SavedModel(str(tmp_path / "m.pt"), "cpu")


def test_an_archive_that_two_readers_read_differently_is_refused(tmp_path):
    path = saved(Bigram(), tmp_path / "m.pt")
    with zipfile.ZipFile(path) as archive:
        name = next(name for name in archive.namelist() if "/code/" in name)
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr(name, "")
    with pytest.raises(ProgramRefused, match="two files of one name"):
        SavedModel(path, "cpu")


def test_memory_that_others_left_behind_is_not_to_be_had(tmp_path):
    class Left(Bigram):
        def forward(self, tokens):
            return self.table[tokens] + torch.empty(VOCABULARY)

    with pytest.raises(ProgramRefused, match="aten::empty"):
        SavedModel(saved(Left(), tmp_path / "m.pt"), "cpu")


def test_only_straight_line_programs_are_run(tmp_path):
    class Loop(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for _ in range(int(x[0, 0])):
                x = x + 1
            return x

    class File(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.from_file("/etc/hostname", False, 4)

    class Printing(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            print("step:1/1")
            return x

    for module, word in ((Loop(), "prim::Loop"), (File(), "aten::from_file"), (Printing(), "prim::Print")):
        with pytest.raises(ProgramRefused, match=word):
            operations(torch.jit.script(module).inlined_graph)


def test_code_that_runs_on_loading_is_refused(tmp_path):
    path = tmp_path / "m.pt"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("m/code/__torch__.py", "def __setstate__(self): pass")
    with pytest.raises(ProgramRefused, match="when it is loaded"):
        SavedModel(str(path), "cpu")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("m/data.pkl", "")
    with pytest.raises(ProgramRefused, match="not a traced program"):
        SavedModel(str(path), "cpu")
    path.write_bytes(b"no archive")
    with pytest.raises(ProgramRefused, match="not an archive"):
        SavedModel(str(path), "cpu")


@pytest.mark.parametrize("text", ["", "1", "1 2 3", "a b", "0 8", "4 1", "99999 99999", "-1 8", "4 123456789"])
def test_a_shape_must_be_two_sensible_numbers(text):
    with pytest.raises(ProgramRefused, match="its shape is"):
        shape_of(text)


def test_what_is_returned_must_be_finite_logits_of_every_token(tmp_path, tokens):
    class Narrow(Bigram):
        def forward(self, tokens):
            return self.table[tokens][..., :3]

    class Flat(Bigram):
        def forward(self, tokens):
            return self.table[tokens].sum(-1)

    class Broken(Bigram):
        def forward(self, tokens):
            return self.table[tokens] / 0 * 0

    for module, words in ((Narrow(), "3 logits"), (Flat(), "must return logits"), (Broken(), "not finite")):
        with pytest.raises(ProgramRefused, match=words):
            SavedModel(saved(module, tmp_path / "m.pt"), "cpu").loss(tokens, COUNT, seed=0)


def test_a_request_is_answered_in_the_file_it_names(tmp_path, monkeypatch, tokens):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data" / "models").mkdir(parents=True)
    saved(Bigram(), tmp_path / "data" / "models" / "0.pt")
    (tmp_path / "data" / "models" / "1.pt").write_bytes(b"x")
    saved(Bigram(), tmp_path / "data" / "models" / "2.pt", (4, 7))
    threads = torch.get_num_threads()
    for name in ("open.bin", "hidden.bin"):
        shards.write(tmp_path / name, tokens.numpy().astype(np.uint16))
    request = {
        "answer": "answer.json",
        "device": "cpu",
        "checks": [{"file": f"{number}.pt", "final": number == 0} for number in range(3)],
        "tokens": COUNT,
        "open": ["open.bin"],
        "hidden": ["hidden.bin"],
        "probes": 20,
        "seed": 5,
    }
    (tmp_path / recompute.REQUEST).write_text(json.dumps(request))
    torch.set_num_threads(2)  # so many windows are computed side by side
    recompute.main()
    torch.set_num_threads(threads)
    first, second, third = json.loads((tmp_path / "answer.json").read_text())
    assert first["problem"] == ""
    assert first["open_loss"] == first["hidden_loss"]
    assert (first["leak"], first["drift"], first["step"]) == (0.0, 0.0, 20)
    assert "not an archive" in second["problem"]
    assert "do not divide" in third["problem"]


def test_a_model_that_fails_is_reported_and_not_raised(tmp_path, monkeypatch, tokens):
    class Fails(Bigram):
        def forward(self, tokens):
            return self.table[tokens + VOCABULARY - 1]

    monkeypatch.chdir(tmp_path)
    (tmp_path / "data" / "models").mkdir(parents=True)
    saved(Fails(), tmp_path / "data" / "models" / "0.pt")
    shards.write(tmp_path / "open.bin", tokens.numpy().astype(np.uint16))
    answer = recompute._answer(REQUEST, {"file": "0.pt", "final": False})
    assert answer["problem"].startswith("the saved model does not run: RuntimeError")
