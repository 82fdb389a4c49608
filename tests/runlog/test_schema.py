"""The file is opened, or refused in one line."""

import contextlib
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from rewardrate.attempt import Outcome, Proposal, RateEstimate
from rewardrate.errors import InputError
from rewardrate.runlog import RunLog, schema
from rewardrate.runlog.rows import AttemptRow

RATE = RateEstimate(0.5, 0.4, 0.3, 0.6, 2)


def small_run(folder, steps=3):
    with RunLog.create(folder, "seed = 1\n", {"seed": "1"}) as log:
        for step in range(1, steps + 1):
            log.begin_step(step, [Proposal(f"reply {step} {row}" * 200) for row in range(8)])
            for row in range(8):
                log.outcome(step, row, Outcome(True, 0.5, 0.8, 1.0, "fine", "ok", f"code {step} {row}" * 200))
            log.commit_step(step, RATE, [0.1] * 8, [0.0] * 8, states={"rng": step})
    return folder


def test_the_views_show_every_field_of_an_attempt():
    db = sqlite3.connect(":memory:")
    for statement in schema.STATEMENTS:
        db.execute(statement)
    columns = {row[1] for row in db.execute("PRAGMA table_info(attempts)")}
    db.close()
    assert columns == {*AttemptRow.__dataclass_fields__, "prompt"}


