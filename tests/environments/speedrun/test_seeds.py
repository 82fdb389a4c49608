import hashlib
import shutil

import pytest

from rewardrate.environments.speedrun import race
from rewardrate.environments.speedrun.rewards import RaceRewards
from rewardrate.environments.speedrun.seeds import Record, Seed, read, retimed, write
from rewardrate.environments.speedrun.verdict import Verdict
from rewardrate.errors import InputError

GOOD = Seed("a_good", "x = 1\n", Record(valid=True, loss=3.27, seconds=60.0, message="fine"))
BAD = Seed("b_bad", "y = 2\n", Record(about="it crashes"))


def verdict(loss, seconds, status="ok"):
    return Verdict(status == "ok", 0.0, loss, seconds, f"took {seconds}", status, "")


def test_a_folder_of_records_reads_back_as_it_was_written(tmp_path):
    write(tmp_path / "seeds", [GOOD, BAD])
    assert read(tmp_path / "seeds") == [GOOD, BAD]
    write(tmp_path / "seeds", [BAD])
    assert read(tmp_path / "seeds") == [BAD]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["seeds"]
    assert read(tmp_path / "nothing") == []


def test_a_seed_counts_as_an_attempt_only_if_its_record_is_valid():
    outcome = GOOD.outcome(RaceRewards())
    assert (outcome.valid, outcome.reward, outcome.score, outcome.seconds) == (True, 10 - 3.27, 3.27, 60.0)
    assert outcome.message == "fine"
    assert not BAD.outcome(RaceRewards()).valid


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("valid = true\n", "no loss"),
        ("valid = 3\n", "valid"),
        ("los = 3.0\n", "did you mean 'loss'"),
        ("loss = -1.0\n", "at least 0"),
        ("= x", "TOML"),
    ],
)
def test_a_broken_record_is_named(tmp_path, text, words):
    write(tmp_path / "seeds", [GOOD])
    (tmp_path / "seeds" / "a_good" / "record.toml").write_text(text)
    with pytest.raises(InputError, match=words):
        read(tmp_path / "seeds")


def test_a_script_that_is_no_text_is_named(tmp_path):
    write(tmp_path / "seeds", [GOOD])
    (tmp_path / "seeds" / "a_good" / "train_gpt.py").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="cannot be read as text"):
        read(tmp_path / "seeds")


def test_re_timing_takes_means_and_one_failure_makes_a_seed_invalid():
    again = retimed(GOOD, [verdict(3.2, 50.0), verdict(3.3, 70.0)], "here").record
    assert (again.valid, again.loss, again.seconds, again.runs) == (True, pytest.approx(3.25), 60.0, 2)
    assert (again.message, again.machine) == ("took 70.0", "here")
    assert not retimed(GOOD, [verdict(3.2, 50.0), verdict(None, 1.0, "error")], "here").record.valid
    assert retimed(GOOD, [verdict(None, 1.0, "sandbox-failure")], "here") == GOOD, "our own fault says nothing of it"


SHIPPED = {
    "01_adamw": "99b6e5d200ddbcddf05792c3f69c1a760003ebfe59bec537627824c203860f36",
    "02_muon": "3f63743525aaf592a4e9333398238988d10fff69c3984b084435e48319ac8d0a",
    "03_muon_batched": "990f57c0ed2eb673deb496a400899ddcbcbde50dd379d1aec827eaa7ed4532ff",
    "04_muon_split": "0038b56a6bb1a36235b7afcd94bbce25945d48cdb93fed7a2563d8a5e3cdd870",
    "05_softcap": "cbc94368fd60bd24f301f09b9729537b7462dacdfbdaccc6719f8530596be521",
    "06_skips": "fc89de93044c3440a188c4ff2e94cd7697548fb7d685e90f04d92ed73bb4d236",
    "07_values": "4adc861906afebd194e5f1bb1bbd69f7dd9d34b31b5a0c90fc9251df0ca7f555",
    "08_previous": "228a29733da3fbaeafe8ad05819885350b53a0b320fb0c7e16d34c51cb0d56a6",
    "09_previous_batched": "14b57c00d45f5b45a60aaa17ad1fff841c013b57b5263d5fc979bc3f6a1ef470",
}
MINI = race.load("nanogpt-mini")


def test_the_seeds_that_come_with_the_race_are_the_scripts_that_were_measured_to_the_byte():
    found = read(MINI.seeds, MINI)
    assert {seed.name: hashlib.sha256(seed.code.encode()).hexdigest() for seed in found} == SHIPPED
    assert all(seed.record.about for seed in found)


def test_seeds_that_are_edits_are_given_the_constants_of_the_race_that_takes_them():
    tiny = race.load("nanogpt-tiny")
    for seed, whole in zip(read(MINI.seeds, tiny), read(MINI.seeds, MINI), strict=True):
        assert seed.code == tiny.with_constants(whole.code)
        assert "TRAIN_STEPS = 60" in seed.code


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no-block"),
        ("no_change", "no-block"),
        ("<<<<<<< SEARCH\nLAYERS = 4\n", "broken-block"),
        ("<<<<<<< SEARCH\nLAYERS = 9\n=======\nLAYERS = 3\n>>>>>>> REPLACE", "no-match"),
        ("<<<<<<< SEARCH\nimport\n=======\nimport\n>>>>>>> REPLACE", "several-matches"),
        ("<<<<<<< SEARCH\nLAYERS = 4\n=======\nLAYERS = (\n>>>>>>> REPLACE", "syntax"),
        ("<<<<<<< SEARCH\nTRAIN_STEPS = 225\n=======\nSTEPS = 1\n>>>>>>> REPLACE", "constants"),
        (b"\xff\xfe", "cannot be read as text"),
    ],
)
def test_edits_that_do_not_fit_are_one_line_naming_the_seed(tmp_path, text, words):
    shutil.copytree(MINI.seeds, tmp_path / "seeds")
    path = tmp_path / "seeds" / "05_softcap" / "edits.txt"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InputError, match=words) as found:
        read(tmp_path / "seeds", race.load("nanogpt-tiny"))
    assert "05_softcap" in str(found.value)
    assert "\n" not in str(found.value)


def test_a_whole_script_goes_before_edits_and_edits_need_a_race(tmp_path):
    write(tmp_path / "seeds", [GOOD])
    (tmp_path / "seeds" / "a_good" / "edits.txt").write_text("NO_CHANGE")
    assert read(tmp_path / "seeds") == read(tmp_path / "seeds", MINI) == [GOOD]
    with pytest.raises(InputError, match="no race is given"):
        read(MINI.seeds)
