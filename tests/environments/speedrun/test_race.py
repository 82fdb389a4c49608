"""Races: found by name or folder, every key checked, constants put into the script."""

import dataclasses

import pytest

from rewardrate.environments.speedrun import race as races
from rewardrate.environments.speedrun.race import Rules, constant, find, load, shipped
from rewardrate.errors import InputError


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "race.toml").write_text('name = "mine"\nconstants = ["STEPS = 7"]\n')
    (folder / "train_gpt.py").write_text("STEPS = 500  # of training\nRATE = 0.1\n")
    return folder


def test_the_defaults_are_the_paper_s():
    rules = Rules("paper")
    assert (rules.target_loss, rules.cap_seconds, rules.cadence) == (3.28, 1500.0, 125)
    assert (rules.validation_tokens, rules.processes) == (10_485_760, 8)
    assert rules.target_loss - rules.credited_margin == pytest.approx(3.25)


@pytest.mark.parametrize("name", shipped())
def test_every_shipped_race_loads(name, tmp_path):
    race = load(name, data=tmp_path)
    assert race.name == name
    assert race.about
    assert race.prepared == tmp_path / race.data
    assert race.credited_loss < race.target_loss


@pytest.mark.parametrize("name", ["nanogpt-mini", "nanogpt-tiny", "nanogpt-gpu"])
def test_the_small_races_share_a_readable_script_whose_rules_are_their_own(name, tmp_path):
    race = load(name, data=tmp_path)
    assert len(race.baseline.splitlines()) < 350
    compile(race.baseline, "train_gpt.py", "exec")
    assert f"VAL_TOKENS = {race.validation_tokens}" in race.baseline
    assert f"VAL_EVERY = {race.cadence}" in race.baseline
    assert f"TRAIN_STEPS = {race.baseline_steps}" in race.baseline
    assert race.validation_files in race.baseline


def test_a_folder_is_a_race(folder, tmp_path):
    race = load(str(folder), data=tmp_path)
    assert race.folder == folder
    assert race.script == folder / "train_gpt.py"
    assert race.seeds == folder / "seeds"
    assert race.public == tmp_path / "fineweb10B" / "public"
    assert race.baseline == "STEPS = 7  # of training\nRATE = 0.1\n"


def test_changes_are_checked_like_the_file(folder):
    assert load(str(folder), changes={"cap_seconds": 20}).cap_seconds == 20.0
    with pytest.raises(InputError, match=r"race.toml: cap_second .*did you mean 'cap_seconds'"):
        load(str(folder), changes={"cap_second": 20})
    with pytest.raises(InputError, match="at least 1"):
        load(str(folder), changes={"cadence": 0})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name = 3", "it must be text"),
        ("", "required"),
        ('name = "other"', "the folder's name"),
        ('name = "mine"\nprocesses = 4\ncores = 2\ndevice = "cpu"', "only 2 cores"),
        ('name = "mine"\ndata = "../secrets"', "files in one folder"),
        ('name = "mine"\nvalidation_files = ""', "files in one folder"),
        ('name = "mine"\nconstants = ["os.system(1)"]', "NAME = value"),
        ('name = "mine"\nconstants = ["STEPS = open(1)"]', "NAME = value"),
        ('name = "mine"\ndevice = "tpu"', "one of cpu, cuda"),
        ("name = ", "not valid TOML"),
    ],
)
def test_a_mistake_in_the_file_is_one_line(folder, text, words):
    (folder / "race.toml").write_text(text)
    with pytest.raises(InputError, match=words) as caught:
        load(str(folder))
    assert "\n" not in str(caught.value)


def test_a_constant_must_stand_in_the_script_once(folder):
    with pytest.raises(InputError, match="assigns NOTHING 0 times"):
        _ = load(str(folder), changes={"constants": ["NOTHING = 1"]}).baseline
    (folder / "train_gpt.py").write_text("STEPS = 1\nSTEPS = 2\n")
    with pytest.raises(InputError, match="assigns STEPS 2 times"):
        _ = load(str(folder)).baseline


def test_constants_are_plain_values():
    assert constant("RATE = 0.5") == ("RATE", "0.5")
    assert constant("NAME='a'") == ("NAME", "'a'")
    for line in ("rate = 1", "RATE", "RATE = x", "RATE = 1\nimport os", "RATE == 1"):
        with pytest.raises(InputError, match="NAME = value"):
            constant(line)


def test_a_missing_script_is_reported_with_its_place(folder):
    (folder / "train_gpt.py").unlink()
    with pytest.raises(InputError, match=r"train_gpt.py"):
        _ = load(str(folder)).baseline


def test_an_unknown_race_is_answered_with_the_nearest(tmp_path):
    with pytest.raises(InputError, match="did you mean 'nanogpt-mini'"):
        find("nanogpt-min")
    with pytest.raises(InputError, match="there is no race"):
        find(str(tmp_path))


def test_a_race_is_frozen(folder):
    with pytest.raises(dataclasses.FrozenInstanceError):
        load(str(folder)).target_loss = 1.0
    assert races.FILE == "race.toml"
