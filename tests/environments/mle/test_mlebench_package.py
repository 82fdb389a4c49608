import logging
import os
import subprocess
import sys
import threading

import pytest

import mlebench_standin as standin
from rewardrate.environments.mle import mlebench_package as package
from rewardrate.errors import InputError


@pytest.fixture
def place(tmp_path, monkeypatch):
    standin.build(tmp_path / "site")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with standin.installed(tmp_path / "site"):
        yield tmp_path


def test_mlebench_is_found_without_being_imported(place):
    found = package.find_mlebench()
    assert found.folder == place / "site" / "mlebench"
    assert "mlebench" not in sys.modules


def test_a_stray_folder_of_that_name_is_not_mlebench(tmp_path):
    if package.find_mlebench() is not None:
        pytest.skip("a real MLE-Bench is installed here")
    (tmp_path / "mlebench").mkdir()
    with standin.installed(tmp_path):
        assert package.find_mlebench() is None
        with pytest.raises(InputError, match=r"git clone .*mle-bench .*git lfs pull .*pip install --no-deps"):
            package.modules()


def test_importing_leaves_the_working_directory_and_the_root_logger_as_they_were(place):
    handlers, level, path = list(logging.getLogger().handlers), logging.getLogger().level, list(sys.path)
    modules = package.modules()
    package.competition(standin.SPOOKY, place)
    assert modules.data.__name__ == "mlebench.data"
    assert os.getcwd() == str(place / "here")
    assert list((place / "here").iterdir()) == []
    assert (logging.getLogger().handlers, logging.getLogger().level, sys.path) == (handlers, level, path)
    assert package.modules() is modules


def test_the_working_directory_comes_back_when_the_import_fails(place):
    (place / "site/mlebench/data.py").write_text("import py7zr_that_is_not_there\n")
    with pytest.raises(InputError, match=r"cannot be imported .*; pip install py7zr_that_is_not_there"):
        package.modules()
    assert os.getcwd() == str(place / "here")
    assert list((place / "here").iterdir()) == []


def test_a_grader_that_cannot_be_imported_names_the_package_to_install(place):
    folder = place / "site/mlebench/competitions" / standin.SPOOKY
    (folder / "grade.py").write_text("raise ModuleNotFoundError('No module named PIL', name='PIL')\n")
    with pytest.raises(InputError, match=r"MLE-Bench cannot load it .*; pip install pillow"):
        package.competition(standin.SPOOKY, place)


def test_a_task_that_this_mlebench_lacks_is_named(place):
    with pytest.raises(InputError, match="does not have it"):
        package.competition("leaf-classification", place)


def test_a_checkout_in_the_current_directory_is_found_and_the_private_folder_goes_with_the_process(place):
    code = (
        "import sys; sys.path.insert(0, '')\n"
        "from rewardrate.environments.mle import mlebench_package as package\n"
        "package.modules(); print(package._private_folder(__import__('os').getpid())); print(sys.path[0] == '')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=place / "site", capture_output=True, text=True, check=True)
    folder, kept = done.stdout.split()
    assert kept == "True"
    assert not os.path.exists(folder)
    assert not (place / "site" / "cache").exists()


def test_a_current_directory_that_is_gone_is_named(place):
    gone = place / "gone"
    gone.mkdir()
    os.chdir(gone)
    gone.rmdir()
    with pytest.raises(InputError, match="current directory"):
        package.modules()


def test_what_is_logged_while_grading_is_kept_and_other_threads_are_left_alone(caplog):
    logger = logging.getLogger("mlebench.grade_helpers")
    with package.heard() as said:
        logger.warning("mine")
        logger.info("chatter")
        other = threading.Thread(target=logger.warning, args=("theirs",))
        other.start()
        other.join()
    assert said == ["mine"]
    assert [record.message for record in caplog.records] == ["theirs"]
    logger.warning("later")
    assert caplog.records[-1].message == "later"


@pytest.mark.parametrize(
    ("version", "too_new"), [("1.9.1", False), ("1.10.0", False), ("1.11.0rc1", True), ("2.0", True)]
)
def test_a_scikit_learn_that_breaks_log_loss_graders_is_recognised(monkeypatch, version, too_new):
    monkeypatch.setattr(package.importlib.metadata, "version", lambda name: version)
    assert package.sklearn_too_new() is too_new
