import random
import sqlite3
from dataclasses import replace

import pytest

import made_run
from rewardrate.errors import InputError
from rewardrate.reports import page
from rewardrate.reports.run import read
from rewardrate.reports.soundness import ATTEMPT, check


@pytest.mark.parametrize("name", ATTEMPT)
def test_a_value_of_the_wrong_kind_is_named(both, name):
    run = read(both / "rpg")
    check(run.folder, run.about, run.steps, run.attempts, run.events)
    spoilt = replace(run.attempts[3], **{name: b"\x00"})
    with pytest.raises(InputError, match=f"{name} of attempt"):
        check(run.folder, run.about, run.steps, [spoilt], run.events)


def test_steps_events_and_about_are_looked_at_too(both):
    run = read(both / "rpg")
    step, event = run.steps[0], run.events[0]
    for about, steps, events in (
        ({"task": None}, run.steps, run.events),
        (run.about, [replace(step, metrics={"kl": "x"})], run.events),
        (run.about, [replace(step, metrics=[])], run.events),
        (run.about, [replace(step, rate=replace(step.rate, low=None))], run.events),
        (run.about, [replace(step, script_seconds=float("nan"))], run.events),
        (run.about, run.steps, [replace(event, message=None)]),
    ):
        with pytest.raises(InputError, match="it is damaged"):
            check(run.folder, about, steps, run.attempts, events)


def test_a_spoilt_file_gives_a_page_or_an_error_and_nothing_else(tmp_path):
    """Forty files cut, overwritten or zeroed at places drawn from a fixed seed."""
    source = made_run.make(tmp_path / "source", steps=2, batch=3, fast=True) / "run.sqlite"
    whole, draw = source.read_bytes(), random.Random(5)
    told = 0
    for number in range(40):
        spoilt = bytearray(whole)
        place = draw.randrange(len(spoilt))
        if number % 3 == 0:
            spoilt = spoilt[:place]
        elif number % 3 == 1:
            for _ in range(20):
                spoilt[draw.randrange(len(spoilt))] = draw.randrange(256)
        else:
            spoilt[place : place + 4000] = bytes(min(4000, len(spoilt) - place))
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "run.sqlite").write_bytes(spoilt)
        try:
            read(folder)
        except InputError:
            told += 1
        else:
            if number % 4 == 0:
                assert page.write(folder).stat().st_size > 50_000
    assert 5 < told < 40


def test_a_row_whose_number_became_text_is_reported(both, tmp_path):
    import shutil

    shutil.copytree(both / "rpg", tmp_path / "run")
    with sqlite3.connect(tmp_path / "run" / "run.sqlite") as db:
        db.execute("UPDATE attempts_rows SET seconds = 'soon' WHERE id = 3")
    db.close()
    with pytest.raises(InputError, match="seconds of attempt 3 is 'soon'"):
        page.write(tmp_path / "run")
