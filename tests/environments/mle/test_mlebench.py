import json
import math
import pickle
import threading
from dataclasses import replace

import pytest

import mlebench_standin as standin
from rewardrate.environments.mle import lite, mlebench, mlebench_package
from rewardrate.errors import InputError
from rewardrate.sandbox.runner import isolation

SPOOKY, CACTUS, INSULTS = standin.SPOOKY, standin.CACTUS, standin.INSULTS
HALVES = b"id,p\n0,0.5\n1,0.5\n2,0.5\n3,0.5\n"


@pytest.fixture
def place(tmp_path, monkeypatch):
    standin.build(tmp_path / "site")
    standin.prepare(tmp_path / "data")
    (tmp_path / "boards").mkdir()
    (tmp_path / "boards" / f"{SPOOKY}.csv").write_text(standin.BOARD)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with standin.installed(tmp_path / "site"):
        yield tmp_path
    assert list((tmp_path / "here").iterdir()) == []


@pytest.fixture
def spooky(place):
    return mlebench.load(SPOOKY, data_dir=place / "data", leaderboards=place / "boards")


def test_a_task_says_what_the_recipe_and_mlebench_say(spooky, place):
    row = lite.find(SPOOKY)
    assert (spooky.metric, spooky.direction, spooky.reward, spooky.limit_seconds) == (
        f"{row.metric} (lower is better)",
        "minimize",
        "percentile",
        600,
    )
    assert spooky.name == "Spooky Author Identification"
    assert spooky.description == f"# {SPOOKY}\n"
    assert spooky.public == place / "data" / SPOOKY / "prepared/public"
    assert spooky.private == spooky.public.parent / "private"
    assert spooky.leaderboard == (0.0, 0.5, 0.7, 1.1)
    assert spooky.form.columns == ("id", "p")
    assert spooky.prepared


def test_the_score_is_the_one_that_grade_csv_gives(spooky, place):
    path = place / "submission.csv"
    path.write_bytes(HALVES)
    competition = mlebench_package.competition(SPOOKY, place / "data", place / "boards" / f"{SPOOKY}.csv")
    with pytest.warns(FutureWarning):  # as an error it would refuse the file; through us it cannot
        own = mlebench_package.modules().grade.grade_csv(path, competition).score
    assert spooky.grade(HALVES) == mlebench.Grade(True, own, "")
    assert own == pytest.approx(math.log(2), abs=1e-5)
    assert spooky.reward_of(own) == 2 / 4  # better than two of the four


def test_a_perfect_log_loss_of_zero_is_valid(spooky):
    grade = spooky.grade(HALVES.replace(b"0.5", b"1"))
    assert grade.valid
    assert grade.score == 0.0
    assert spooky.reward_of(0.0) == 3.5 / 4


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "empty"),
        (b" \n\n", "empty"),
        (b"id,p\n0,1\n", "1 rows, not 4"),
        (HALVES.replace(b"0.5", b"nan"), "not a number"),
        (HALVES.replace(b"0.5", b"0.0"), "math domain error"),
        (HALVES.replace(b"0.5", b"x"), "could not convert"),
        (HALVES.replace(b"0,0.5", b"0,none"), "without a word"),
        (b"\xff\xfe\xba", "UnicodeDecodeError"),
        (b"PK\x03\x04\x00\x00", "NUL bytes"),
        (b"a," * 2_000_000, "rows of more than"),
        ((b'"\n"' + b"," * 50) * 10_000, "rows of more than"),
        (b'id,p\n"' + b"x" * 150_000 + b'",1\n', "not valid CSV"),
        (b"a," * 9_000_000, "at most 16,777,216"),
    ],
    ids=lambda value: repr(value[:12]),
)
def test_a_bad_submission_is_invalid_and_says_why(spooky, place, data, message):
    grade = spooky.grade(data)
    assert (grade.valid, grade.score) == (False, None)
    assert message in grade.message
    assert str(place) not in grade.message
    assert "\n" not in grade.message


def test_a_task_with_a_raw_reward_needs_no_leaderboard(place):
    cactus = mlebench.load(CACTUS, data_dir=place / "data")
    assert cactus.leaderboard == ()
    assert cactus.leaderboard_file is None
    assert cactus.grade(HALVES.replace(b"0.5", b"1")) == mlebench.Grade(True, 1.0, "")
    assert cactus.reward_of(0.75) == 0.75
    with pytest.raises(InputError, match="git lfs pull"):
        _ = cactus.best_reference


