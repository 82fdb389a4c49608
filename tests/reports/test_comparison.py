"""What a comparison came to, recomputed from the run logs with plain SQL and plain Python, without the package."""

import json
import math
import re
import shutil
import sqlite3
import statistics
import tomllib
from collections import Counter
from itertools import product

import numpy as np
import pytest

import made_comparison
from rewardrate.reports.comparison import DRAWS, ComparisonResult, bootstrap, interval_of, most_frequent
from rewardrate.reports.comparison_tables import as_table
from rewardrate.reports.run import read
from rewardrate.reports.survey import survey


@pytest.fixture(scope="module")
def table(compared):
    """What `--json` prints."""
    found = survey(compared)
    return json.loads(json.dumps(as_table(found, ComparisonResult(found))))


# ---- the same numbers again, from the files alone


def recomputed(path):
    """Every quantity of one run. Nothing of the package is used."""
    recipe = tomllib.loads((path / "config.toml").read_text())
    db = sqlite3.connect(path / "run.sqlite")
    rows = db.execute("SELECT row, valid, reward, seconds, status, code FROM attempts ORDER BY step, row").fetchall()
    notes = [text for (text,) in db.execute("SELECT message FROM events WHERE kind = 'report' ORDER BY id")]
    db.close()
    T = recipe["budget"]["script_seconds"] / recipe["batch"]
    chains = {row: [] for row, *_ in rows}  # (when it ended, valid, reward) of every charged attempt
    late = Counter()
    for row, valid, reward, seconds, status, code in rows:
        if status == "sandbox-failure":
            continue
        before = chains[row][-1][0] if chains[row] else 0.0
        chains[row].append((before + seconds, bool(valid), reward))
        if valid and 0.8 * T <= before + seconds <= T:
            late[code] += 1
    budgets = [T * (0.8 + 0.01 * place) for place in range(21)]
    shown = {"current": [], "latest_valid": [], "best_so_far": []}
    for attempts in chains.values():
        for budget in budgets:
            done = [(valid, reward) for end, valid, reward in attempts if end <= budget]
            good = [reward for valid, reward in done if valid]
            shown["current"].append(done[-1][1] if done and done[-1][0] else 0.0)
            shown["latest_valid"].append(good[-1] if good else 0.0)
            shown["best_so_far"].append(max(good, default=0.0))
    charged = [row for row in rows if row[4] != "sandbox-failure"]
    earned = sum(row[2] for row in charged if row[1])
    by_T = sum(reward for attempts in chains.values() for end, valid, reward in attempts if valid and end <= T)
    return {f"reward_at_T_{name}": statistics.fmean(values) for name, values in shown.items()} | {
        "reward_per_second": earned / sum(row[3] for row in charged),
        "cumulative_reward": by_T / len(chains),
        "reward_per_attempt": earned / len(charged),
        "seconds_per_attempt": sum(row[3] for row in charged) / len(charged),
        "valid_share": sum(row[1] for row in charged) / len(charged),
        "held_out_reward": float(re.match(r"attempt \d+: reward ([\d.]+)", notes[-1])[1]),
        "most_frequent_script": max(late.values()) / sum(late.values()) if late else None,
    }


@pytest.fixture(scope="module")
def again(compared):
    """(task, seed, arm) -> its quantities."""
    found = {}
    for path in sorted(compared.path.glob("*-s*/*/run.sqlite")):
        task, _, seed = path.parent.parent.name.rpartition("-s")
        found[task, int(seed), path.parent.name] = recomputed(path.parent)
    return found


def test_every_quantity_of_every_run_is_that_of_the_log(table, again):
    assert len(table["runs"]) == len(again) == 18
    for run in table["runs"]:
        mine = again[run["task"], run["seed"], run["arm"]]
        for name, value in mine.items():
            assert run[name] == (None if value is None else pytest.approx(value, rel=1e-9, abs=1e-12)), (run, name)
    assert len({round(one["reward_at_T_current"], 6) for one in again.values()}) == 18, "runs that tell nothing apart"
    assert any(one["reward_at_T_current"] < one["reward_at_T_latest_valid"] for one in again.values())


def tail(wins, losses):
    """Two-sided exact sign test."""
    n = wins + losses
    below = [math.comb(n, k) / 2**n for k in range(n + 1)]
    return min(1.0, sum(p for p in below if p <= below[wins] * (1 + 1e-9)))


