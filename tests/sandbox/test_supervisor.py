"""The supervisor keeps the ends of endless output and reads reports, whole or not."""

import json
import struct

from hypothesis import given
from hypothesis import strategies as st

from rewardrate.sandbox.supervisor import KEEP_BYTES, Report, Tail, _parse


def test_head_and_tail_are_kept_and_the_middle_is_counted():
    tail = Tail()
    for _ in range(10):
        tail.add(b"a" * KEEP_BYTES)
    tail.add(b"end")
    text = tail.text()
    assert text.startswith("a" * 100)
    assert text.endswith("end")
    assert f"{8 * KEEP_BYTES + 3:,} bytes left out" in text
    assert len(text) < 2 * KEEP_BYTES + 100


def test_what_is_not_printable_is_shown_as_such():
    tail = Tail()
    tail.add(b"\x1b[2J\x00ok\n\xff")
    assert tail.text() == "\ufffd[2J\ufffdok\n\ufffd"


def test_a_report_is_a_length_a_head_and_the_files():
    head = json.dumps({"seconds": 1.0, "sizes": {"a": 2, "b": 3}}).encode()
    report = Report()
    _parse(report, struct.pack("<I", len(head)) + head + b"xxyyy")
    assert report.files == {"a": b"xx", "b": b"yyy"}
    empty = Report()
    _parse(empty, b"")
    assert empty.found == {}


def part(found, files=b""):
    head = json.dumps(found).encode()
    return struct.pack("<I", len(head)) + head + files


def test_the_parts_of_a_report_add_up_and_an_unfinished_one_is_left_out():
    whole = part({"started": True}) + part({}) + part({"seconds": 1.0, "sizes": {"a": 2}}, b"xx")
    for cut in range(len(whole) + 1):
        report = Report()
        _parse(report, whole[:cut])
        assert report.found.get("started", False) is (cut >= len(part({"started": True})))
        assert ("seconds" in report.found) == (report.files == {"a": b"xx"}) == (cut == len(whole))


@given(st.binary(max_size=300))
def test_no_bytes_are_too_odd_for_a_report(noise):
    for body in (noise, struct.pack("<I", len(noise)) + noise, part({"sizes": {"a": 3, "b": "x"}}) + noise):
        _parse(Report(), body)
    deep = b"[" * 100_000
    _parse(Report(), struct.pack("<I", len(deep)) + deep)