def test_with_and_without_a_leaderboard_the_score_is_the_same(place):
    alone = mlebench.load(CACTUS, data_dir=place / "data")
    (place / "boards" / f"{CACTUS}.csv").write_text("rank,score\n1,1.0\n2,0.2\n")
    ranked = mlebench.load(CACTUS, data_dir=place / "data", leaderboards=place / "boards")
    data = HALVES.replace(b"0,0.5", b"0,1")
    assert ranked.leaderboard == (1.0, 0.2)
    assert alone.grade(data) == ranked.grade(data) == mlebench.Grade(True, 0.25, "")


def test_the_baseline_is_the_score_of_the_sample_submission_whatever_its_name(spooky, place):
    assert spooky.baseline == pytest.approx(math.log(2), abs=1e-5)
    assert spooky.best_reference == 0.0
    cactus = mlebench.load(CACTUS, data_dir=place / "data")
    assert cactus.sample.name == "sampleSubmission.csv"
    assert cactus.baseline == 0.0


def test_a_git_lfs_pointer_is_refused_with_the_remedy(place):
    with pytest.raises(InputError, match=r"is a Git-LFS pointer.*git lfs pull.*--leaderboards DIR.*rank,score"):
        mlebench.load(SPOOKY, data_dir=place / "data")


def test_the_prefix_takes_leaderboards_and_a_shipped_task_refuses_them(place):
    from rewardrate.environments.mle import load

    task = load(f"mlebench:{SPOOKY}", data=place / "data", leaderboards=place / "boards")
    assert task.leaderboard == (0.0, 0.5, 0.7, 1.1)
    with pytest.raises(InputError, match="digits8x8 has its own"):
        load("digits8x8", leaderboards=place / "boards")


def test_a_recipe_names_the_leaderboards(place):
    from rewardrate import config
    from rewardrate.training.recipe import Recipe

    standin.prepare(place / "site/mlebench/default-data")
    given = [f"task=mlebench:{SPOOKY}", f"environment.leaderboards={place / 'boards'}"]
    recipe = config.load(Recipe, config.find_recipe("mle-bench-paper"), given)
    assert recipe.setup().task.leaderboard == (0.0, 0.5, 0.7, 1.1)
    with pytest.raises(InputError, match=r"--leaderboards DIR \(environment\.leaderboards in a recipe\)"):
        config.load(Recipe, config.find_recipe("mle-bench-paper"), given[:1]).setup()


@pytest.mark.skipif(not isolation().level.name.startswith("namespaces"), reason="this machine allows no namespaces")
def test_the_commands_take_leaderboards(place, capsys):
    from rewardrate.cli.main import main

    own = ["--data", str(place / "data"), "--leaderboards", str(place / "boards"), "--json"]
    assert main(["tasks", "show", f"mlebench:{SPOOKY}", *own]) == 0
    assert len(json.loads(capsys.readouterr().out)["leaderboard"]) == 4
    script = place / "script.py"
    script.write_text("import shutil\nshutil.copy('data/sample_submission.csv', 'submission.csv')\n")
    assert main(["tasks", "run", f"mlebench:{SPOOKY}", str(script), "--set", "cores=1", *own]) == 0
    assert json.loads(capsys.readouterr().out)["reward"] == 2 / 4
    assert main(["train", "mle-bench-paper", "--leaderboards", str(place / "boards"), "--dry-run"]) == 0
    assert f'leaderboards = "{place / "boards"}"' in capsys.readouterr().out


def test_a_zipped_sample_submission_is_read(place):
    import zipfile

    from rewardrate.environments.mle import prompts

    sample = place / "data" / SPOOKY / "prepared/public/sample_submission.csv"
    with zipfile.ZipFile(sample.with_suffix(".csv.zip"), "w") as archive:
        archive.writestr("sample_submission.csv", sample.read_text())
    spooky = mlebench.load(SPOOKY, data_dir=place / "data", leaderboards=place / "boards")
    zipped = replace(spooky, sample=sample.with_suffix(".csv.zip"))
    assert zipped.form == spooky.form
    assert "id,p\n0,0.5\n" in prompts.build(zipped)[-1]["content"]


