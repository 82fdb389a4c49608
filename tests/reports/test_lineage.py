import base64
import json
import random
import zlib
from dataclasses import replace

from rewardrate.reports import lineage as room
from rewardrate.reports.run import find, read
from rewardrate.reports.texts import Pack, unpack


def opened(data):
    return json.loads(zlib.decompress(base64.b64decode(data["runs"]))), unpack(Pack(data["lines"], data["texts"]))


def test_every_attempt_is_there_with_its_parent_its_numbers_and_its_texts(both):
    runs = find(both)
    data, notes = room.lineage(runs)
    tables, texts = opened(data)
    assert notes == []
    for run, table in zip(runs, tables, strict=True):
        for place, attempt in enumerate(run.attempts):
            assert table["id"][place] == attempt.id
            assert table["parent"][place] == attempt.parent
            assert texts[table["code"][place]] == attempt.code
            assert texts[table["message"][place]] == attempt.message
            assert abs(table["seconds"][place] - attempt.seconds) <= 1e-5 * attempt.seconds
        assert table["best"] == run.best.id


def test_a_page_that_would_grow_too_large_keeps_the_scripts_that_tell_most(both, monkeypatch):
    run = read(both / "rpg")
    draw = random.Random(0)
    noisy = [replace(row, code="".join(draw.choices("abcdefgh ijk\n", k=4000))) for row in run.attempts]
    monkeypatch.setattr(room, "TEXT_BYTES", 60_000)
    data, notes = room.lineage([replace(run, attempts=tuple(noisy))])
    assert len(data["lines"]) + len(data["texts"]) <= 60_000
    (table,), texts = opened(data)
    parents = {row.parent for row in noisy} - {None}
    kept = {number for number, code in zip(table["id"], table["code"], strict=True) if code >= 0}
    assert 0 < len(kept) < len(noisy)
    assert parents & kept
    assert "without their script" in notes[0]
    assert all(texts[code] for code in table["code"] if code >= 0)


def test_runs_beyond_what_a_page_can_hold_are_left_out_and_named(both, monkeypatch):
    monkeypatch.setattr(room, "ATTEMPTS", 50)
    data, notes = room.lineage(find(both))
    assert len(opened(data)[0]) == 1
    assert "first 1 runs" in notes[0]


def test_a_score_that_is_infinite_is_a_word(both):
    run = read(both / "rpg")
    odd = replace(run, attempts=tuple(replace(row, score=float("-inf")) for row in run.attempts))
    (table,), _ = opened(room.lineage([odd])[0])
    assert set(table["score"]) == {"-inf"}
