"""A small package with the interface of the real MLE-Bench, written for the tests: a third party's code, not ours.

It has what makes the real one awkward: a folder `cache` made on import, a root logger set up on import, graders whose
errors are logged and turned into None, leaderboards that are Git-LFS pointers.
"""

import contextlib
import json
import sys
from pathlib import Path

SPOOKY, CACTUS, INSULTS = (
    "spooky-author-identification",
    "aerial-cactus-identification",
    "detecting-insults-in-social-commentary",
)
POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 67155\n"
BOARD = "rank,score\n1,0.0\n2,0.5\n3,0.7\n4,1.1\n"

REGISTRY = """
import importlib, json
from dataclasses import dataclass
from pathlib import Path
from mlebench.grade_helpers import Grader

@dataclass(frozen=True)
class Competition:
    id: str
    name: str
    description: str
    grader: Grader
    answers: Path
    gold_submission: Path
    sample_submission: Path
    raw_dir: Path
    private_dir: Path
    public_dir: Path
    leaderboard: Path

class Registry:
    def __init__(self, data_dir):
        self.data_dir = Path(data_dir).resolve()

    def get_data_dir(self):
        return self.data_dir

    def set_data_dir(self, data_dir):
        return Registry(data_dir)

    def get_competition(self, id):
        folder = Path(__file__).parent / "competitions" / id
        config = json.loads((folder / "config.yaml").read_text())
        module, name = config["grade_fn"].split(":")
        data = self.data_dir / id
        answers = data / "prepared/private/test.csv"
        return Competition(
            id, config["name"], (folder / "description.md").read_text(),
            Grader(config["grader"], getattr(importlib.import_module(module), name)),
            answers, answers, data / "prepared/public" / config["sample"],
            data / "raw", data / "prepared/private", data / "prepared/public", folder / "leaderboard.csv",
        )

registry = Registry(Path(__file__).parent / "default-data")
"""
HELPERS = """
import logging
logging.basicConfig(level=logging.INFO)
logger = logging.getLogger(__name__)

class InvalidSubmissionError(Exception):
    pass

class Grader:
    def __init__(self, name, grade_fn):
        self.name, self.grade_fn = name, grade_fn

    def __call__(self, submission, answers):
        try:
            score = self.grade_fn(submission, answers)
        except InvalidSubmissionError as error:
            logger.warning(f"Invalid submission: {error}")
            return None
        except Exception as error:
            logger.error(f"Unexpected error during grading: {error}. Check {__file__}:12")
            return None
        return None if score is None else round(score, 5)
"""
DATA = """
import csv, logging
from pathlib import Path
logging.basicConfig(level=logging.INFO)
logger = logging.getLogger(__name__)
Path("cache").mkdir(exist_ok=True)

def is_dataset_prepared(competition, grading_only=False):
    for path in (competition.answers, competition.sample_submission):
        if not path.is_file():
            logger.warning(f"{path.name} does not exist.")
            return False
    return True

def get_leaderboard(competition):
    rows = list(csv.DictReader(competition.leaderboard.read_text().splitlines()))
    assert "score" in rows[0], "Leaderboard must have a `score` column."
    return rows
"""
GRADE = """
import types
from mlebench.data import get_leaderboard, is_dataset_prepared
from mlebench.utils import load_answers, read_csv

def grade_csv(path, competition):
    if not is_dataset_prepared(competition, grading_only=True):
        raise ValueError("not prepared")
    score = competition.grader(read_csv(path), load_answers(competition.answers))
    get_leaderboard(competition)
    return types.SimpleNamespace(score=score, valid_submission=score is not None)
"""
UTILS = """
import csv

def read_csv(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))

load_answers = read_csv
"""
LOG_LOSS = """
import math, warnings
from mlebench.grade_helpers import InvalidSubmissionError
WORKS = True

def grade(submission, answers):
    warnings.warn("an argument goes away", FutureWarning)
    if not WORKS:
        raise TypeError("log_loss() got an unexpected keyword argument 'y_pred'")
    if len(submission) != len(answers):
        raise InvalidSubmissionError(f"{len(submission)} rows, not {len(answers)}")
    if submission[0]["p"] == "none":
        return None
    return sum(-math.log(float(row["p"])) if row["p"] != "nan" else math.nan for row in submission) / len(answers)
"""
HITS = """
def grade(submission, answers):
    return sum(a == b for a, b in zip(submission, answers, strict=True)) / len(answers)
"""


def build(place: Path) -> Path:
    """Write the package below `place`; the folder of the package."""
    package = place / "mlebench"
    tasks = {
        SPOOKY: ("multi-class-log-loss", LOG_LOSS, "sample_submission.csv", POINTER),
        CACTUS: ("auc-roc", HITS, "sampleSubmission.csv", POINTER),
        INSULTS: ("auc-roc", HITS, "sample_submission_null.csv", POINTER),
    }
    files = {
        "__init__": "",
        "registry": REGISTRY,
        "grade_helpers": HELPERS,
        "data": DATA,
        "grade": GRADE,
        "utils": UTILS,
        "competitions/__init__": "",
    }
    for name, text in files.items():
        _write(package / f"{name}.py", text)
    for id, (grader, code, sample, board) in tasks.items():
        folder = package / "competitions" / id
        grade_fn = f"mlebench.competitions.{id}.grade:grade"
        config = {"name": id.replace("-", " ").title(), "grader": grader, "grade_fn": grade_fn, "sample": sample}
        _write(folder / "config.yaml", json.dumps(config))
        _write(folder / "grade.py", code)
        _write(folder / "description.md", f"# {id}\n")
        _write(folder / "leaderboard.csv", board)
    return package


def prepare(data: Path) -> None:
    """Prepared data of two tasks."""
    for id, sample, row in ((SPOOKY, "sample_submission.csv", "0.5"), (CACTUS, "sampleSubmission.csv", "0")):
        answers = "id,p\n" + "".join(f"{i},1\n" for i in range(4))
        _write(data / id / "prepared/private/test.csv", answers)
        _write(data / id / "prepared/public" / sample, answers.replace(",1\n", f",{row}\n"))


@contextlib.contextmanager
def installed(place: Path):
    """The stand-in on sys.path and nothing else of that name imported; afterwards all is as it was."""
    path, real = list(sys.path), _forget()
    sys.path.insert(0, str(place))
    try:
        yield
    finally:
        sys.path[:] = path
        _forget()
        sys.modules.update(real)


def _forget() -> dict:
    names = [name for name in sys.modules if name.split(".")[0] == "mlebench"]
    return {name: sys.modules.pop(name) for name in names}


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
