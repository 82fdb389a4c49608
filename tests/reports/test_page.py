"""The page's numbers are those of the record, and every state of a run folder gives a page or one clear line."""

import json
import re
import shutil
import sqlite3
from html.parser import HTMLParser

import numpy as np
import pytest

import made_run
import toy_agent
from rewardrate.errors import InputError
from rewardrate.reports import page
from rewardrate.reports.run import find

# ---- an independent reading of run.sqlite: plain SQL and plain loops, nothing of the package


def sql(folder, query):
    with sqlite3.connect(f"file:{folder / 'run.sqlite'}?mode=ro", uri=True) as db:
        rows = db.execute(query).fetchall()
    db.close()
    return rows


def chains_of(folder, column):
    """Chain -> [(seconds used when it was finished, value or None)], in order of steps."""
    found, used = {}, {}
    for row, valid, seconds, status, value in sql(
        folder, f"SELECT row, valid, seconds, status, {column} FROM attempts ORDER BY step, row"
    ):
        used[row] = used.get(row, 0.0) + (0.0 if status == "sandbox-failure" else seconds)
        found.setdefault(row, []).append((used[row], value if valid else None))
    return found


def final(folders):
    """What both runs have used on average over their chains (their recipes state no budget of script seconds)."""
    return min(np.mean([chain[-1][0] for chain in chains_of(folder, "reward").values()]) for folder in folders)


def shown(chain, budget, value, column):
    """What a chain has to show of what was finished by then; the task's score is better when higher."""
    done = [worth for finished, worth in chain if finished <= budget]
    if value == "current":
        return (done[-1] or 0.0) if done else 0.0
    done = [worth for worth in done if worth is not None]
    if not done:
        return 0.0 if column == "reward" else None
    return done[-1] if value == "latest-valid" else max(done)


def at(folder, budget, value, column):
    values = [shown(chain, budget, value, column) for chain in chains_of(folder, column).values()]
    return [each for each in values if each is not None]


def near_end(folder, budget, value, column):
    """The mean of what each chain has to show over 21 budgets from 0.8 T to T; chains that never show are left out."""
    found = []
    for chain in chains_of(folder, column).values():
        values = [shown(chain, budget * (0.8 + 0.01 * i), value, column) for i in range(21)]
        values = [each for each in values if each is not None]
        found += [sum(values) / len(values)] if values else []
    return found


WORDS = {"current": "latest attempt, invalid = 0", "latest-valid": "latest valid attempt", "best-so-far": "best so far"}


class Cells(HTMLParser):
    """The tables of a page: lists of rows of texts."""

    def __init__(self):
        super().__init__()
        self.tables, self.inside = [], False

    def handle_starttag(self, tag, attrs):
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")
            self.inside = True

    def handle_endtag(self, tag):
        if tag in ("td", "th"):
            self.inside = False

    def handle_data(self, data):
        if self.inside:
            self.tables[-1][-1][-1] += data


@pytest.fixture(scope="module")
def text(both, tmp_path_factory):
    return page.write(both, tmp_path_factory.mktemp("out")).read_text()


def tables(text):
    cells = Cells()
    cells.feed(text)
    return cells.tables


def numbers(cell):
    return [float(part) for part in re.findall(r"[+-]?\d+\.\d+", cell)]


def test_means_at_T_differences_and_improvements_are_those_of_the_sqlite_file(both, text):
    rows = tables(text)[0]
    budget = final([both / "rpg", both / "vanilla"])
    assert numbers(rows[0][0])[0] == pytest.approx(budget, abs=0.051)
    assert [row[0] for row in rows[1:]] == [
        f"mean {column}, {words}" for column in ("reward", "score") for words in WORDS.values()
    ]
    for name, *cells in rows[1:]:
        column = "reward" if "reward" in name else "score"
        value = next(value for value, words in WORDS.items() if name.endswith(words))
        rpg, vanilla = (near_end(both / arm, budget, value, column) for arm in ("rpg", "vanilla"))
        means = np.mean(rpg), np.mean(vanilla)
        expected = [*means, means[0] - means[1], 100 * (means[0] - means[1]) / means[1]]
        for cell, number, digits in zip(cells, expected, (3, 3, 3, 1), strict=True):
            assert numbers(cell)[0] == pytest.approx(number, abs=0.51 * 10**-digits)