def test_differences_tasks_won_sign_test_and_improvement_are_those_of_the_logs(table, again):
    arms = [(one["arm"], one["against"]) for one in table["contrasts"]]
    assert arms == [("rpg", "vanilla"), ("horizon", "vanilla"), ("horizon", "rpg")]
    tasks = list(dict.fromkeys(task for task, _, _ in again))
    for one in table["contrasts"]:
        assert one["primary"] == next(iter(one["quantities"])) == "reward_at_T_current"
        for name, found in one["quantities"].items():
            blocks = {}
            for task in tasks:
                pairs = [[again[task, seed, one[arm]][name] for arm in ("arm", "against")] for seed in (0, 1)]
                blocks[task] = {seed: pair[0] - pair[1] for seed, pair in enumerate(pairs) if None not in pair}
            blocks = {task: seeds for task, seeds in blocks.items() if seeds}
            means = {task: statistics.fmean(seeds.values()) for task, seeds in blocks.items()}
            assert found["difference"]["value"] == pytest.approx(statistics.fmean(means.values()), abs=1e-9)
            for task, seeds in blocks.items():
                assert found["tasks"][task]["difference"] == pytest.approx(means[task], abs=1e-9)
                assert found["tasks"][task]["seeds"] == {
                    str(seed): pytest.approx(value, abs=1e-9) for seed, value in seeds.items()
                }
            ahead, behind = sum(value > 0 for value in means.values()), sum(value < 0 for value in means.values())
            assert (found["ahead"], found["behind"]) == (ahead, behind)
            assert found["p"] == pytest.approx(tail(ahead, behind))
        percents = []
        for task in tasks:
            first, second = (
                statistics.fmean(again[task, seed, one[arm]]["reward_at_T_current"] for seed in (0, 1))
                for arm in ("arm", "against")
            )
            percents.append(100 * (first - second) / abs(second))
        improvement = one["improvement_percent"]
        assert improvement["mean"]["value"] == pytest.approx(statistics.fmean(percents))
        assert improvement["trimmed"]["value"] == pytest.approx(sorted(percents)[1])


def test_the_bounds_of_the_pooled_interval_are_quantiles_of_the_exact_bootstrap_distribution(table):
    """Three tasks of two seeds: every draw can be enumerated. 10,000 draws miss a quantile's probability by 5 s.e. at
    most, and the seed is fixed.
    """
    miss = 5 * math.sqrt(0.025 * 0.975 / DRAWS)
    for one in table["contrasts"]:
        for name in ("reward_at_T_current", "reward_per_second"):
            found = one["quantities"][name]
            seeds = [list(task["seeds"].values()) for task in found["tasks"].values()]
            slot = [
                (value, p / len(seeds)) for a, b in seeds for value, p in ((a, 0.25), ((a + b) / 2, 0.5), (b, 0.25))
            ]
            exact = [
                (statistics.fmean(v for v, _ in draw), math.prod(p for _, p in draw))
                for draw in product(slot, repeat=3)
            ]
            assert sum(p for _, p in exact) == pytest.approx(1)
            for bound, share in (("low", 0.025), ("high", 0.975)):
                value = found["difference"][bound]
                below = sum(p for drawn, p in exact if drawn < value - 1e-9)
                up_to = sum(p for drawn, p in exact if drawn <= value + 1e-9)
                assert below - miss <= share <= up_to + miss


# ---- the parts


def test_the_interval_covers_the_truth_about_as_often_as_it_says():
    """12 tasks of 2 seeds, 150 trials; at a coverage of 92 % fewer than 122 hits have a probability below 1e-5."""
    rng = np.random.default_rng(1)
    hits = 0
    for _ in range(150):
        tasks = rng.normal(0.1, 0.1, 12)
        groups = {str(place): list(rng.normal(mean, 0.05, 2)) for place, mean in enumerate(tasks)}
        _, drawn = bootstrap(groups, draws=300)
        low, high = np.quantile(drawn, (0.025, 0.975))
        hits += low <= 0.1 <= high
    assert hits >= 122


