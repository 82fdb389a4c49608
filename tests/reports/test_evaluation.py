"""Budget curves by hand, the paper's table, and a bootstrap that covers."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewardrate.attempt import Outcome, Proposal, RateEstimate
from rewardrate.errors import InputError
from rewardrate.reports.evaluation import (
    COLUMNS,
    Chains,
    band,
    budget_grid,
    chains,
    compare,
    curve,
    efficiency,
    equal_budget,
    final_budget,
    held_out,
    over_tasks,
    relative_improvement,
    trimmed_mean,
)
from rewardrate.runlog import RunLog

# Two chains, three steps. Chain 0: valid 0.2 at 10 s, invalid at 15 s, valid 0.6 at 35 s.
# Chain 1: invalid at 20 s, valid 0.9 at 30 s, valid 0.5 at 60 s.
HAND = {
    "step": [1, 1, 2, 2, 3, 3],
    "row": [0, 1, 0, 1, 0, 1],
    "valid": [True, False, False, True, True, True],
    "reward": [0.2, 0.0, 0.0, 0.9, 0.6, 0.5],
    "score": [7.0, None, None, 1.0, 4.0, 5.0],
    "seconds": [10.0, 20.0, 5.0, 10.0, 20.0, 30.0],
    "status": ["ok", "error", "error", "ok", "ok", "ok"],
}
BUDGETS = [0.0, 9.9, 10.0, 16.0, 30.0, 34.0, 35.0, 60.0, 99.0]


def run_of(values, seconds, **more):
    """Chains from S x C tables; None is an attempt that was not valid."""
    rows = [(s, c) for s in range(len(values)) for c in range(len(values[0]))]
    columns = {
        "step": [s for s, _ in rows],
        "row": [c for _, c in rows],
        "valid": [values[s][c] is not None for s, c in rows],
        "reward": [values[s][c] or 0.0 for s, c in rows],
        "score": [values[s][c] for s, c in rows],
        "seconds": [seconds[s][c] for s, c in rows],
    }
    return chains(columns, **more)


def test_a_chain_is_worth_its_latest_finished_attempt_and_an_invalid_one_counts_zero():
    value = chains(HAND).at(BUDGETS)
    assert value[:, 0].tolist() == [0.0, 0.0, 0.2, 0.0, 0.0, 0.0, 0.6, 0.6, 0.6]
    assert value[:, 1].tolist() == [0.0, 0.0, 0.0, 0.0, 0.9, 0.9, 0.9, 0.5, 0.5]
    assert np.array_equal(value, chains(HAND).at(BUDGETS, "current"))


def test_in_a_score_an_invalid_attempt_counts_zero_where_higher_is_better_and_is_left_out_where_lower_is():
    """Counting 0 for a loss would make a failure the best result of all."""
    higher = chains(HAND, metric="score").at([9.0, 10.0, 16.0, 60.0])
    assert higher.tolist() == [[0.0, 0.0], [7.0, 0.0], [0.0, 0.0], [4.0, 5.0]]
    lower = chains(HAND, metric="score", higher_is_better=False).at([9.0, 10.0, 16.0, 60.0])
    assert np.array_equal(lower, [[np.nan, np.nan], [7.0, np.nan], [np.nan, np.nan], [4.0, 5.0]], equal_nan=True)


def test_or_its_latest_valid_one():
    value = chains(HAND).at(BUDGETS, "latest-valid")
    assert value[:, 0].tolist() == [0.0, 0.0, 0.2, 0.2, 0.2, 0.2, 0.6, 0.6, 0.6]
    assert value[:, 1].tolist() == [0.0, 0.0, 0.0, 0.0, 0.9, 0.9, 0.9, 0.5, 0.5]


def test_or_its_best_one():
    assert chains(HAND).at(BUDGETS, "best-so-far")[:, 1].tolist() == [0.0, 0.0, 0.0, 0.0, 0.9, 0.9, 0.9, 0.9, 0.9]
    lower = chains(HAND, metric="score", higher_is_better=False).at([35.0, 60.0], "best-so-far")
    assert lower.tolist() == [[4.0, 1.0], [4.0, 1.0]]
    higher = chains(HAND, metric="score").at([60.0], "best-so-far")
    assert higher.tolist() == [[7.0, 5.0]]


def test_a_chain_with_nothing_to_show_counts_zero_in_reward_and_is_left_out_of_a_raw_metric():
    plain = curve([chains(HAND)], BUDGETS, "latest-valid")[0]
    assert plain.tolist() == pytest.approx([0, 0, 0.1, 0.1, 0.55, 0.55, 0.75, 0.55, 0.55])
    raw = curve([chains(HAND, metric="score")], BUDGETS, "latest-valid")[0]
    assert np.isnan(raw[:2]).all()
    assert raw[2:].tolist() == [7.0, 7.0, 4.0, 4.0, 2.5, 4.5, 4.5]


def test_an_invalid_attempt_uses_its_real_seconds():
    assert chains(HAND).finished[:, 0].tolist() == [10.0, 15.0, 35.0]


def test_a_failure_of_the_sandbox_uses_no_time_and_shows_nothing():
    columns = HAND | {"status": ["ok", "sandbox-failure", "error", "ok", "sandbox-failure", "ok"]}
    run = chains(columns)
    assert run.finished.tolist() == [[10.0, 0.0], [15.0, 10.0], [15.0, 40.0]]
    assert run.at([1000.0], "latest-valid").tolist() == [[0.2, 0.5]]
    assert run.at([14.0, 1000.0]).tolist() == [[0.2, 0.9], [0.0, 0.5]]  # the policy's own failure does show


def test_a_failure_of_the_sandbox_leaves_what_the_chain_had_to_show():
    columns = {"step": [1, 2], "row": [0, 0], "valid": [1, 0], "reward": [0.7, 0.0], "seconds": [1.0, 1.0]}
    assert chains(columns | {"status": ["ok", "error"]}).at([9.0]).tolist() == [[0.0]]
    assert chains(columns | {"status": ["ok", "sandbox-failure"]}).at([9.0]).tolist() == [[0.7]]


def test_rows_may_come_in_any_order_and_steps_may_be_cut_short():
    order = [5, 2, 0, 3, 1]
    run = chains({name: [column[i] for i in order] for name, column in HAND.items()})
    assert run.finished.tolist() == [[10.0, 20.0], [15.0, 30.0], [15.0, 60.0]]
    assert run.at([99.0], "latest-valid").tolist() == [[0.2, 0.5]]
    assert run.at([99.0]).tolist() == [[0.0, 0.5]]  # no attempt at step 3: the invalid one of step 2 is the latest


def test_the_papers_final_budget_is_what_95_percent_of_the_chains_reach():
    run = run_of([[1.0] * 20], [[float(second) for second in range(1, 21)]])
    assert final_budget([run]) == 2.0
    assert final_budget([run], 1.0) == 1.0
    assert final_budget([run], 0.5) == 11.0
    other = run_of([[1.0] * 20], [[100.0] * 20])
    assert final_budget([run, other]) == 3.0
    assert final_budget([other]) == 100.0


@given(st.lists(st.floats(0.1, 1e4), min_size=1, max_size=60), st.floats(0.01, 1.0))
def test_at_least_that_share_reaches_the_final_budget_and_not_a_longer_one(totals, share):
    run = run_of([[1.0] * len(totals)], [totals])
    final = final_budget([run], share)
    assert sum(total >= final for total in totals) >= share * len(totals) - 1e-6
    assert sum(total > final for total in totals) < share * len(totals)


def test_T_is_given_or_what_every_run_has_used_on_average():
    uneven = run_of([[1.0, 1.0]], [[2.0, 6.0]])
    assert equal_budget([uneven, run_of([[1.0]], [[5.0]])]) == 4.0
    assert compare([uneven], [uneven]).final == 4.0
    assert compare([uneven], [uneven], final=2.5).final == 2.5


def test_both_arms_end_at_the_same_budget():
    quick, slow = run_of([[1.0] * 4] * 3, [[1.0] * 4] * 3), run_of([[2.0] * 4] * 3, [[5.0] * 4] * 3)
    both = compare([quick], [slow])
    assert both.final == 3.0
    assert (both.rpg.value, both.vanilla.value) == (1.0, 0.0)
    assert both.improvement.value is None
    later = compare([quick], [slow], final=6.25)
    assert (later.rpg.value, later.vanilla.value, later.improvement.value) == (1.0, 2.0, -50.0)


def test_the_value_at_T_is_the_mean_over_the_budgets_from_four_fifths_of_it():
    """One chain: 1.0 until 9 s, then 2.0. Of 21 budgets from 8 to 10, 10 lie below 9 and 11 at or above."""
    run = run_of([[1.0], [2.0]], [[1.0], [8.0]])
    assert run.at_end(10.0).tolist() == pytest.approx([(10 * 1.0 + 11 * 2.0) / 21])
    both = compare([run], [run], final=10.0)
    assert both.rpg.value == pytest.approx(32 / 21)
    assert both.rpg_ends.tolist() == pytest.approx([32 / 21])


def test_efficiency_is_ratios_of_totals_with_named_denominators():
    found = efficiency([chains(HAND)], [chains(HAND)], 30.0)
    assert found["reward_per_second"].rpg.value == pytest.approx(2.2 / 95)
    assert found["reward_per_attempt"].rpg.value == pytest.approx(2.2 / 6)
    assert found["seconds_per_attempt"].rpg.value == pytest.approx(95 / 6)
    assert found["valid_share"].rpg.value == pytest.approx(4 / 6)
    assert found["cumulative_reward"].rpg.value == pytest.approx((0.2 + 0.9) / 2)  # two chains, by 30 s
    assert all(pair.difference.value == 0.0 for pair in found.values())
    failed = chains(HAND | {"status": ["ok", "sandbox-failure", "error", "ok", "ok", "ok"]})
    assert efficiency([failed], [failed], 30.0)["valid_share"].vanilla.value == pytest.approx(4 / 5)
    with pytest.raises(InputError, match="measured by reward"):
        efficiency([chains(HAND, metric="score")], [chains(HAND, metric="score")], 30.0)


def test_the_interval_of_reward_per_second_is_that_of_an_independent_bootstrap():
    """Two repetitions of 12 chains, 2,000 draws against 20,000 of plain loops; ends within a tenth of the width."""
    rng = np.random.default_rng(11)
    arms = [
        [run_of(rng.random((3, 12)).tolist(), (scale * rng.lognormal(size=(3, 12))).tolist()) for _ in range(2)]
        for scale in (1.0, 2.0)
    ]
    found = efficiency(*arms, 3.0)["reward_per_second"].difference
    drawn = []
    for _ in range(20_000):
        picked, means = rng.integers(2, size=2), []
        for arm in arms:
            ratios = []
            for one in picked:
                taken = rng.integers(12, size=12)
                ratios.append(arm[one].values[:, taken].sum() / arm[one].total[taken].sum())
            means.append(np.mean(ratios))
        drawn.append(means[0] - means[1])
    low, high = np.quantile(drawn, (0.025, 0.975))
    assert (found.low, found.high) == pytest.approx((low, high), abs=0.1 * (high - low))
    assert found.sign == 1


def test_held_out_rewards_have_an_interval_over_pairs_and_none_with_one():
    one = held_out([(0.5, 0.4), (None, 0.9)])
    assert (one.rpg.value, one.vanilla.value, one.rpg.low) == (0.5, 0.4, None)
    assert one.difference.value == pytest.approx(0.1)
    several = held_out([(0.5, 0.4), (0.7, 0.6), (0.9, 0.8)])
    assert (several.difference.low, several.difference.high) == pytest.approx((0.1, 0.1))
    assert held_out([]).rpg.value is None


def test_the_grid_is_even_or_every_so_many_seconds():
    assert budget_grid(1000.0, every=200).tolist() == [0, 200, 400, 600, 800, 1000]
    assert budget_grid(900.0, every=200).tolist() == [0, 200, 400, 600, 800, 900]
    assert budget_grid(10.0, points=3).tolist() == [0, 5, 10]


def slow_value(columns, row, budget):
    spent, value = 0.0, 0.0
    for step in sorted(set(columns["step"])):
        for i in range(len(columns["step"])):
            if (columns["step"][i], columns["row"][i]) == (step, row):
                spent += columns["seconds"][i]
                if spent <= budget:
                    value = columns["reward"][i] if columns["valid"][i] else 0.0
    return value


@given(
    st.lists(
        st.tuples(st.booleans(), st.floats(-1, 1), st.sampled_from([0.1, 0.5, 1.0, 7.0])), min_size=12, max_size=12
    ),
    st.lists(st.sampled_from([0.0, 0.1, 0.5, 1.0, 1.1, 2.0, 7.5, 30.0]), min_size=1, max_size=5),
)
def test_it_equals_the_slow_obvious_curve(attempts, budgets):
    columns = {
        "step": [i // 3 for i in range(12)],
        "row": [i % 3 for i in range(12)],
        "valid": [valid for valid, _, _ in attempts],
        "reward": [reward for _, reward, _ in attempts],
        "seconds": [seconds for _, _, seconds in attempts],
    }
    expected = [[slow_value(columns, row, budget) for row in range(3)] for budget in budgets]
    assert chains(columns).at(budgets).tolist() == expected


def test_improvement_is_in_percent_of_vanilla_and_positive_when_better():
    assert relative_improvement(0.6, 0.5) == pytest.approx(20.0)
    assert relative_improvement(0.259, 0.564, higher_is_better=False) == pytest.approx(54.08, abs=0.01)
    assert relative_improvement(-1.0, -2.0) == pytest.approx(50.0)
    assert relative_improvement(1.0, 0.0) is None


PAPER = [
    *(530.5, 78.9, 46.9, 44.8, 23.2, 21.7, 16.5, 9.6, 9.2, 7.2, 6.8),
    *(5.6, 4.4, 4.2, -34.2, 54.0, 36.2, 19.4, 2.8, 2.1, 0.3, -10.1),
]


def test_the_trimmed_mean_of_the_papers_table_is_the_papers_19_2_percent():
    assert len(PAPER) == 22
    assert round(trimmed_mean(PAPER), 1) == 19.2
    assert trimmed_mean([1.0, 2.0]) is None
    assert trimmed_mean([1.0, 2.0], trim=0) == 1.5


def repetition(rng, level, chains_of_run=32):
    """One training: its own luck, shared by its chains, and theirs."""
    level = level + rng.normal(0, 0.05)
    return Chains(level + rng.normal(0, 0.1, (1, chains_of_run)), np.ones((1, chains_of_run)))


def test_the_same_seed_gives_the_same_interval_and_another_nearly_so():
    rng = np.random.default_rng(0)
    runs = [[repetition(rng, level) for _ in range(5)] for level in (0.8, 0.7)]
    one, same, other = (compare(*runs, final=1.25, seed=seed) for seed in (1, 1, 2))
    assert (one.improvement, one.difference) == (same.improvement, same.difference)
    assert one.difference.value == other.difference.value
    assert one.difference.low == pytest.approx(other.difference.low, abs=0.01)


def test_the_interval_covers_the_truth():
    """n = 200 studies of 8 repetitions, true difference 0.1. Nominal 95 %, but 8 is few: at least 85 % must cover.

    At a true coverage of 91 %, fewer than 170 of 200 happen with probability 0.3 %; the seed is fixed.
    """
    rng, covered = np.random.default_rng(7), 0
    for seed in range(200):
        runs = [[repetition(rng, level) for _ in range(8)] for level in (0.8, 0.7)]
        found = compare(*runs, final=1.25, draws=400, seed=seed).difference
        covered += found.low <= 0.1 <= found.high
    assert covered >= 170


def test_repetitions_are_paired():
    """Seeds differ much, the arms by the same 0.1 everywhere: only the pairing shows it."""
    pairs = [
        (Chains(np.full((1, 4), level + 0.1), np.ones((1, 4))), Chains(np.full((1, 4), level), np.ones((1, 4))))
        for level in (0.1, 0.5, 0.9, 1.3)
    ]
    found = compare([rpg for rpg, _ in pairs], [vanilla for _, vanilla in pairs], final=1.25)
    assert (found.difference.low, found.difference.high) == pytest.approx((0.1, 0.1))
    assert found.vanilla.high - found.vanilla.low > 0.5


def test_over_tasks_the_interval_covers_the_choice_of_tasks():
    rng = np.random.default_rng(3)
    tasks = {}
    for i, gain in enumerate((0.5, 0.1, 0.12, 0.08, -0.2)):
        runs = [[repetition(rng, level) for _ in range(3)] for level in (1.0 + gain, 1.0)]
        tasks[f"task{i}"] = compare(*runs, final=1.25)
    found = over_tasks(tasks)
    assert found == over_tasks(tasks)
    assert found.value == pytest.approx(trimmed_mean([task.improvement.value for task in tasks.values()]))
    assert found.low < found.value < found.high
    assert found.high - found.low > 5
    assert over_tasks(dict(list(tasks.items())[:2])).value is None
    assert over_tasks({}).value is None


def test_a_run_log_is_evaluated_as_it_is(tmp_path):
    with RunLog.create(tmp_path / "run", "", {}) as log:
        for step in (1, 2, 3):
            log.begin_step(step, [Proposal("a"), Proposal("b")])
            for i in (2 * step - 2, 2 * step - 1):
                fields = {name: HAND[name][i] for name in ("valid", "reward", "score", "seconds", "status")}
                log.outcome(step, i % 2, Outcome(**fields, message="", code=""))
            log.commit_step(step, RateEstimate(0, 0, 0, 0, 0), [0.0, 0.0], [0.0, 0.0])
        run = chains(log.table(*COLUMNS))
    assert np.array_equal(run.at(BUDGETS), chains(HAND).at(BUDGETS))
    pandas = pytest.importorskip("pandas")
    assert np.array_equal(chains(pandas.DataFrame(HAND)).at(BUDGETS), run.at(BUDGETS))


def test_an_infinite_score_makes_an_infinite_mean_and_no_interval():
    run = chains(HAND | {"score": [7.0, None, None, 1.0, math.inf, 5.0]}, metric="score", higher_is_better=False)
    other = chains(HAND, metric="score", higher_is_better=False)
    assert curve([run], [34.0, 60.0], "latest-valid").tolist() == [[4.0, math.inf]]
    found = compare([run, run], [other, other], final=75.0)
    assert (found.rpg.value, found.improvement.value, found.difference.value) == (None, None, None)
    assert compare([other], [run], final=75.0).improvement.value is None


def test_a_bad_row_is_named():
    for name, at, value, words in (
        ("seconds", 2, -1.0, r"seconds\[2\] = -1.0"),
        ("seconds", 2, math.nan, r"seconds\[2\] = nan"),
        ("reward", 3, math.inf, r"reward\[3\] = inf"),
        ("reward", 3, None, r"reward\[3\] = nan"),
        ("row", 1, 0, "two attempts of it"),
        ("row", 1, 0.5, "whole numbers"),
        ("valid", 1, None, "true or false"),
        ("valid", 1, 2, "true or false"),
        ("step", 1, "one", "it must hold numbers"),
    ):
        with pytest.raises(InputError, match=words):
            chains(HAND | {name: [value if i == at else old for i, old in enumerate(HAND[name])]})
    with pytest.raises(InputError, match="step has 6 rows"):
        chains(HAND | {"reward": [1.0, 2.0]})
    with pytest.raises(InputError, match="there is no such column"):
        chains({name: column for name, column in HAND.items() if name != "valid"})
    with pytest.raises(InputError, match="no attempts"):
        chains({name: [] for name in HAND})
    with pytest.raises(InputError, match="metric"):
        chains(HAND, metric="rewards")


def test_a_question_that_makes_no_sense_is_refused():
    run = chains(HAND)
    for ask in (
        lambda: run.at([1.0], "last"),
        lambda: compare([run], []),
        lambda: compare([run], [run, run]),
        lambda: compare([run], [chains(HAND, metric="score")]),
        lambda: final_budget([run], 0.0),
        lambda: final_budget([]),
        lambda: budget_grid(0.0),
        lambda: budget_grid(1e9, every=1e-3),
    ):
        with pytest.raises(InputError):
            ask()


def test_the_band_of_a_curve_holds_what_an_independent_bootstrap_holds():
    """Two repetitions of ten chains, 500 draws against 20,000 of plain loops over numpy means; both seeds are fixed."""
    rng = np.random.default_rng(3)
    runs = []
    for shift in (0.0, 0.5):
        rows = [(step, row) for step in (1, 2) for row in range(10)]
        runs.append(chains({
            "step": [step for step, _ in rows], "row": [row for _, row in rows], "valid": [True] * 20,
            "reward": (shift + rng.random(20)).tolist(), "seconds": [1.0] * 20,
        }))  # fmt: skip
    low, high = band(runs, [0.5, 1.5, 2.5], draws=2000)
    assert (low[0], high[0]) == (0.0, 0.0)  # nothing is finished yet
    for place, step in ((1, 0), (2, 1)):
        drawn = []
        for _ in range(20_000):
            picked = rng.integers(2, size=2)
            drawn.append(np.mean([runs[one].values[step][rng.integers(10, size=10)].mean() for one in picked]))
        expected = np.quantile(drawn, (0.025, 0.975))
        assert (low[place], high[place]) == pytest.approx(tuple(expected), abs=0.04)


def test_a_band_has_gaps_where_nothing_or_something_endless_is_known():
    columns = {
        "step": [1, 1],
        "row": [0, 1],
        "valid": [True, True],
        "seconds": [1.0, 2.0],
        "score": [0.5, float("inf")],
    }
    low, high = band([chains(columns, metric="score")], [0.5, 1.5, 2.5], "latest-valid")
    assert np.isnan(low).tolist() == [True, False, True]
    assert (low[1], high[1]) == (0.5, 0.5)


def test_a_repetition_in_which_one_arm_has_nothing_to_show_is_no_pair():
    """Lower is better. rpg scores 10, then nothing valid; vanilla 11 and 1: in the only pair rpg is ahead."""

    def one(score):
        return run_of([[score, score]], [[1.0, 1.0]], metric="score", higher_is_better=False)

    found = compare([one(10.0), one(None)], [one(11.0), one(1.0)], final=1.25)
    assert (found.rpg.value, found.vanilla.value, found.difference.value) == (10.0, 11.0, -1.0)
    assert found.improvement.value == pytest.approx(100 / 11)
    assert found.difference.high < 0


def test_one_run_of_one_chain_has_no_interval():
    one, other = run_of([[1.0]], [[1.0]]), run_of([[0.5]], [[1.0]])
    found = compare([one], [other], final=1.25)
    assert (found.difference.value, found.difference.low, found.difference.sign) == (0.5, None, 0)
    assert efficiency([one], [other], 1.25)["reward_per_second"].difference.high is None
