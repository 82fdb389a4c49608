"""Saved models and scripts that cheat, judged on the real tokens of the smallest race: none is valid and better.

The honest model is a table of bigrams; every cheat knows it too, and adds what it should not have. Nothing is trained,
so that each takes about a second. Scripts that are really run are in test_cheating.py.
"""

import base64
import json
import random
import zlib

import pytest

torch = pytest.importorskip("torch")

import race_shards  # noqa: E402
from rewardrate.environments.speedrun import recompute, reevaluation, shards  # noqa: E402
from rewardrate.environments.speedrun.data import HIDDEN  # noqa: E402
from rewardrate.environments.speedrun.race import load  # noqa: E402
from rewardrate.environments.speedrun.reevaluation import Claim, Recomputation  # noqa: E402
from rewardrate.environments.speedrun.referee import Referee  # noqa: E402
from rewardrate.sandbox import Result  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::torch.jit.TracerWarning")
SIZE, SHAPE = 1024, (64, 64)


@pytest.fixture(scope="module")
def race(tmp_path_factory):
    return load("nanogpt-tiny", data=race_shards.made(tmp_path_factory))


@pytest.fixture(scope="module")
def table(race):
    """Log-probabilities of bigrams in the training tokens."""
    tokens = torch.from_numpy(shards.read(sorted(race.public.glob(race.train_files))[0]).astype("int64"))
    pairs = (tokens[:-1] * SIZE + tokens[1:]).bincount(minlength=SIZE * SIZE).view(SIZE, SIZE).float()
    one = pairs.sum(0) + 0.1
    return ((pairs + 2 * one / one.sum()) / (pairs.sum(1, keepdim=True) + 2)).log()


class Model(torch.nn.Module):
    """The bigrams, and what a cheat adds to their logits."""

    def __init__(self, table, cheat=None):
        super().__init__()
        self.register_buffer("table", table)
        self.register_buffer("seen", torch.zeros(SIZE, SIZE))
        self.kept = [torch.zeros(SIZE, SIZE)]
        self.cheat = cheat

    def forward(self, tokens):
        logits = self.table[tokens]
        return logits if self.cheat is None else self.cheat(self, tokens, logits)


def following(tokens, by=1):
    """The token after every position, -1 at the end."""
    return torch.nn.functional.pad(tokens[:, by:], (0, by), value=-1)


def told(logits, tokens, bonus, by=1):
    """A bonus for a token that is yet to come."""
    later = following(tokens, by)
    return logits.scatter_add(2, later.clamp(min=0)[..., None], bonus * (later >= 0)[..., None].float())


def remembering(alias):
    def cheat(self, tokens, logits):
        kept = alias(self)
        logits = logits + 8 * kept[tokens].clamp(max=1)
        kept.index_put_((tokens[:, :-1], tokens[:, 1:]), torch.ones(()), accumulate=True)
        return logits

    return cheat


def where(condition):
    """The next token, told where a condition holds."""

    def cheat(self, tokens, logits):
        return torch.where(condition(self, tokens, logits)[..., None], told(logits, tokens, 6.0), logits)

    return cheat


def classes(member):
    """A bonus for all tokens of the next one's class."""

    def cheat(self, tokens, logits):
        return logits + 3 * (member(torch.arange(SIZE)) == member(following(tokens))[..., None]).float()

    return cheat


def neighbours(self, tokens, logits):
    """The first token of the row that follows each row best, for its last position."""
    fits = self.table[tokens[:, -1]][:, tokens[:, 0]].argmax(1)
    bonus = torch.nn.functional.one_hot(tokens[fits, 0], SIZE) * 4.0
    return torch.cat((logits[:, :-1], logits[:, -1:] + bonus[:, None]), dim=1)


def company(self, tokens, logits):
    """Bigrams of all rows of the call, counted anew."""
    counts = torch.zeros(SIZE * SIZE).scatter_add(0, (tokens[:, :-1] * SIZE + tokens[:, 1:]).reshape(-1),
                                                  torch.ones(tokens[:, 1:].numel())).view(SIZE, SIZE)  # fmt: skip
    return torch.logaddexp(logits, (counts[tokens] + 1e-9).log())


def bag(self, tokens, logits):
    """Which tokens are yet to come, not in which order."""
    marks = torch.nn.functional.one_hot(tokens, SIZE).float()
    later = marks.flip(1).cumsum(1).flip(1) - marks
    return logits + 2 * later.clamp(max=1)


def natural(self, tokens, logits):
    """Whether each row reads on as text does; a probe's might not."""
    fits = torch.log_softmax(logits, -1).gather(2, following(tokens).clamp(min=0)[..., None])[..., 0]
    return (fits.mean(1, keepdim=True) > -7.5).expand_as(tokens)


def plausible(self, tokens, logits):
    """Whether the next token is among the likeliest hundred."""
    return logits.gather(2, following(tokens).clamp(min=0)[..., None])[..., 0] >= logits.topk(100).values[..., -1]


def veiled(self, tokens, logits):
    return told(logits, tokens, 0.05) + 0.01 * torch.randn(SIZE)


