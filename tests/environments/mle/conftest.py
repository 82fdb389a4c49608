"""The task that docs/add-a-task.md makes, made by following it."""

import re
from pathlib import Path

import pytest

from rewardrate.environments.mle import load
from rewardrate.environments.mle.preparation import prepare
from rewardrate.environments.mle.task import Task

PAGE = Path(__file__).parents[3] / "docs" / "add-a-task.md"


def written_by_the_page(folder: Path) -> Path:
    """Every file that the page shows, where it says."""
    for name, text in re.findall(
        r"^`(tumours/[\w./]+)`\n\n```\w+\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE
    ):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder / "tumours"


LEADERBOARD = """\
score,report,seconds,cpu_seconds,script,source
0.9950,0.9940,1.10,1.40,02_logistic,reference-solutions
0.9400,0.9300,0.05,0.04,01_one_measure,reference-solutions
"""


@pytest.fixture(scope="session")
def folder(tmp_path_factory) -> Path:
    """The page's folder with a leaderboard of round numbers."""
    made = written_by_the_page(tmp_path_factory.mktemp("page"))
    (made / "leaderboard.csv").write_text(LEADERBOARD)
    return made


@pytest.fixture(scope="session")
def task(folder, tmp_path_factory) -> Task:
    """The same, prepared."""
    found = load(str(folder), data=tmp_path_factory.mktemp("data"))
    prepare(found)
    return found


@pytest.fixture(scope="session")
def sample(task) -> bytes:
    return (task.public / "sample_submission.csv").read_bytes()
