import pytest

from rewardrate.environments.speedrun import race
from rewardrate.environments.speedrun.rewards import RaceRewards
from rewardrate.environments.speedrun.seeds import Record, Seed, read, retimed, write
from rewardrate.environments.speedrun.verdict import Verdict
from rewardrate.errors import InputError

GOOD = Seed("a_good", "x = 1\n", Record(valid=True, loss=3.27, seconds=60.0, message="fine"))
BAD = Seed("b_bad", "y = 2\n", Record(about="it crashes"))


def verdict(loss, seconds, status="valid"):
    return Verdict(status, status == "valid", loss, loss, False, seconds, 5, f"took {seconds}")


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
    assert not retimed(GOOD, [verdict(3.2, 50.0), verdict(None, 1.0, "crash")], "here").record.valid
    assert retimed(GOOD, [verdict(None, 1.0, "infrastructure")], "here") == GOOD, "our own fault says nothing of it"


def test_the_seeds_that_come_with_the_race_can_be_read():
    assert len(read(race.load("nanogpt-mini").seeds)) >= 6