def test_a_draw_keeps_blocks_together_and_curves_are_drawn_as_numbers_are():
    groups = {"a": [1.0, 2.0], "b": [5.0], "c": [0.0, 3.0, 6.0]}
    mean, drawn = bootstrap(groups, draws=400, seed=5)
    assert mean == pytest.approx((1.5 + 5 + 3) / 3)
    curves = {name: [np.array([value, -value]) for value in values] for name, values in groups.items()}
    _, both = bootstrap(curves, draws=400, seed=5)
    assert np.allclose(both, np.column_stack([drawn, -drawn]))


def test_one_block_has_no_interval():
    found = interval_of({"diamonds": [0.3]})
    assert (found.value, found.low, found.high) == (0.3, None, None)


def test_blocks_that_deviate_are_used_and_the_result_without_them_stands_beside(tmp_path):
    folder = made_comparison.complete(tmp_path / "study", tasks=("digits8x8", "diamonds"))
    block = folder.plan().blocks[0]
    folder.note(block, "rpg", folder.notes(block)["rpg"] | {"start": "b" * 64})
    found = ComparisonResult(survey(folder))
    (contrast,) = found.contrasts
    assert sum(map(len, contrast.primary.tasks.values())) == 4, "nothing is left out for a deviation"
    left = {task: [value for seed, value in seeds.items() if (task, seed) != (block.task, block.seed)]
            for task, seeds in contrast.primary.tasks.items()}  # fmt: skip
    assert contrast.without_deviations == interval_of(left)
    assert contrast.by_start is None, "the first arm of every block began from the same start"


def test_a_baseline_other_than_vanilla_turns_the_sign(compared, tmp_path, table):
    shutil.copytree(compared.path, tmp_path / "study")
    folder = type(compared)(tmp_path / "study")
    plan = made_comparison.plan(arms=("vanilla", "rpg", "horizon"), baseline="rpg")
    folder.freeze(plan, folder.recipe(), accept_changes=True)
    found = ComparisonResult(survey(folder)).contrasts
    assert [one.name for one in found] == ["vanilla less rpg", "horizon less rpg", "horizon less vanilla"]
    other = table["contrasts"][0]["quantities"]["reward_at_T_current"]["difference"]
    assert found[0].primary.difference.value == pytest.approx(-other["value"])
    of_rpg = [run["reward_at_T_current"] for run in table["runs"] if run["arm"] == "rpg"]
    assert np.mean([row.both.vanilla.value for row in found[0].table.rows]) == pytest.approx(np.mean(of_rpg))
    assert found[0].table.baseline == "rpg"


def test_the_headline_says_what_the_interval_allows(compared):
    for one in ComparisonResult(survey(compared)).contrasts:
        first, second = one.headline
        verdict = {1: "lies above 0", -1: "lies below 0", 0: "no difference is shown"}[one.primary.difference.sign]
        assert verdict in first
        assert "; mean over 3 tasks and 6 blocks." in first
        assert first.endswith(". With fewer than 5 tasks it is too narrow.")
        assert f"ahead on {one.primary.wins} of 3 tasks and behind on {one.primary.losses}" in second


def test_tasks_without_a_relative_improvement_are_counted_in_the_sentence(tmp_path):
    """From an under-trained start vanilla may have nothing valid on a task: no percentage of 0 is defined."""
    tasks = ("digits8x8", "diamonds", "grants", "mnist-5k")
    folder = made_comparison.freeze(tmp_path / "study", made_comparison.plan(tasks=tasks, seeds=(0,)))
    nothing = {"valid": False, "reward": 0.0, "score": None, "status": "error"}
    for block in folder.plan().blocks:
        for arm in folder.plan().arms:
            worse = block.task == "grants" and arm == "vanilla"
            made_comparison.add(folder, block, arm, spoil=lambda _, fields, w=worse: fields | (nothing if w else {}))
    (contrast,) = ComparisonResult(survey(folder)).contrasts
    assert contrast.table.without_improvement == ("grants",)
    assert "best and the worst and 1 task on which vanilla has 0: " in contrast.headline[1]
    assert len(contrast.primary.tasks) == 4, "the difference has all tasks"


def test_a_policy_that_writes_one_script_is_seen(tmp_path):
    def same(number, fields):
        return fields | {"code": "print(1)"}

    folder = made_comparison.freeze(tmp_path / "study", made_comparison.plan())
    path = made_comparison.add(folder, folder.plan().blocks[0], "rpg", spoil=same)
    run = read(path)
    assert most_frequent(run, 20.0) == 1.0
    assert math.isnan(most_frequent(run, 0.01)), "no valid attempt ends there"
