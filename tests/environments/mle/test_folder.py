import re
import shutil

import pytest

from rewardrate.environments.mle.folder import find, load, shipped
from rewardrate.errors import InputError


def test_every_shipped_task_loads_and_states_its_source_and_licence():
    assert len(shipped()) >= 10
    for name in shipped():
        task = load(name)
        assert task.source.package
        assert task.source.licence
        assert task.source.hide, f"{name} is made from an installed package and hides nothing"
        assert len(task.references) >= 6
        assert task.reward == "gain"


def test_the_shipped_tasks_cover_every_modality():
    assert {load(name).modality for name in shipped()} == {"tabular", "text", "image", "series"}


def test_a_task_is_found_by_name_or_folder_and_a_slip_gets_the_nearest_name(folder):
    assert find(str(folder)) == folder.resolve()
    with pytest.raises(InputError, match="did you mean 'diamonds'"):
        find("diamond")
    with pytest.raises(InputError, match=r"no config\.yaml in that folder"):
        find(str(folder.parent))


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("direction: maximize", "direction: up", "direction = 'up': it must be one of maximize, minimize"),
        ("direction: maximize", "", "direction = None"),
        ("time_limit: 60", "time_limit: -1", "positive number of seconds"),
        ("time_limit: 60", "time_limit: soon", "positive number of seconds"),
        ("time_limit: 60", "time_limt: 60", "did you mean 'time_limit'"),
        ("reward: gain", "reward: profit", "it must be one of gain, raw, percentile"),
        ("direction: maximize", "direction: minimize\nreward: raw", "cannot be read|sorted|cannot be the reward"),
        ("id: tumours", "id: ../tumours", "letters, digits"),
        ("id: tumours", "id: other", "it must be the folder's name"),
        ("goal: Predict", "gaol: Predict", "did you mean 'goal'"),
        ("modality: tabular", "modality: smell", "tabular, text, image, series"),
        ("  hide: [sklearn/datasets/data]", "  hide: [/etc/passwd]", "paths below site-packages"),
        ("  hide: [sklearn/datasets/data]", "  hide: [../../x]", "paths below site-packages"),
        ("  package: scikit-learn", "  packet: scikit-learn", "did you mean 'package'"),
        ("id: tumours", "id: [", "it cannot be read"),
        ("id: tumours", "id: !!python/object/apply:os.system ['true']", "it cannot be read"),
    ],
)
def test_a_mistake_in_config_yaml_names_field_value_and_rule(old, new, why, folder, tmp_path):
    copy = tmp_path / "tumours"
    shutil.copytree(folder, copy)
    text = (copy / "config.yaml").read_text()
    assert old in text
    (copy / "config.yaml").write_text(text.replace(old, new))
    with pytest.raises(InputError, match=why):
        load(str(copy))


def test_a_missing_file_is_named(folder, tmp_path):
    copy = tmp_path / "tumours"
    shutil.copytree(folder, copy)
    (copy / "grade.py").unlink()
    with pytest.raises(InputError, match=re.escape("grade.py is missing")):
        load(str(copy))


def test_a_grader_that_does_not_import_or_has_no_grade_is_named(task, folder, tmp_path, sample):
    for body, why in (("import no_such_module_x\n", "cannot be imported"), ("x = 1\n", "no function `grade`")):
        copy = tmp_path / body[:6].strip() / "tumours"
        shutil.copytree(folder, copy)
        (copy / "grade.py").write_text(body)
        broken = load(str(copy), data=task.public.parents[2])
        with pytest.raises(InputError, match=why):
            broken.grade(sample)
