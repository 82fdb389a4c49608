"""Shards: the speedrun's format, byte for byte, and nothing else is taken for one."""

import struct

import numpy as np
import pytest

from rewardrate.environments.speedrun import shards
from rewardrate.errors import InputError


def test_a_shard_is_a_header_of_256_numbers_and_then_the_tokens(tmp_path):
    path = tmp_path / "a.bin"
    shards.write(path, np.array([1, 2, 50256], dtype=np.uint16))
    content = path.read_bytes()
    assert struct.unpack_from("<3i", content) == (20240520, 1, 3)
    assert len(content) == 1024 + 6
    assert content[12:1024] == bytes(1012)
    assert struct.unpack_from("<3H", content, 1024) == (1, 2, 50256)
    assert shards.read(path).tolist() == [1, 2, 50256]
    assert len(shards.digest(path)) == 64


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "its header must begin"),
        (b"\0" * 2000, "its header must begin"),
        (struct.pack("<3i", 20240520, 2, 0) + bytes(1012), "its header must begin"),
        (struct.pack("<3i", 20240520, 1, 9) + bytes(1012) + b"\0\0", "says 9 tokens, and it holds 1"),
    ],
)
def test_what_is_no_shard_is_refused(tmp_path, content, words):
    path = tmp_path / "a.bin"
    path.write_bytes(content)
    with pytest.raises(InputError, match=words):
        shards.read(path)
    with pytest.raises(InputError, match="cannot be read"):
        shards.read(tmp_path / "nothing.bin")