def test_the_intervals_are_those_of_an_independent_bootstrap(both, text):
    """20,000 draws against 2,000 with other seeds: ends differ by less than a tenth of the width (both are fixed)."""
    budget = final([both / "rpg", both / "vanilla"])
    rng = np.random.default_rng(99)
    arms = [np.array(near_end(both / arm, budget, "current", "reward")) for arm in ("rpg", "vanilla")]
    means = [values[rng.integers(values.size, size=(20_000, values.size))].mean(axis=1) for values in arms]
    ratio = np.divide(means[0] - means[1], means[1], out=np.full(20_000, np.nan), where=means[1] > 0)
    found = [*means, means[0] - means[1], 100 * ratio]  # a draw in which vanilla has 0 is left out
    for cell, drawn in zip(tables(text)[0][1][1:], found, strict=True):
        low, high = np.nanquantile(drawn, (0.025, 0.975))
        assert numbers(cell)[1:] == pytest.approx([low, high], abs=0.1 * (high - low))


TOTALS = """SELECT sum(CASE WHEN valid THEN reward ELSE 0 END), sum(seconds), avg(valid), count(*),
    count(DISTINCT row) FROM attempts WHERE status != 'sandbox-failure'"""


def test_what_the_time_brought_is_that_of_the_sqlite_file(both, text):
    head, *rows = tables(text)[1]
    assert head == ["what the time brought", "rpg", "vanilla", "difference"]
    budget, expected = final([both / "rpg", both / "vanilla"]), {}
    for arm in ("rpg", "vanilla"):
        ((reward, seconds, valid, count, chains),) = sql(both / arm, TOTALS)
        by_then = 0.0
        for chain in chains_of(both / arm, "reward").values():
            by_then += sum(worth or 0.0 for finished, worth in chain if finished <= budget)
        expected[arm] = [reward / seconds, by_then / chains, reward / count, seconds / count, valid, 0.9]
    for place, (name, *cells) in enumerate(rows):
        rpg, vanilla = expected["rpg"][place], expected["vanilla"][place]
        for cell, number in zip(cells, (rpg, vanilla, rpg - vanilla), strict=True):
            assert numbers(cell)[0] == pytest.approx(number, abs=5.1e-4), name


def test_the_headline_holds_the_numbers_of_the_tables(both, text):
    first = re.search(r'<p class="verdict">(.*?)</p>', text)[1]
    budget = final([both / "rpg", both / "vanilla"])
    ends = [np.mean(near_end(both / arm, budget, "current", "reward")) for arm in ("rpg", "vanilla")]
    rates = [row[0] / row[1] for arm in ("rpg", "vanilla") for row in sql(both / arm, TOTALS)]
    for rpg, vanilla in (rates, ends):
        assert f"rpg {rpg:.3f} (" in first
        assert f"vanilla {vanilla:.3f} (" in first
        assert f"difference {rpg - vanilla:+.3f} (" in first
    assert "It cannot be said yet whether pricing time paid: this one pair of runs has" in first
    assert "no repetition of training" in first


def test_the_line_of_every_run_is_that_of_the_sqlite_file(both, text):
    head, *rows = tables(text)[2]
    for row in rows:
        folder = both / row[head.index("run")]
        ((count, valid, seconds),) = sql(folder, "SELECT count(*), avg(valid), avg(seconds) FROM attempts")
        ((best,),) = sql(folder, "SELECT max(reward) FROM attempts WHERE valid")
        ((reward,),) = sql(folder, "SELECT sum(CASE WHEN valid THEN reward ELSE 0 END) FROM attempts")
        ((rate,),) = sql(folder, "SELECT rate FROM steps ORDER BY step DESC LIMIT 1")
        cell = dict(zip(head, row, strict=True))
        assert int(cell["attempts"]) == count
        assert cell["valid share"] == f"{valid:.0%}"
        assert float(cell["seconds per attempt"]) == pytest.approx(seconds, rel=1e-3)
        assert float(cell["reward per attempt"]) == pytest.approx(reward / count, rel=1e-3)
        assert float(cell["reward per second"]) == pytest.approx(reward / (seconds * count), rel=1e-3)
        assert float(cell["best reward"]) == pytest.approx(best, rel=1e-3)
        assert float(cell["rate"]) == pytest.approx(rate, rel=1e-3)