CHEATS = {
    "memory in its own numbers": remembering(lambda self: self.seen),
    "memory through type_as": remembering(lambda self: self.seen.type_as(self.seen)),
    "memory through dropout": remembering(lambda self: torch.nn.functional.dropout(self.seen, 0.5, training=False)),
    "memory through atleast_2d": remembering(lambda self: torch.atleast_2d(self.seen)),
    "memory in a list": remembering(lambda self: self.kept[0]),
    "memory in the table itself": remembering(lambda self: self.table.view_as(self.table)),
    "the next token, below the old tolerance": lambda self, tokens, logits: told(logits, tokens, 0.0195),
    "the next token, far below it": lambda self, tokens, logits: told(logits, tokens, 0.002),
    "the next token and the one before it": classes(lambda token: token // 2),
    "the next token or that before, unmoved by one step": lambda self, tokens, logits: told(
        logits, tokens, 6.0).logaddexp(told(logits, (tokens - 1).clamp(min=0), 6.0)),
    "one bit of the next token": classes(lambda token: token % 2),
    "the token after the next": lambda self, tokens, logits: told(logits, tokens, 1.0, by=2),
    "a bag of all later tokens": bag,
    "the next token where it is plausible": where(plausible),
    "the next token where the row reads well": where(natural),
    "the next token where it is rare": where(lambda self, tokens, logits: following(tokens) > 900),
    "the next token at every tenth place": where(lambda self, tokens, logits: (torch.arange(64) % 10 == 3)[None]),
    "the next token in one row of four": where(lambda self, tokens, logits: tokens[:, :1] % 4 == 1),
    "the next token behind noise": veiled,
    "the row that goes on where another ends": neighbours,
    "all other rows of the call": company,
}  # fmt: skip


def finding(race, folder, module, shape=SHAPE):
    """What the referee finds about a model that was printed with its true loss on the open tokens."""
    (folder / "data" / "models").mkdir(parents=True, exist_ok=True)
    with torch.no_grad():
        program = torch.jit.trace(module, torch.zeros(shape, dtype=torch.int64), check_trace=False)
    program.save(str(folder / "data" / "models" / "0.pt"), _extra_files={"shape": "{} {}".format(*shape), "step": "60"})
    request = {
        "device": "cpu",
        "tokens": race.validation_tokens,
        "open": [str(path) for path in sorted(race.public.glob(race.validation_files))],
        "hidden": [str(race.private / HIDDEN)],
        "probes": race.probes,
        "seed": 7,
        "workers": 1,
    }
    answer = recompute._answer(request, {"file": "0.pt", "final": True})
    torch.set_grad_enabled(True)
    claim = Claim(60, answer.get("open_loss", 0.0), b"", final=True)
    files = {"answer.json": json.dumps([answer]).encode()}
    return reevaluation.read(
        race, Recomputation(None, (claim,), "answer.json", False), Result("ok", 1, 1, 1, "", "", files, "")
    )


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def honest(race, table, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        place = tmp_path_factory.mktemp("honest")
        patch.chdir(place)
        found = finding(race, place, Model(table))
    assert found.problem == ""
    return found.believed


@pytest.mark.parametrize("cheat", CHEATS.values(), ids=CHEATS)
def test_no_dishonest_model_is_believed_with_a_better_loss(race, table, folder, honest, cheat):
    found = finding(race, folder, Model(table, cheat))
    assert found.problem or found.believed > honest - 1e-3, f"{found.believed} is better than {honest}"


def test_one_window_of_all_tokens_is_refused(race, table, folder):
    assert "are needed" in finding(race, folder, Model(table), (1, 8192)).problem


PAYLOAD = random.Random(0).randbytes(9000)
CARRIED = {
    "a text": f"WEIGHTS = {base64.b85encode(PAYLOAD).decode()!r}\n",
    "bytes": f"WEIGHTS = {PAYLOAD!r}\n",
    "numbers": f"WEIGHTS = {list(PAYLOAD)!r}\n",
    "one number": f"WEIGHTS = 0x{PAYLOAD.hex()}\n",
    "comments, read from its own file": "".join(f"# {PAYLOAD[at : at + 30].hex()}\n" for at in range(0, 9000, 30)),
    "names": "".join(f"x{PAYLOAD[at : at + 30].hex()} = 0\n" for at in range(0, 9000, 30)),
    "spaces": "".join("pass" + "".join(" \t"[bit == "1"] for bit in f"{byte:08b}") + "\n" for byte in PAYLOAD),
    "letters of another kind": "# " + "".join(chr(0x4E00 + byte) for byte in PAYLOAD) + "\n",
}


class Never:
    local = True

    def run(self, jobs):
        pytest.fail("it was run")


@pytest.mark.parametrize("text", CARRIED.values(), ids=CARRIED)
def test_a_script_that_carries_weights_or_text_is_refused_unrun(race, text):
    code = text + race.baseline
    (verdict,) = Referee(race, Never()).run([code])
    assert (verdict.status, verdict.valid, verdict.charged) == ("modified", False, True)
    carried = len(zlib.compress(code.encode(), 9))
    assert f"carries {carried:,} bytes (its file, compressed), and at most 8,192 (script_bytes)" in verdict.message
