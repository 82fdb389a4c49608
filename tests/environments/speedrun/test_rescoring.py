"""Seeds re-timed: records and table after every round, by a referee that is asked once per run."""

import csv
import dataclasses

import pytest

from rewardrate.environments.speedrun import seeds
from rewardrate.environments.speedrun.race import load
from rewardrate.environments.speedrun.rescoring import COLUMNS, cells, machine, rescore
from rewardrate.environments.speedrun.seeds import Record, Seed
from rewardrate.environments.speedrun.verdict import Verdict
from rewardrate.errors import InputError

CODE = "STEPS = 500\n"
SEEDS = [Seed("a", CODE, Record(about="the first")), Seed("b", CODE + "# b\n", Record())]


@dataclasses.dataclass
class Judge:
    """Answers with a loss that depends on the script and on how often it was asked."""

    race: object
    asked: list
    numbers: list = dataclasses.field(default_factory=list)

    def run(self, codes, *, numbers):
        (code,) = codes
        self.asked.append(code)
        self.numbers += numbers
        loss = 3.2 + 0.001 * len(self.asked)
        more = {"printed_loss": loss, "public_loss": loss, "crossed": True, "steps": 375}
        return [Verdict(True, 0.0, loss, 50.0 + len(self.asked), "fine", "ok", code, **more)]


@pytest.fixture
def judge(tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "race.toml").write_text('name = "mine"\nconstants = ["STEPS = 7"]\n')
    return Judge(load(str(folder)), [])


def test_nothing_but_records_is_replaced_and_a_bad_place_is_reported_before_anything_runs(judge, tmp_path):
    (tmp_path / "out" / "records" / "holiday").mkdir(parents=True)
    with pytest.raises(InputError, match="holiday, which is no record"):
        rescore(judge, SEEDS, tmp_path / "out", 1)
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="it cannot be used"):
        rescore(judge, SEEDS, tmp_path / "file", 1)
    assert judge.asked == []


def test_rounds_go_over_all_seeds_and_everything_is_written(judge, tmp_path):
    seen = []
    rows = rescore(judge, SEEDS, tmp_path / "out", 2, lambda row: seen.append(row.seed.name))
    assert seen == ["a", "b", "a", "b"]
    assert judge.numbers == [1337, 1337, 1338, 1338]
    assert judge.asked[0] == "STEPS = 7\n"  # the race's constants
    with (tmp_path / "out" / "table.csv").open() as file:
        table = list(csv.DictReader(file))
    assert tuple(table[0]) == COLUMNS
    assert [line["seed"] for line in table] == ["a", "b"]
    assert (table[0]["runs"], table[0]["loss"], table[0]["seconds"]) == ("2", "3.2020", "52.0")
    assert table[0]["about"] == "the first"
    assert "| a | 2 |" in (tmp_path / "out" / "table.md").read_text()
    records = seeds.read(tmp_path / "out" / "records")
    assert [seed.name for seed in records] == ["a", "b"]
    assert (records[0].record.runs, records[0].record.valid) == (2, True)
    assert records[0].record.machine == machine()
    assert cells(rows[0])["crossed"] == "yes"


def test_our_own_faults_leave_a_seed_s_record_as_it_was(judge, tmp_path):
    judge.run = lambda codes, numbers: [Verdict(False, 0.0, None, 0.1, "busy", "sandbox-failure", "")]
    (row, _) = rescore(judge, SEEDS, tmp_path / "out", 1)
    assert row.seed.record == SEEDS[0].record
    assert cells(row)["status"] == "sandbox-failure"


def test_a_folder_without_seeds_is_refused(judge, tmp_path):
    with pytest.raises(InputError, match="there is no NAME"):
        rescore(judge, [], tmp_path / "out", 1)