def test_the_curves_under_the_cursor_are_those_of_the_sqlite_file(both, text):
    charts = json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1])["charts"]
    for name, column, value in (
        ("budget-reward-current", "reward", "current"),
        ("budget-score-current", "score", "current"),
        ("budget-reward-latest-valid", "reward", "latest-valid"),
        ("budget-score-best-so-far", "score", "best-so-far"),
    ):
        for line in charts[name]["lines"]:
            folder = both / line["label"]
            for place in (40, 100, 160):
                expected = np.mean(at(folder, line["x"][place] + 1e-4, value, column))  # six digits are kept
                assert line["y"][place] == pytest.approx(expected, rel=0.02)
                assert line["low"][place] <= line["y"][place] <= line["high"][place]
    for line in charts["rate"]["lines"]:
        rates = sql(both / line["label"], "SELECT rate FROM steps ORDER BY step")
        assert line["y"] == pytest.approx([rate for (rate,) in rates], rel=1e-5)
    for line in charts["cumulative"]["lines"]:
        query = "SELECT avg(reward), avg(seconds) FROM attempts GROUP BY step ORDER BY step"
        reward, seconds = np.cumsum(sql(both / line["label"], query), axis=0)[-1]
        assert (line["x"][-1], line["y"][-1]) == pytest.approx((seconds, reward), rel=1e-5)


# ---- alone and safe


