"""Hidden documents of this installation: secret, the same again with the same key, as hard as the open ones."""

import math
import stat
from collections import Counter

import numpy as np
import pytest

from rewardrate.environments.speedrun import splits
from rewardrate.errors import InputError


def streams(count, seed=0, size=7):
    random = np.random.default_rng(seed)
    return [random.integers(0, size, random.integers(20, 60)).astype(np.uint16) for _ in range(count)]


def test_the_key_is_made_once_and_closed_to_others(tmp_path):
    first = splits.key(tmp_path / "races")
    assert splits.key(tmp_path / "races") == first
    assert splits.key(tmp_path / "elsewhere") != first
    path = tmp_path / "races" / splits.KEY
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [one.name for one in path.parent.iterdir()] == [splits.KEY]
    path.write_bytes(b"short")
    with pytest.raises(InputError, match="must hold 32 bytes, and has 5"):
        splits.key(tmp_path / "races")
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(InputError, match="--data DIR"):
        splits.key(tmp_path / "file")


def test_a_split_uses_every_document_once_and_depends_on_the_key_alone():
    texts = streams(100)
    first, again, other = (splits.draw(texts, bytes([number]) * 32) for number in (1, 1, 2))
    assert sorted(first.train + first.public + first.hidden) == list(range(100))
    assert len(first.public) == len(first.hidden) == 6
    assert first == again
    assert first.name == again.name != other.name
    assert set(first.hidden) != set(other.hidden)


def test_a_text_without_enough_documents_is_split_all_the_same():
    assert splits.draw(streams(5), bytes(32)).hidden == ()


def test_parts_are_as_hard_as_those_of_other_installations():
    """Documents of two kinds, easy and hard, of which a plain draw would give one part more than the other."""
    random = np.random.default_rng(3)
    texts = [random.integers(0, 3 if number % 2 else 200, 2_000).astype(np.uint16) for number in range(160)]
    nats = splits.difficulty(texts)
    whole = np.concatenate(nats).mean(axis=0) + splits.LEVEL
    for number in range(3):
        found = splits.draw(texts, bytes([number]) * 32)
        for part in (found.public, found.hidden):
            near = np.concatenate([nats[one] for one in part])[:8_192].mean(axis=0)
            assert np.abs(near - whole).max() < 0.3, "one document more of a kind makes 0.5"


def test_difficulty_is_that_of_counting_in_all_other_documents():
    texts = streams(6)
    found = splits.difficulty(texts)
    for number, text in enumerate(texts):
        others = [one.tolist() for place, one in enumerate(texts) if place != number]
        for at in range(len(text)):
            assert found[number][at].tolist() == pytest.approx(slow(others, text.tolist(), at), rel=1e-9)


def slow(others, text, at):
    """Nats of one token by the formula."""
    chance, found = 1 / 7, []
    for order in range(1, 5):
        if at >= order - 1:
            context = tuple(text[at - order + 1 : at])
            grams = Counter(tuple(one[i - order + 1 : i + 1]) for one in others for i in range(order - 1, len(one)))
            seen = sum(count for gram, count in grams.items() if gram[:-1] == context)
            chance = (grams[(*context, text[at])] + 4 * chance) / (seen + 4)
        found += [-math.log(chance)] if order in splits.ORDERS else []
    return found


def test_every_run_of_every_script_has_a_seed_of_its_own_that_comes_again():
    key = bytes(32)
    seeds = {splits.attempt_seed(key, code, number) for code in ("a", "b", "a\n") for number in range(5)}
    assert len(seeds) == 15
    assert all(0 <= seed < 2**31 for seed in seeds)
    assert splits.attempt_seed(key, "a", 0) == splits.attempt_seed(key, "a", 0)
    assert splits.attempt_seed(b"x" * 32, "a", 0) != splits.attempt_seed(key, "a", 0)
    assert splits.attempt_seed(key, "\ud800", 0) >= 0
