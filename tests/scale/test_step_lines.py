"""A record that is only added to: steps come back as they count, whatever was killed or done again."""

import pytest

from rewardrate.errors import InputError
from rewardrate.scale import step_lines


def rows(step, count=2, **more):
    return [{"chain": chain, "reward": step + chain / 10, **more} for chain in range(count)]


def test_every_step_is_one_line_and_reads_back(tmp_path):
    path = tmp_path / "deep" / "attempts.jsonl"
    for step in (1, 2, 3):
        step_lines.append(path, step, rows(step))
        assert path.read_bytes().count(b"\n") == step
    found = step_lines.read(path)
    assert [row["step"] for row in found] == [1, 1, 2, 2, 3, 3]
    assert found[-1] == {"step": 3, "chain": 1, "reward": 3.1}


def test_adding_a_step_leaves_what_is_there_untouched(tmp_path):
    path = tmp_path / "attempts.jsonl"
    step_lines.append(path, 1, rows(1))
    before, place = path.read_bytes(), path.stat().st_ino
    step_lines.append(path, 2, rows(2))
    assert path.read_bytes().startswith(before)
    assert path.stat().st_ino == place


@pytest.mark.parametrize("left", [1, 30, -1], ids=["a byte", "a part", "all but its end"])
def test_a_half_written_last_line_is_passed_over_and_cut_off_by_the_next(tmp_path, left):
    path = tmp_path / "attempts.jsonl"
    step_lines.append(path, 1, rows(1))
    whole = path.read_bytes()
    step_lines.append(path, 2, rows(2, code="x" * 200_000))  # longer than the pieces it is looked for in
    last = path.read_bytes()[len(whole) :]
    path.write_bytes(whole + last[:left])
    assert {row["step"] for row in step_lines.read(path)} == {1}
    step_lines.append(path, 2, rows(2, code="again"))
    assert [row["step"] for row in step_lines.read(path)] == [1, 1, 2, 2]
    assert path.read_bytes().startswith(whole)


def test_a_step_done_again_replaces_itself_and_what_followed(tmp_path):
    path = tmp_path / "attempts.jsonl"
    for step, life in ((1, "a"), (2, "a"), (3, "a"), (2, "b")):
        step_lines.append(path, step, rows(step, life=life))
    assert [(row["step"], row["life"]) for row in step_lines.read(path)] == [(1, "a")] * 2 + [(2, "b")] * 2


@pytest.mark.parametrize("line", [b"nonsense", b"[]", b'{"step": 2}', b'{"step": "x", "attempts": []}', b""])
def test_a_damaged_line_that_is_not_the_last_is_named(tmp_path, line):
    path = tmp_path / "attempts.jsonl"
    step_lines.append(path, 1, rows(1))
    path.write_bytes(path.read_bytes() + line + b"\n")
    with pytest.raises(InputError, match=r"attempts\.jsonl, line 2"):
        step_lines.read(path)
