"""The page in a real Chromium: everything is drawn, clickable and quiet, and untrusted text stays text."""

import re
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

import made_run
from rewardrate.reports import page as pages
from rewardrate.reports.evaluation import Value
from rewardrate.reports.run import read
from rewardrate.reports.theory import page as theory_page

ROOT = Path(__file__).parents[2]
PROBE = "</script><script>window.pwned=1</script><img src=x onerror=window.pwned=2><svg onload=window.pwned=3>"


@pytest.fixture(scope="module")
def demo(both, tmp_path_factory):
    return pages.write(both, tmp_path_factory.mktemp("page")).as_uri()


def record(both, arm, attempt):
    with sqlite3.connect(f"file:{both / arm / 'run.sqlite'}?mode=ro", uri=True) as db:
        columns = "parent, score, seconds, reward, code, message, step, status, valid"
        values = db.execute(f"SELECT {columns} FROM attempts WHERE id = ?", (attempt,)).fetchone()
    db.close()
    return dict(zip(columns.split(", "), values, strict=True))


CHARTS = {
    *(f"budget-{metric}-{value}" for metric in ("reward", "score") for value in get_args(Value)), "cumulative", "rate",
    "seconds", "reward", "valid", "attempts-rpg", "attempts-vanilla", "failures-rpg", "failures-vanilla", "health-kl",
    "health-entropy", "health-clip_share", "health-value_loss", "phases-rpg", "phases-vanilla",
}  # fmt: skip


def test_every_chart_is_drawn_and_has_a_cursor(demo, look):
    page = look(demo)
    found = page.eval_on_selector_all("figure.chart", "all => all.map(one => one.dataset.chart)")
    assert set(found) == CHARTS
    for button in page.query_selector_all(".choices button"):
        button.click()
        chosen = page.eval_on_selector_all(
            "[data-switch] figure", "all => all.filter(one => !one.hidden).map(one => one.dataset.chart)"
        )
        assert chosen == [button.get_attribute("data-name")]
        drawn(page, chosen[0])
    for name in CHARTS - {name for name in CHARTS if name.startswith("budget")}:
        drawn(page, name)


def drawn(page, name):
    """The chart has axes, words and marks that take room, and the cursor says what is under it."""
    figure = page.locator(f'figure[data-chart="{name}"]')
    figure.scroll_into_view_if_needed()
    marks = figure.locator("svg path").evaluate_all(
        "all => all.filter(one => { const box = one.getBoundingClientRect(); return box.width + box.height > 8; }).length"
    )
    assert marks >= 4, name
    assert figure.locator("svg text").count() >= 5, name
    figure.focus()
    page.keyboard.press("End")
    readout = figure.locator(".readout")
    assert readout.is_visible(), name
    assert any(letter.isdigit() for letter in readout.inner_text()), name
    page.keyboard.press("Escape")
    assert not readout.is_visible()


def test_a_pointer_reads_the_value_and_the_numbers_are_there_as_a_table(demo, look):
    page = look(demo)
    figure = page.locator('figure[data-chart="rate"]')
    figure.scroll_into_view_if_needed()
    box = figure.locator("svg").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.97, box["y"] + box["height"] / 2)
    assert "step 6" in figure.locator(".readout").inner_text()
    figure.locator("figcaption button").click()
    assert figure.locator(".numbers tbody tr").count() == 6


def test_a_click_on_an_attempt_shows_its_script_its_changes_and_the_difference(demo, both, look):
    page = look(demo)
    page.locator("#tree select").select_option("0")
    places = page.eval_on_selector_all("#tree [data-place]", "all => all.map(one => Number(one.dataset.place))")
    number = next(
        place + 1
        for place in places
        if place >= 0 and (row := record(both, "rpg", place + 1))["parent"] and row["valid"]
        and record(both, "rpg", row["parent"])["code"] != row["code"]
    )  # fmt: skip
    row, parent = record(both, "rpg", number), record(both, "rpg", record(both, "rpg", number)["parent"])
    page.locator(f'#tree [data-place="{number - 1}"] circle').click()
    panel = page.locator("#attempt")
    assert f"Attempt {number}" in panel.inner_text()
    assert row["message"] in panel.inner_text()
    for name in ("score", "seconds"):
        shown = panel.locator(f'[data-change="{name}"]').inner_text()
        expected = row[name] - parent[name]
        if expected:
            said = float(shown.split()[0].replace("−", "-"))
            assert said == pytest.approx(expected, rel=6e-3, abs=2e-5)
    panel.get_by_role("button", name="difference").click()
    while panel.locator(".gap button").count():
        panel.locator(".gap button").first.click()
    sides = panel.locator(".diff > div:not(.head)").evaluate_all(
        "all => all.map(one => [one.children[0].textContent && one.children[1].textContent,"
        " one.children[2].textContent && one.children[3].textContent, one.children[0].textContent, one.children[2].textContent])"
    )
    assert [side[0] for side in sides if side[2]] == parent["code"].split("\n")
    assert [side[1] for side in sides if side[3]] == row["code"].split("\n")
    assert panel.locator(".diff .less mark, .diff .more").count() > 0
    panel.get_by_role("button", name="script").click()
    assert panel.locator("pre").text_content() == row["code"]


