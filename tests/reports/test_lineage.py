import base64
import json
import random
import shutil
import sqlite3
import zlib
from dataclasses import replace

from rewardrate.environments.speedrun import seeds
from rewardrate.environments.speedrun.seeds import Record, Seed
from rewardrate.reports import lineage as room
from rewardrate.reports import page as pages
from rewardrate.reports.run import find, read
from rewardrate.reports.texts import PackedTexts, unpack


def opened(data):
    return json.loads(zlib.decompress(base64.b64decode(data["runs"]))), unpack(
        PackedTexts(data["lines"], data["texts"])
    )


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


def test_a_seed_is_the_parent_of_what_was_made_from_it_with_its_script(both, tmp_path):
    run = replace(read(both / "rpg"), folder=tmp_path)
    seeds.write(tmp_path / "seeds", [Seed("first", "x = 1\n", Record(True, 0.5, 9.0, "fine"))])
    rows = [replace(row, seed="first") if row.parent is None else row for row in run.attempts]
    data, _ = room.lineage([replace(run, attempts=tuple(rows))])
    (table,), texts = opened(data)
    assert table["seeds"] == ["first"]
    assert (table["id"][0], table["parent"][0], table["seconds"][0], table["reward"][0]) == (-1, None, 9.0, None)
    assert texts[table["code"][0]] == "x = 1\n"
    assert table["id"][1:] == [row.id for row in rows]
    assert table["parent"][1:] == [-1 if row.parent is None else row.parent for row in rows]
    assert table["best"] == run.best.id


def test_the_page_shows_a_seed_before_its_children_and_what_they_changed_in_it(both, tmp_path, look):
    shutil.copytree(both / "rpg", tmp_path / "rpg")
    run = read(tmp_path / "rpg")
    child = next(row for row in run.attempts if row.parent is None and row.valid)
    seeds.write(tmp_path / "rpg" / "seeds", [Seed("first", f"{child.code}x = <b>1\n", Record(True, 0.5, 9.0, "fine"))])
    with sqlite3.connect(tmp_path / "rpg" / "run.sqlite") as db:
        db.execute("UPDATE attempts_rows SET seed = 'first' WHERE parent IS NULL")
    db.close()
    page = look(pages.write(tmp_path / "rpg", tmp_path / "page").as_uri())
    page.locator('#tree [data-place="0"] circle').click()
    page.locator("#attempt h3", has_text="Seed first").wait_for()
    assert "9 s" in page.locator("#attempt .facts").inner_text()
    assert "x = <b>1" in page.locator("#attempt pre").inner_text()
    assert f"of {len(run.attempts)} attempts shown" in page.locator("#tree .row").inner_text()
    while not page.locator(f'#tree [data-place="{run.attempts.index(child) + 1}"]').count():
        page.get_by_role("button", name="show more").click()
    page.locator(f'#tree [data-place="{run.attempts.index(child) + 1}"] circle').click()
    page.locator("#attempt h3", has_text=f"Attempt {child.id}").wait_for()
    assert "seed first" in page.locator("#attempt .facts").inner_text()
    assert "seed first" in page.locator("#attempt .descent").inner_text()
    page.locator("#attempt").get_by_role("button", name="difference").click()
    assert "parent: seed first" in page.locator("#attempt .body").inner_text()
    assert page.locator("main b b").count() == 0


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
