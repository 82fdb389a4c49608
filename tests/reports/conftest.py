"""Runs to report, made once, and a real browser to look at the pages with."""

import sqlite3

import pytest

import made_comparison
import made_run


@pytest.fixture(scope="session")
def both(tmp_path_factory):
    """A folder with both arms of one task."""
    place = tmp_path_factory.mktemp("both") / "demo"
    for arm in ("rpg", "vanilla"):
        made_run.make(place / arm, arm=arm, steps=6, batch=8)
    return place


@pytest.fixture(scope="session")
def many(tmp_path_factory):
    """A folder with three tasks, two repetitions of each arm; one metric is to be minimised."""
    place = tmp_path_factory.mktemp("many") / "tasks"
    for number, task in enumerate(("digits8x8", "diamonds", "grants")):
        for seed in (0, 1):
            for arm in ("rpg", "vanilla"):
                folder = place / task / f"s{seed}" / arm
                made_run.make(folder, arm=arm, steps=6, batch=6, seed=10 * number + seed, task=task,
                              about={"seed": str(seed)}, fast=True)  # fmt: skip
    return place


@pytest.fixture(scope="session")
def compared(tmp_path_factory):
    """The folder of a finished comparison: three arms, three tasks, two seeds."""
    place = tmp_path_factory.mktemp("compared") / "study"
    return made_comparison.complete(place, arms=("vanilla", "rpg", "horizon"))


@pytest.fixture(scope="session")
def results(tmp_path_factory):
    """A small bandit study."""
    from rewardrate.bandits import StudyConfig, study

    settings = StudyConfig(
        families=("E1", "E4"),
        arms=(5, 6),
        agents=(
            "npg learning_rate=0.3,1 age=60,500",
            "cucb c1=0.1,1 c2=0.01,0.1",
            "npg learning_rate=1 age=60 estimator=totals as=totals",
        ),
        steps=400,
        marks=20,
        tuning_seeds=(900, 903),
        evaluation_seeds=(0, 7),
        resamples=100,
    )
    return study(settings, tmp_path_factory.mktemp("study") / "study.sqlite")


@pytest.fixture
def unfinished(tmp_path, results):
    """The same study, two of its twelve cells not evaluated yet."""
    path = tmp_path / "half.sqlite"
    path.write_bytes(results.read_bytes())
    connection = sqlite3.connect(path)
    for table in ("curves", "evaluation"):
        connection.execute(f"DELETE FROM {table} WHERE agent = 'cucb' AND family = 'E4'")
    connection.commit()
    connection.close()
    return path


@pytest.fixture
def look(chromium):
    """look(address, ...) opens a page; the test fails if it complains or asks for anything but itself."""
    opened = []

    def open_page(address, *, width=1280, height=900, scheme="light", wait=True):
        context = chromium.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
        page = context.new_page()
        page.complaints, page.asked = [], []
        page.on(
            "console", lambda said: page.complaints.append(said.text) if said.type in ("error", "warning") else None
        )
        page.on("pageerror", lambda error: page.complaints.append(str(error)))
        page.on("request", lambda request: page.asked.append(request.url))
        page.set_default_timeout(20_000)
        page.goto(address)
        if wait:
            page.wait_for_selector("html[data-ready=yes]")
        opened.append((address, context, page))
        return page

    yield open_page
    for address, context, page in opened:
        complaints, asked = page.complaints, page.asked
        context.close()
        assert complaints == []
        if address.startswith("file:"):
            assert asked == [address.partition("#")[0]], "the page asked for something"
