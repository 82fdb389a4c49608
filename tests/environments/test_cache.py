"""Prepared data: kept in the user's cache, made by one process at a time, in place whole or not at all."""

import threading
from pathlib import Path

import pytest

from rewardrate.environments import cache


def test_data_are_kept_in_the_users_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache.default_folder("tasks") == tmp_path / "rewardrate" / "tasks"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache.default_folder("tasks").is_relative_to(Path.home())


@pytest.mark.parametrize("before", [None, "old"])
def test_a_folder_is_replaced_whole_and_nothing_else_is_left(tmp_path, before):
    place = tmp_path / "new" / "data"
    if before is not None:
        place.mkdir(parents=True)
        (place / "file").write_text(before)
    with cache.replacing(place) as fresh:
        (fresh / "other").write_text("new")
        assert place.exists() == (before is not None), "nobody sees it half made"
    assert [path.name for path in place.iterdir()] == ["other"]
    assert list(place.parent.iterdir()) == [place]


def test_an_error_leaves_what_was_there(tmp_path):
    place = tmp_path / "data"
    place.mkdir()
    (place / "file").write_text("old")

    def fails():
        with cache.replacing(place) as fresh:
            (fresh / "file").write_text("half")
            raise OSError("the disk is full")

    with pytest.raises(OSError, match="full"):
        fails()
    assert (place / "file").read_text() == "old"
    assert list(tmp_path.iterdir()) == [place]


def test_a_second_one_waits_for_the_lock(tmp_path):
    order = []
    began = threading.Event()

    def second():
        began.set()
        with cache.locked(tmp_path / "kind"):
            order.append("second")

    with cache.locked(tmp_path / "kind"):
        thread = threading.Thread(target=second)
        thread.start()
        began.wait()
        order.append("first")
    thread.join()
    assert order == ["first", "second"]