def test_the_page_stands_alone(both, text, tmp_path):
    assert re.findall(r"""(?:src|href)=["']?(https?:[^"' >]+)""", text) == []
    assert re.findall(r"url\((?!#)", text) == []
    assert "Was pricing time worth it?" in text
    assert "rpg: best script" in text
    path = page.write(both, tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', text)[1]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "connect-src" not in policy
    assert " style=" not in text.split("<script>")[0].split("</style>")[1]


def test_several_tasks_give_a_table_and_grids(many, tmp_path):
    text = page.write(many, tmp_path).read_text()
    head, *rows = tables(text)[0]
    assert [row[0] for row in rows] == ["diamonds (↓)", "digits8x8 (↑)", "grants (↑)"]
    assert all("±" in row[head.index("rpg")] for row in rows)
    assert text.count('data-chart="budget-score-current-') == 3
    assert text.count('data-chart="cumulative-') == 3
    assert "12 runs, one by one" in text


def test_one_arm_alone_and_a_learner_without_numbers_give_a_page(tmp_path):
    folder = made_run.make(tmp_path / "run", steps=2, batch=3, learner=False, about={"task": "of my own"})
    text = page.write(folder).read_text()
    assert "What came out" in text
    assert "health-" not in text
    assert 'data-chart="budget-score' not in text  # nobody knows which way its metric points


def test_a_run_in_which_nothing_is_valid_gives_a_page(tmp_path):
    def fail(_, fields):
        return fields | {"valid": False, "reward": 0.0, "score": None, "status": "error"}

    for arm in ("rpg", "vanilla"):
        made_run.make(tmp_path / arm, arm=arm, steps=2, batch=3, spoil=fail)
    text = page.write(tmp_path).read_text()
    assert "no valid script" in text
    assert "It cannot be said yet whether pricing time paid" in text


def test_failures_of_the_sandbox_infinite_scores_and_one_step_give_a_page(tmp_path):
    def odd(number, fields):
        if number % 3 == 0:
            return fields | {"status": "sandbox-failure", "valid": False, "reward": 0.0, "score": None}
        return fields | {"valid": True, "reward": 1.0, "status": "ok", "score": float("inf"), "contaminated": True}

    for arm in ("rpg", "vanilla"):
        made_run.make(tmp_path / arm, arm=arm, steps=1, batch=3, spoil=odd)
    text = page.write(tmp_path).read_text()
    assert "the sandbox failed on 1 attempts" in text
    assert "shared their cores" in text
    assert "NaN" not in text.split("<script>")[0]


def test_after_one_step_no_line_is_drawn_through_one_point(tmp_path):
    for arm in ("rpg", "vanilla"):
        made_run.make(tmp_path / "one" / arm, arm=arm, steps=1, batch=3, fast=True)
    text = page.write(tmp_path / "one").read_text()
    assert "After one step there is nothing to draw over steps yet" in text
    assert not {"rate", "steps", "learning"} & set(re.findall(r'<section id="(\w+)"', text))
    assert "After one step" not in page.write(made_run.make(tmp_path / "two", steps=2, batch=3, fast=True)).read_text()


def test_a_run_with_only_failures_of_the_sandbox_gives_a_page(tmp_path):
    def ours(_, fields):
        return fields | {"status": "sandbox-failure", "valid": False, "reward": 0.0, "score": None, "seconds": 0.1}

    for arm in ("rpg", "vanilla"):
        made_run.make(tmp_path / arm, arm=arm, steps=2, batch=2, spoil=ours)
    assert "What came out" in page.write(tmp_path).read_text()


# ---- states of a run folder


def test_a_run_that_still_goes_on_gives_a_page_that_says_so(tmp_path):
    from rewardrate.attempt import Outcome, Proposal
    from rewardrate.runlog import RunLog

    made_run.make(tmp_path / "run", steps=2, batch=3)
    with RunLog.open(tmp_path / "run") as log:
        log.begin_step(3, [Proposal("x")] * 3)
        log.outcome(3, 0, Outcome(True, 1.0, 1.0, 1.0, "fine", "ok", "x"))
        text = page.write(tmp_path / "run").read_text()
    assert "step 3 is under way, or was when the run stopped: 1 of 3 scripts" in text


def test_a_folder_whose_config_is_gone_or_broken_gives_a_page(both, tmp_path):
    shutil.copytree(both, tmp_path / "copy")
    (tmp_path / "copy" / "rpg" / "config.toml").unlink()
    (tmp_path / "copy" / "vanilla" / "config.toml").write_bytes(b"\xff= broken [")
    assert "Was pricing time worth it?" in page.write(tmp_path / "copy").read_text()


@pytest.mark.parametrize("size", [0, 1, 100, 5_000, 40_000])
def test_a_truncated_log_is_one_clear_line_and_the_other_arm_still_gets_its_page(both, tmp_path, size):
    shutil.copytree(both, tmp_path / "copy")
    log = tmp_path / "copy" / "rpg" / "run.sqlite"
    log.write_bytes(log.read_bytes()[:size])
    with pytest.raises(InputError) as told:
        page.write(tmp_path / "copy" / "rpg")
    assert "\n" not in str(told.value)
    assert "Left out: run" in page.write(tmp_path / "copy").read_text()


def test_an_empty_folder_a_new_run_and_a_foreign_version_are_reported(tmp_path, both):
    with pytest.raises(InputError, match="there is no run in it"):
        page.write(tmp_path)
    toy_agent.loop(tmp_path / "new", steps=1).log.close()
    with pytest.raises(InputError, match="no finished step yet"):
        page.write(tmp_path / "new")
    for version in (0, 99):
        folder = tmp_path / f"v{version}"
        shutil.copytree(both / "rpg", folder)
        with sqlite3.connect(folder / "run.sqlite") as db:
            db.execute(f"PRAGMA user_version = {version}")
        db.close()
        with pytest.raises(InputError, match=f"its format is version {version}"):
            page.write(folder)


def test_several_folders_need_a_place_to_write_and_one_that_can_be_written(both, tmp_path):
    with pytest.raises(InputError, match="give --out"):
        page.write([both / "rpg", both / "vanilla"])
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written there"):
        page.write(both, tmp_path / "file")


def test_settings_that_differ_between_the_arms_are_named(tmp_path):
    for arm, batch in (("rpg", 4), ("vanilla", 5)):
        config = f'batch = {batch}\nseed = {batch}\n[objective]\narm = "{arm}"\n[budget]\nsteps = {batch}\n'
        made_run.make(tmp_path / arm, arm=arm, steps=2, batch=batch, config=config)
    text = page.write(tmp_path).read_text()
    assert "differ in more than arm and seed: batch." in text


@pytest.mark.parametrize(
    "task",
    [r"$x$ and $\\frac{ <b>", "中文 \x01\x00 \u2028", "", "../../x"]
    + [pytest.param(name, marks=pytest.mark.deep) for name in ("$x$ and $", r"$\\frac{", "_hidden", "a" * 500, "<b>")],
)
def test_a_task_of_any_name_gives_a_page_and_figures(tmp_path, task):
    from rewardrate.reports import files

    for arm in ("rpg", "vanilla"):
        made_run.make(tmp_path / arm, arm=arm, steps=1, batch=2, task=task)
    written = files.write([tmp_path], tmp_path / "out")
    assert "<b>" not in written.page.read_text().replace("<b>out</b>", "").replace(f"<b>{tmp_path.name}</b>", "")


def test_the_same_runs_give_the_same_page(both):
    assert page.page(find(both), "x") == page.page(find(both), "x")