def damaged(kind, path):
    data = path.read_bytes()
    path.write_bytes(
        {
            "empty": b"",
            "text": b"step,row\n1,2\n" * 500,
            "half a header": data[:50],
            "first page": data[:16384],
            "half": data[: len(data) // 2 // 16384 * 16384],
            "torn": data[: len(data) - 1000],
        }[kind]
    )


@pytest.mark.parametrize("kind", ["empty", "text", "half a header", "first page", "half", "torn"])
@pytest.mark.parametrize("read_only", [True, False])
def test_a_damaged_file_is_reported_in_one_line_and_left_alone(tmp_path, kind, read_only):
    path = small_run(tmp_path / "run") / "run.sqlite"
    damaged(kind, path)
    before = path.read_bytes()
    with pytest.raises(InputError, match="run log = ") as caught, RunLog.open(path.parent, read_only) as log:
        log.attempts()
    assert "\n" not in str(caught.value)
    assert path.read_bytes() == before


@pytest.mark.parametrize("read_only", [True, False])
def test_a_damage_that_sqlite_quotes_in_bytes_that_are_no_text_is_reported_too(tmp_path, read_only):
    path = small_run(tmp_path / "run", 1) / "run.sqlite"
    data = path.read_bytes()
    path.write_bytes(data.replace(b"CREATE TABLE about (key", b"CREATE TABLE about \xc4\xc4key"))
    with pytest.raises(InputError, match="it is damaged"):
        RunLog.open(path.parent, read_only)


def test_overwritten_pages_are_reported_in_one_line(tmp_path):
    path = small_run(tmp_path / "run") / "run.sqlite"
    data = bytearray(path.read_bytes())
    for page in range(1, len(data) // 16384):
        data[page * 16384 : page * 16384 + 300] = b"\xa5" * 300
    path.write_bytes(data)
    with pytest.raises(InputError, match="damaged"):
        RunLog.open(path.parent)
    with RunLog.open(path.parent, read_only=True) as log:
        for question in (log.attempts, log.steps, log.about, log.events, log.pending, log.last_step):
            with pytest.raises(InputError, match="damaged"):
                question()


def test_a_foreign_database_is_refused(tmp_path):
    db = sqlite3.connect(tmp_path / "run.sqlite")
    db.execute("CREATE TABLE mine (x)")
    db.close()
    for read_only in (True, False):
        with pytest.raises(InputError, match="it is not a run log of rewardrate"):
            RunLog.open(tmp_path, read_only)


def test_a_newer_version_is_refused_by_number(tmp_path):
    small_run(tmp_path / "run", 1)
    db = sqlite3.connect(tmp_path / "run/run.sqlite")
    db.execute(f"PRAGMA user_version = {schema.VERSION + 1}")
    db.close()
    for read_only in (True, False):
        with pytest.raises(InputError, match=f"version {schema.VERSION + 1}; this rewardrate reads 1 to"):
            RunLog.open(tmp_path / "run", read_only)


def test_a_folder_without_a_run_is_refused(tmp_path):
    for folder in (tmp_path, tmp_path / "missing"):
        with pytest.raises(InputError, match=r"there is no run\.sqlite in it"):
            RunLog.open(folder)


def test_a_copy_made_while_the_run_is_open_can_be_read(tmp_path):
    small_run(tmp_path / "run", 1)
    with RunLog.open(tmp_path / "run") as log:
        log.begin_step(2, [Proposal("new")])
        shutil.copytree(tmp_path / "run", tmp_path / "copy")
    with RunLog.open(tmp_path / "copy", read_only=True) as copy:
        assert [row.proposal.text for row in copy.pending()] == ["new"]


READ = """
import sys
from pathlib import Path
from rewardrate.runlog import RunLog
with RunLog.open(Path(sys.argv[1]), read_only=True) as log:
    print(log.last_step(), len(log.attempts()), len(log.pending()))
"""


@pytest.mark.parametrize("state", ["closed", "killed"])
def test_a_run_on_a_read_only_mount_can_be_read(tmp_path, state):
    folder = small_run(tmp_path / "run", 2)
    if state == "killed":
        code = (
            "import os, sys; from pathlib import Path\n"
            "from rewardrate.attempt import Proposal; from rewardrate.runlog import RunLog\n"
            "log = RunLog.open(Path(sys.argv[1])); log.begin_step(3, [Proposal('x')]); os.kill(os.getpid(), 9)"
        )
        subprocess.run([sys.executable, "-c", code, folder], check=False)
        (folder / "run.sqlite-shm").unlink()
        assert (folder / "run.sqlite-wal").stat().st_size > 0
    mount = f"mount --bind {folder} {folder} && mount -o remount,ro,bind {folder} && "
    probe = f"! touch {folder}/probe 2>/dev/null"
    if (
        shutil.which("unshare") is None
        or subprocess.run(["unshare", "-rm", "sh", "-c", mount + probe], check=False, capture_output=True).returncode
    ):
        pytest.skip("this machine lets nobody make a read-only mount")
    command = mount + f'exec "{sys.executable}" -c "$READ" {folder}'
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", command], env={"READ": READ}, capture_output=True, text=True, check=False
    )
    assert (done.stdout.split(), done.stderr) == (["2", "16", "1" if state == "killed" else "0"], "")


HOLD = """
import sqlite3, sys
db = sqlite3.connect(f"file:{sys.argv[1]}?mode=ro", uri=True)
print(db.execute("SELECT count(*) FROM attempts").fetchone()[0], flush=True)
sys.stdin.read()
"""
WRITE = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from runlog.test_schema import RATE, Outcome, Proposal, RunLog
with RunLog.open(Path(sys.argv[1])) as log:
    for step in range(log.last_step() + 1, log.last_step() + 4):
        log.begin_step(step, [Proposal("reply")])
        log.outcome(step, 0, Outcome(True, 0.5, 0.8, 1.0, "fine", "ok", f"code {step}"))
        log.commit_step(step, RATE, [0.1], [0.0])
        print(step, flush=True)
        sys.stdin.readline()
"""


@contextlib.contextmanager
def process(*words):
    with subprocess.Popen(
        [sys.executable, "-c", *map(str, words)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as made:
        yield made


def alone(folder, copy):
    """How many steps a copy of run.sqlite alone holds."""
    shutil.copyfile(folder / "run.sqlite", copy)
    with contextlib.closing(sqlite3.connect(copy)) as db:
        return db.execute("SELECT count(*) FROM steps").fetchone()[0]


def beside(folder):
    return sorted(path.name for path in folder.iterdir() if path.name.startswith("run.sqlite"))


def test_run_sqlite_alone_holds_every_committed_step_also_while_a_reader_is_connected(tmp_path):
    """Writer and reader are processes of their own; the reader stays connected until after the writer has closed."""
    folder = small_run(tmp_path / "run", 2)
    with process(HOLD, folder / "run.sqlite") as reader:
        assert reader.stdout.readline() == "16\n"
        with process(WRITE, folder, Path(__file__).parents[1]) as writer:
            for step in (3, 4, 5):
                assert writer.stdout.readline() == f"{step}\n"
                assert alone(folder, tmp_path / f"copy-{step}") == step
                writer.stdin.write("\n")
                writer.stdin.flush()
            writer.stdin.close()
            assert writer.wait(60) == 0
        assert alone(folder, tmp_path / "copy") == 5
    with RunLog.open(folder, read_only=True) as log:
        assert log.last_step() == 5
    assert beside(folder) == ["run.sqlite"], "the last reader of ours removes what is empty"


def test_readers_of_a_closed_run_leave_no_files_beside_it(tmp_path):
    folder = small_run(tmp_path / "run", 2)
    assert beside(folder) == ["run.sqlite"]
    with process(HOLD, folder / "run.sqlite") as reader:
        assert reader.stdout.readline() == "16\n"
        assert beside(folder) == ["run.sqlite"]
    subprocess.run([sys.executable, "-c", READ, folder], check=True, capture_output=True)
    assert beside(folder) == ["run.sqlite"]
    with RunLog.open(folder) as log:  # and it can be written again, with readers
        log.begin_step(3, [Proposal("new")])
        subprocess.run([sys.executable, "-c", READ, folder], check=True, capture_output=True)
        assert len(log.pending()) == 1
    assert beside(folder) == ["run.sqlite"]


def test_the_log_of_a_killed_run_is_kept_by_its_readers(tmp_path):
    folder = small_run(tmp_path / "run", 1)
    with process(WRITE, folder, Path(__file__).parents[1]) as writer:
        assert writer.stdout.readline() == "2\n"
        writer.kill()
    before = (folder / "run.sqlite").read_bytes()
    with RunLog.open(folder, read_only=True) as log:
        assert log.last_step() == 2
    assert (folder / "run.sqlite").read_bytes() == before
    assert "run.sqlite-wal" in beside(folder)


def test_a_full_or_busy_disk_is_reported_as_such(tmp_path):
    for reason, words in (("database or disk is full", "cannot be written"), ("database is locked", "another program")):
        with pytest.raises(InputError, match=words), schema.sqlite_errors(tmp_path):
            raise sqlite3.OperationalError(reason)