def test_a_leaderboard_that_says_the_opposite_is_refused(place):
    (place / "boards" / f"{SPOOKY}.csv").write_text("rank,score\n1,0.9\n2,0.1\n")
    with pytest.raises(InputError, match="its order says maximize"):
        mlebench.load(SPOOKY, data_dir=place / "data", leaderboards=place / "boards")
    (place / "boards" / f"{SPOOKY}.csv").write_text("nothing\n")
    with pytest.raises(InputError, match="no column named score"):
        mlebench.load(SPOOKY, data_dir=place / "data", leaderboards=place / "boards")


def test_data_that_are_not_prepared_are_refused_with_the_command(place):
    (place / "empty").mkdir()
    command = f"mlebench prepare -c {CACTUS} --data-dir {place}/empty"
    with pytest.raises(InputError) as refused:
        mlebench.load(CACTUS, data_dir=place / "empty")
    assert str(refused.value).endswith(command)
    with pytest.raises(InputError) as refused:
        mlebench.load(CACTUS)
    assert str(refused.value).endswith(f"mlebench prepare -c {CACTUS}")


def test_data_that_nobody_can_download_any_more_get_no_such_advice(place):
    with pytest.raises(InputError, match="no longer lets anyone accept its rules; only a copy") as refused:
        mlebench.load(INSULTS, data_dir=place / "data")
    assert "mlebench prepare" not in str(refused.value)


def test_folders_that_are_not_there_and_unknown_tasks_are_named(place):
    with pytest.raises(InputError, match="data_dir"):
        mlebench.load(CACTUS, data_dir=place / "nowhere")
    with pytest.raises(InputError, match="leaderboards"):
        mlebench.doctor(leaderboards=place / "nowhere")
    with pytest.raises(InputError, match=f"did you mean '{CACTUS}'"):
        mlebench.load("aerial-cactus", data_dir=place / "data")


def test_a_grader_of_another_metric_is_refused(place):
    config = place / "site/mlebench/competitions" / CACTUS / "config.yaml"
    config.write_text(config.read_text().replace("auc-roc", "accuracy"))
    with pytest.raises(InputError, match="grades it by 'accuracy', the recipe says 'auc-roc'"):
        mlebench.load(CACTUS, data_dir=place / "data")


def change_grader(place, old, new):
    file = place / "site/mlebench/competitions" / SPOOKY / "grade.py"
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new))


def test_a_grader_that_refuses_the_right_answers_is_never_charged_to_the_submission(spooky, place):
    change_grader(place, "WORKS = True", "WORKS = False")
    with pytest.raises(InputError, match=r"it refuses even the right answers: log_loss\(\) got an unexpected"):
        spooky.grade(HALVES)


@pytest.mark.parametrize(
    ("does", "says"), [("import sys; sys.exit(0)", "SystemExit"), ("import os; os._exit(0)", "exit code 0")]
)
def test_a_grader_that_ends_its_process_ends_nothing_else(spooky, place, does, says):
    change_grader(
        place, '    if submission[0]["p"] == "none":\n', f'    if submission[0]["p"] == "none":\n        {does}\n'
    )
    grade = spooky.grade(HALVES.replace(b"0,0.5", b"0,none"))
    assert not grade.valid
    assert says in grade.message
    assert spooky.grade(HALVES).valid


def test_a_grader_that_ends_its_process_on_the_right_answers_too_is_never_charged(spooky, place):
    change_grader(place, "    if not WORKS:\n", "    import sys; sys.exit(0)\n    if not WORKS:\n")
    with pytest.raises(InputError, match=r"it refuses even the right answers: .*SystemExit\(0\)"):
        spooky.grade(HALVES)


def test_a_task_whose_code_ends_the_process_on_import_is_refused(place):
    change_grader(place, "WORKS = True", "import sys; sys.exit(0)")
    with pytest.raises(InputError, match="MLE-Bench cannot load it"):
        mlebench.load(SPOOKY, data_dir=place / "data", leaderboards=place / "boards")


def test_a_grader_that_a_submission_keeps_busy_is_stopped_and_the_submission_charged(spooky, place):
    change_grader(place, '    if submission[0]["p"] == "none":\n', '    while submission[0]["p"] == "none":\n')
    change_grader(place, "        return None", "        pass")
    assert spooky.grade(HALVES).valid
    grade = replace(spooky, grading_seconds=10.0).grade(HALVES.replace(b"0,0.5", b"0,none"))
    assert grade == mlebench.Grade(False, None, "the grader failed on it: it took more than 10 s")


