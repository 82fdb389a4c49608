"""What the init is told: mounts, masked paths, and what is refused before anything starts."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from rewardrate.errors import InputError
from rewardrate.sandbox import Job, Limits, job_template, levels, run
from rewardrate.sandbox.box import landlock

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the box is Linux's")

SMALL = Limits(seconds=20, memory_bytes=2**29, cores=1, disk_bytes=2**25)
SYSTEM_PYTHON = "/usr/bin/python3"


@pytest.fixture
def shared():
    """A folder that every user may read: pytest's own are closed."""
    folder = Path(tempfile.mkdtemp(prefix="rewardrate-template-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def box():
    if "namespaces" not in levels.try_isolation().level.name:
        pytest.skip("needs namespaces")


def test_an_interpreter_is_shown_with_its_own_folder_and_never_with_a_home_or_the_whole_disk(tmp_path, monkeypatch):
    assert ("/usr", "/usr") in job_template.python_mounts(sys.executable)
    fake = tmp_path / "bin" / "python"
    fake.parent.mkdir()
    fake.symlink_to("/bin/true")
    (tmp_path / "lib" / "python3.11").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path))
    for python in (str(fake), "/nonexistent/python"):
        with pytest.raises(InputError, match="python"):
            job_template.python_mounts(python)


def test_data_may_be_files_whose_names_have_dots(shared):
    box()
    (shared / "x").write_text("1,2")
    result = run("print(open('data/train.v1.csv').read())", SMALL, data={"train.v1.csv": shared / "x"})
    assert (result.status, result.stdout) == ("ok", "1,2\n")


def test_hidden_places_are_those_that_would_be_seen(tmp_path):
    (tmp_path / "shown" / "deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "shown" / "deep")
    binds = [(str(tmp_path / "shown"), "/data/a"), (str(tmp_path / "shown"), "/data/b"), ("/usr", "/usr")]
    assert job_template.masked_paths([tmp_path / "link"], binds) == ["/data/a/deep", "/data/b/deep"]
    assert job_template.masked_paths([tmp_path / "none", "/etc", tmp_path / "shown" / "none"], binds) == []
    for whole in (tmp_path / "shown", tmp_path, "/"):
        with pytest.raises(InputError, match="hide the parts of it"):
            job_template.masked_paths([whole], binds)


def test_landlock_shows_the_siblings_of_what_is_hidden_and_follows_no_link(tmp_path):
    for name in ("a/x", "a/hidden", "b"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "b" / "link").symlink_to(tmp_path / "a" / "hidden")
    (tmp_path / "a" / "again").symlink_to("hidden")
    real = os.path.realpath(tmp_path)
    rules = dict(landlock.around(str(tmp_path), [f"{real}/a/hidden"]))
    assert rules == {
        real: landlock.READ_FOLDER,
        f"{real}/a": landlock.READ_FOLDER,
        f"{real}/a/x": landlock.EXECUTE | landlock.READ | landlock.READ_FOLDER,
        f"{real}/b": landlock.EXECUTE | landlock.READ | landlock.READ_FOLDER,
    }
    assert list(landlock.around(f"{real}/a/hidden/deeper", [f"{real}/a/hidden"])) == []


SETS = """
import os
import sklearn.datasets, sklearn.linear_model
folder = os.path.join(os.path.dirname(sklearn.datasets.__file__), "data")
for read in (sklearn.datasets.load_iris, lambda: open(os.path.join(folder, "iris.csv")).read()):
    try: print("LEAK", str(read())[:50])
    except OSError as error: print(type(error).__name__)
print(sklearn.linear_model.LinearRegression().fit([[1], [2]], [1, 2]).coef_.round(3))
"""


@pytest.mark.parametrize("level", ["namespaces+cgroup", "namespaces", "landlock+seccomp"])
def test_the_data_sets_of_an_installed_package_can_be_hidden_and_the_package_still_works(level):
    sklearn = pytest.importorskip("sklearn")
    names = [known.name for known in levels.LEVELS]
    if names.index(levels.try_isolation().level.name) > names.index(level):
        pytest.skip("this machine cannot")
    folder = Path(sklearn.__file__).parent / "datasets" / "data"
    result = run(SETS, SMALL, level=level, minimum="limits", hide=[folder, "/nonexistent"])
    assert result.status == "ok", result.stderr
    *refused, fit = result.stdout.splitlines()
    assert set(refused) <= {"FileNotFoundError", "PermissionError"}
    assert (len(refused), fit) == (2, "[1.]")


@pytest.mark.skipif(os.geteuid() != 0, reason="another uid needs root")
def test_what_another_user_cannot_reach_is_refused_with_the_remedy(shared):
    closed = shared / "closed"
    closed.mkdir(mode=0o700)
    subprocess.run([SYSTEM_PYTHON, "-m", "venv", "--without-pip", str(closed / "venv")], check=True)
    python = str(closed / "venv" / "bin" / "python")
    job = Job("pass", SMALL, python=python)
    with pytest.raises(InputError, match=r"closed to other users.*chmod o\+x"):
        job_template.mounts(job, levels.NAMED["uid+landlock+seccomp"].can)
    with pytest.raises(InputError, match="closed to other users"):
        run("pass", SMALL, python=python, level="uid+landlock+seccomp", minimum="limits")
    job_template.mounts(job, levels.NAMED["namespaces"].can)  # there the folders above it are made for the box
    closed.chmod(0o755)
    job_template.mounts(job, levels.NAMED["uid+landlock+seccomp"].can)
    (shared / "secret.csv").write_text("x")
    (shared / "secret.csv").chmod(0o600)
    for name in ("namespaces", "uid+landlock+seccomp"):
        with pytest.raises(InputError, match=r"chmod -R o\+rX"):
            job_template.mounts(
                Job("pass", SMALL, python=python, data={"x": shared / "secret.csv"}), levels.NAMED[name].can
            )
    job_template.mounts(
        Job("pass", SMALL, python=python, data={"x": shared / "secret.csv"}), levels.NAMED["landlock+seccomp"].can
    )


def test_text_that_is_no_text_is_the_scripts_mistake():
    box()
    result = run("x = '\ud800'", SMALL)
    assert (result.status, result.exit_code) == ("error", 1)
    assert "SyntaxError" in result.stderr