def test_a_dot_and_a_best_script_lead_to_the_tree(demo, look):
    page = look(demo)
    figure = page.locator('figure[data-chart="attempts-vanilla"]')
    figure.focus()
    page.keyboard.press("Home")
    assert "attempt" in figure.locator(".readout").inner_text()
    page.keyboard.press("Enter")
    page.locator("#attempt .pill", has_text="vanilla").wait_for()
    page.locator("#scripts summary").first.click()
    page.locator("#scripts button").first.click()
    page.locator("#attempt .pill", has_text="rpg").wait_for()


def test_the_tree_is_walked_with_the_keyboard(demo, look):
    page = look(demo)
    page.locator(".tree").focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    first = page.locator("#attempt h3").inner_text()
    page.locator(".tree").focus()
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    page.locator("#attempt h3").filter(has_not_text=re.compile(f"^{first}$")).wait_for()
    page.keyboard.press("ArrowLeft")
    assert page.locator(".tree g.node.at").count() == 1
    reached = set()
    for _ in range(40):  # everything that can be pressed is reached with the tabulator
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.tagName + '.' + document.activeElement.className"))
    assert {"BUTTON."} <= reached


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_scrolls_sideways_on_a_phone(demo, many, tmp_path, look, scheme):
    theory = tmp_path / "theory.html"
    theory.write_text(theory_page(ROOT / "results" / "2026-11-19-theory-check"))
    for address in (demo, pages.write(many, tmp_path).as_uri(), theory.as_uri()):
        page = look(address, width=360, height=740, scheme=scheme)
        for details in page.query_selector_all("summary"):
            details.click()
        assert page.evaluate("document.documentElement.scrollWidth") <= 360


@pytest.mark.parametrize("width", [1280, 360])
def test_long_numbers_of_both_arms_stay_inside_their_tile(tmp_path, look, width):
    def slow(_, fields):
        return fields | {"seconds": 5000 + 300 * fields["seconds"]}

    for arm in ("rpg", "vanilla"):
        made_run.make(tmp_path / arm, arm=arm, steps=3, batch=4, spoil=slow, fast=True)
    page = look(pages.write(tmp_path).as_uri(), width=width, height=740)
    inside = "tile => [...tile.querySelectorAll('b, i, span')].every(one => one.getBoundingClientRect().right <= tile.getBoundingClientRect().right)"
    assert [tile.evaluate(inside) for tile in page.query_selector_all(".tile")] == [True] * 4
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_light_and_dark_follow_the_system_and_the_button(demo, look):
    brightness = (
        "getComputedStyle(document.body).backgroundColor.match(/[\\d.]+/g).slice(0, 3).reduce((a, b) => a + +b, 0)"
    )
    ink = "getComputedStyle(document.querySelector('figure.chart svg text')).fill.match(/[\\d.]+/g).slice(0, 3).reduce((a, b) => a + +b, 0)"
    light, dark = look(demo), look(demo, scheme="dark")
    assert light.evaluate(brightness) > 600 > 200 > dark.evaluate(brightness)
    assert light.evaluate(ink) < 200 < 500 < dark.evaluate(ink)
    dark.locator("#theme").click()
    assert dark.evaluate(brightness) > 600


def test_scripts_messages_names_and_settings_are_shown_and_never_executed(tmp_path, look):
    def spoil(_, fields):
        return fields | {"code": fields["code"] + PROBE, "message": PROBE, "output": PROBE}

    about = {"task": PROBE, "policy": PROBE, "machine": PROBE, "seed": PROBE, "clock": PROBE}
    folder = tmp_path / "a<b>'\"&"
    for arm in ("rpg", "vanilla"):
        made_run.make(
            folder / arm, arm=arm, steps=3, batch=4, about=about, spoil=spoil, config=f"note = '''{PROBE}'''\n"
        )
    page = look(pages.write(folder).as_uri())
    for details in page.query_selector_all("summary"):
        details.click()
    for name in ("script", "output", "difference"):
        if page.locator("#attempt").get_by_role("button", name=name).count():
            page.locator("#attempt").get_by_role("button", name=name).click()
    page.locator("#attempt").get_by_role("button", name="script").click()
    assert PROBE in page.locator("#attempt pre").text_content()
    assert PROBE in page.locator("#scripts pre").first.text_content()
    assert page.evaluate("window.pwned") is None
    assert page.locator("main img, main script, main [onload], main [onerror]").count() == 0


def test_a_script_that_gets_into_the_page_all_the_same_is_stopped_by_the_policy(demo, tmp_path, look, chromium):
    text = Path(demo.removeprefix("file://")).read_text()
    broken = tmp_path / "broken.html"
    inside = '<script>window.pwned=1</script><img src="http://127.0.0.1:9/x" onerror="window.pwned=2">'
    broken.write_text(text.replace("<footer>", f"{inside}<footer>"))
    page = chromium.new_context().new_page()
    page.goto(broken.as_uri())
    page.wait_for_selector("html[data-ready=yes]")
    assert page.evaluate("window.pwned") is None
    page.context.close()


def test_a_link_to_an_attempt_opens_it(demo, look):
    page = look(demo + "#attempt-1-5")
    assert "Attempt 5" in page.locator("#attempt").inner_text()
    assert page.locator("#tree select").input_value() == "1"


def test_parents_that_form_a_circle_do_not_hang_the_page(both, tmp_path, look):
    run = read(both / "rpg")
    last = len(run.attempts)
    turned = tuple(replace(row, parent=last + 1 - row.id) for row in run.attempts)
    path = tmp_path / "report.html"
    path.write_text(pages.page([replace(run, attempts=turned)], "circle"))
    page = look(path.as_uri())
    assert page.locator("#attempt h3").inner_text().startswith("Attempt")
