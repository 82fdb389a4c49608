"""Data reach another machine whole, in small pieces, or not at all."""

import os

import pytest

from rewardrate.errors import InputError
from rewardrate.scale import shipping
from rewardrate.scale.shipping import DataStore, digest, pieces, signature


@pytest.fixture
def folder(tmp_path):
    home = tmp_path / "data"
    (home / "a" / "deep").mkdir(parents=True)
    (home / "a" / "deep" / "numbers.bin").write_bytes(os.urandom(10_000))
    (home / "empty").mkdir()
    (home / "nothing.txt").write_bytes(b"")
    (home / "a" / "link").symlink_to("deep/numbers.bin")
    return home


def shipped(source):
    store = DataStore()
    for chunk in pieces(source):
        store.put(digest(source), chunk)
    store.complete(digest(source))
    return store, store.path(digest(source))


def test_a_folder_arrives_as_it_was(folder, monkeypatch):
    monkeypatch.setattr(shipping, "PIECE_BYTES", 999)
    store, there = shipped(folder)
    assert digest(there) == digest(folder)
    assert (there / "a" / "link").read_bytes() == (folder / "a" / "deep" / "numbers.bin").read_bytes()
    assert sorted(os.listdir(there)) == ["a", "empty", "nothing.txt"]
    store.close()
    assert not store.folder.exists()


@pytest.mark.parametrize("size", [0, 1, 999, 1000, 2000, 2001])
def test_a_file_arrives_as_it_was_whatever_its_size(tmp_path, monkeypatch, size):
    monkeypatch.setattr(shipping, "PIECE_BYTES", 1000)
    source = tmp_path / "file.bin"
    source.write_bytes(os.urandom(size))
    _, there = shipped(source)
    assert there.read_bytes() == source.read_bytes()


def test_no_chunk_is_larger_than_a_piece(folder, monkeypatch):
    monkeypatch.setattr(shipping, "PIECE_BYTES", 999)
    assert max(sum(len(piece.content) for piece in chunk) for chunk in pieces(folder)) <= 999


def test_other_users_can_read_what_arrived_but_not_list_what_else_did(folder):
    store, there = shipped(folder)
    assert store.folder.stat().st_mode & 0o777 == 0o711
    assert all(path.stat().st_mode & 0o004 for path in there.rglob("*"))


def test_whatever_the_umask_other_users_get_through_every_folder(folder):
    before = os.umask(0o077)
    try:
        _, there = shipped(folder)
    finally:
        os.umask(before)
    assert all(path.stat().st_mode & 0o005 == 0o005 for path in (there, there / "a", there / "a" / "deep"))


def test_damaged_data_are_not_used(folder):
    store = DataStore()
    name = digest(folder)
    for chunk in pieces(folder):
        store.put(name, chunk)
    (store.folder / f"{name}.part" / "nothing.txt").write_text("something")
    with pytest.raises(OSError, match="damaged"):
        store.complete(name)
    assert not list(store.folder.iterdir())


def test_a_changed_file_has_another_signature(folder):
    before = signature(folder)
    assert signature(folder) == before
    (folder / "nothing.txt").write_text("something")
    assert signature(folder) != before


def test_what_cannot_be_sent_is_refused(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        digest(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="only files, folders and links"):
        digest(tmp_path)


def test_what_a_killed_process_left_behind_is_removed_by_the_next(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "rewardrate-data-999999999-old").mkdir()
    mine = DataStore()
    assert list(tmp_path.iterdir()) == [mine.folder]
    DataStore()
    assert mine.folder.exists()
