from pathlib import Path

import pytest

from rewardrate.environments.mle import lite
from rewardrate.errors import InputError

ROOT = Path(__file__).parents[3]


def test_the_recipe_holds_the_papers_22_tasks_with_their_limits_and_rewards():
    tasks = {task.id: task for task in lite.tasks()}
    assert len(tasks) == 22
    assert {id for id, task in tasks.items() if task.limit_seconds != 600} == {
        "nomad2018-predict-transparent-conductors",
        "random-acts-of-pizza",
        "tabular-playground-series-dec-2021",
        "tabular-playground-series-may-2022",
    }
    assert {id for id, task in tasks.items() if task.limit_seconds == 1200} == {
        id for id, task in tasks.items() if task.limit_seconds != 600
    }
    assert {id for id, task in tasks.items() if task.reward == "percentile"} == {
        "denoising-dirty-documents",
        "dog-breed-identification",
        "dogs-vs-cats-redux-kernels-edition",
        "leaf-classification",
        "new-york-city-taxi-fare-prediction",
        "nomad2018-predict-transparent-conductors",
        "spooky-author-identification",
    }
    assert all((task.reward == "raw") == (task.direction == "maximize") for task in tasks.values())


def test_what_can_no_longer_be_had_and_what_leaks_is_noted():
    tasks = {task.id: task for task in lite.tasks()}
    closed = {id for id, task in tasks.items() if not task.rules_open}
    assert closed == {
        "detecting-insults-in-social-commentary",
        "the-icml-2013-whale-challenge-right-whale-redux",
    }
    assert [id for id, task in tasks.items() if task.leaks_label] == ["random-acts-of-pizza"]
    assert all(tasks[id].note for id in closed | {"random-acts-of-pizza"})
    assert sum(task.uses_log_loss for task in tasks.values()) == 4


def test_an_unknown_id_is_refused_with_the_nearest_spelling():
    with pytest.raises(InputError, match="did you mean 'leaf-classification'"):
        lite.find("leaf-clasification")


ROW = """
[[tasks]]
id = "{id}"
goal = "g"
modality = "text"
metric = "m"
grader = "auc-roc"
direction = "{direction}"
reward = "raw"
"""


def test_a_recipe_of_ones_own_lists_other_tasks(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(ROW.format(id="spaceship-titanic", direction="maximize"))
    assert lite.find("spaceship-titanic", str(path)).limit_seconds == 600


@pytest.mark.parametrize(
    ("text", "match"),
    [
        (ROW.format(id="../../etc", direction="maximize"), "it names a folder"),
        (ROW.format(id="a", direction="maximize") * 2, "it stands twice"),
        (ROW.format(id="a", direction="up"), "tasks\\[0\\].direction"),
        (ROW.format(id="a", direction="maximize") + "colour = 1\n", "there is no such key"),
    ],
)
def test_a_bad_recipe_is_refused(tmp_path, text, match):
    path = tmp_path / "bad.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=match):
        lite.tasks(str(path))


def test_the_page_shows_the_table_of_the_recipe():
    assert lite.table() in (ROOT / "docs" / "mle-bench.md").read_text(), "put rewardrate...lite.table() into the page"


def test_a_leaderboard_of_mle_dojo_is_read_best_first(tmp_path):
    path = tmp_path / "board.csv"
    path.write_text("rank,score\n1,0.02\n2,0.4\n3,\n4,35.2\n")
    assert lite.read_leaderboard(path, "minimize") == (0.02, 0.4, 35.2)


def test_rows_in_disorder_are_sorted_by_their_rank(tmp_path):
    path = tmp_path / "board.csv"
    path.write_text("score,rank\n0.7,3\n0.9,1\n0.8,2\n")
    assert lite.read_leaderboard(path, "maximize") == (0.9, 0.8, 0.7)


def test_extra_columns_and_a_byte_order_mark_do_no_harm(tmp_path):
    path = tmp_path / "board.csv"
    path.write_bytes(b"\xef\xbb\xbfscoreNullable,teamId,score\n,1,0.9\n,2,0.1\n")
    assert lite.read_leaderboard(path, "maximize") == (0.9, 0.1)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("rank,score\n1,0.9\n2,0.1\n", "its order says maximize, the task says minimize"),
        ("rank,points\n1,0.9\n", "no column named score"),
        ("rank,score\n1,abc\n", "'abc' in row 1 is not a finite number"),
        ("rank,score\n1,inf\n", "'inf' in row 1"),
        ("rank,score\n1,\n", "it holds no score"),
        ("", "no column named score"),
    ],
)
def test_a_leaderboard_that_cannot_be_used_says_why(tmp_path, text, match):
    path = tmp_path / "board.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=match):
        lite.read_leaderboard(path, "minimize")


def test_a_pointer_a_real_file_and_nothing_are_told_apart(tmp_path):
    path = tmp_path / "board.csv"
    assert lite.leaderboard_state(None) == lite.leaderboard_state(path) == "missing"
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
    assert lite.leaderboard_state(path) == "pointer"
    path.write_text("rank,score\n1,0.5\n")
    assert lite.leaderboard_state(path) == "real"
    path.write_bytes(b"\xff\xfe\x00")
    assert lite.leaderboard_state(path) == "unreadable"


@pytest.mark.parametrize(
    "place", ["a.csv", "a/info/private_leaderboard.csv", "a/private_leaderboard.csv", "a/leaderboard.csv"]
)
def test_leaderboards_are_found_where_mle_dojo_and_mle_bench_keep_them(tmp_path, place):
    assert lite.find_leaderboard("a", tmp_path) is None
    (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / place).write_text("rank,score\n1,1\n")
    assert lite.find_leaderboard("a", tmp_path) == tmp_path / place