def test_data_that_go_away_are_never_charged_to_the_submission(spooky):
    (spooky.private / "test.csv").unlink()
    with pytest.raises(InputError, match="its data are not prepared"):
        spooky.grade(HALVES)


def test_mlebench_has_no_report_split(spooky):
    with pytest.raises(InputError, match="one hidden test set"):
        spooky.grade(HALVES, "report")


def test_a_task_can_be_sent_to_another_process(spooky):
    assert spooky.grade(HALVES) == pickle.loads(pickle.dumps(spooky)).grade(HALVES)


def test_threads_get_the_same_score(spooky):
    grades = []
    threads = [threading.Thread(target=lambda: grades.append(spooky.grade(HALVES))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(grades) == 8
    assert len(set(grades)) == 1


def test_the_doctor_says_what_each_task_needs(place, monkeypatch):
    monkeypatch.setattr(mlebench, "sklearn_too_new", lambda: True)
    rows = {row.id: row for row in mlebench.doctor(data_dir=place / "data")}
    assert len(rows) == 22
    assert rows[CACTUS].ok
    assert (rows[CACTUS].data, rows[CACTUS].leaderboard) == ("prepared", "pointer")
    assert rows[SPOOKY].missing == ("leaderboard",)
    assert "git lfs pull" in rows[SPOOKY].remedy
    assert "scikit-learn<1.11" in rows[SPOOKY].warnings[0]
    assert rows[INSULTS].missing == ("data",)
    assert "only a copy" in rows[INSULTS].remedy
    assert rows["leaf-classification"].missing == ("grader", "leaderboard")
    assert "label" in rows["random-acts-of-pizza"].warnings[0]
    again = {row.id: row for row in mlebench.doctor(data_dir=place / "data", leaderboards=place / "boards")}
    assert again[SPOOKY].ok
    assert again[SPOOKY].leaderboard == "real"


def test_without_mlebench_the_doctor_says_how_to_install_it_and_load_refuses():
    if mlebench.find_mlebench() is not None:
        pytest.skip("a real MLE-Bench is installed here")
    rows = mlebench.doctor()
    assert {row.missing for row in rows} == {("mlebench",)}
    assert not any(row.ok or row.package for row in rows)
    assert rows[0].remedy == mlebench_package.INSTALL
    with pytest.raises(InputError, match="the package of MLE-Bench cannot be found; git clone"):
        mlebench.load(CACTUS)


def test_the_recipe_agrees_with_the_real_mlebench(tmp_path):
    found = mlebench_package.find_mlebench()
    if found is None:
        pytest.skip("the real MLE-Bench is not installed: docs/mle-bench.md says how")
    for row in lite.tasks():
        competition = mlebench_package.competition(row.id, tmp_path)
        assert competition.grader.name == row.grader
        if lite.leaderboard_state(competition.leaderboard) == "real":
            lite.read_leaderboard(competition.leaderboard, row.direction)


def test_the_real_mlebench_gives_the_same_score_through_us(tmp_path, monkeypatch):
    if mlebench_package.find_mlebench() is None:
        pytest.skip("the real MLE-Bench is not installed: docs/mle-bench.md says how")
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "data" / SPOOKY / "prepared"
    names = [f"id{i:05d}" for i in range(30)]
    head = "id,EAP,HPL,MWS\n"
    truth = head + "".join(f"{name},{i % 3 == 0:d},{i % 3 == 1:d},{i % 3 == 2:d}\n" for i, name in enumerate(names))
    for path, text in (
        (folder / "private/test.csv", truth),
        (folder / "public/sample_submission.csv", head + "".join(f"{name},0.4,0.3,0.3\n" for name in names)),
        (tmp_path / "boards" / f"{SPOOKY}.csv", "rank,score\n1,0.02\n2,0.4\n3,35.2\n"),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    task = mlebench.load(SPOOKY, data_dir=tmp_path / "data", leaderboards=tmp_path / "boards")
    assert task.grade(truth.encode()) == mlebench.Grade(True, 0.0, "")
    expected = -(math.log(0.4) + 2 * math.log(0.3)) / 3
    assert task.grade((folder / "public/sample_submission.csv").read_bytes()).score == pytest.approx(expected, abs=1e-5)
    assert not task.grade(truth.replace("1", "2").encode()).valid
    assert not (tmp_path / "cache").exists()
