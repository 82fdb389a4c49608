import os
import shutil
import stat
import threading
from dataclasses import replace

import pytest

from rewardrate.environments.mle import load
from rewardrate.environments.mle.preparation import _rows, checksums, current, prepare
from rewardrate.errors import InputError


@pytest.fixture
def own(folder, tmp_path):
    copy = tmp_path / "tumours"
    shutil.copytree(folder, copy)
    return load(str(copy), data=tmp_path / "data")


def test_data_are_made_once_and_again_when_prepare_py_changes(own):
    assert not current(own)
    assert prepare(own)
    assert not prepare(own)
    assert prepare(own, again=True)
    (own.folder / "prepare.py").write_text((own.folder / "prepare.py").read_text() + "\n# changed\n")
    assert not current(own)
    assert prepare(own)


def test_the_answers_lie_apart_and_closed_to_others(own):
    prepare(own)
    assert stat.S_IMODE(own.private.stat().st_mode) == 0o700
    assert "benign" not in (own.public / "test.csv").read_text().splitlines()[0]


def test_a_file_that_was_cut_is_made_again(own):
    prepare(own)
    os.truncate(own.public / "train.csv", 10)
    assert prepare(own)
    assert (own.public / "train.csv").stat().st_size > 1000


def test_a_failing_prepare_leaves_the_old_data_and_no_rest(own):
    prepare(own)
    before = checksums(own)
    (own.folder / "prepare.py").write_text("def prepare(raw, public, private):\n    raise RuntimeError('disk')\n")
    with pytest.raises(InputError, match=r"it failed: RuntimeError\('disk'\)"):
        prepare(own)
    assert checksums(own) == before
    left = {path.name for path in own.public.parents[1].iterdir()}
    assert left == {"prepared", "raw", ".lock"}


def test_a_prepare_that_forgets_a_file_is_reported_which(own):
    (own.folder / "prepare.py").write_text(
        "def prepare(raw, public, private):\n    (public / 'a.csv').write_text('x')\n"
    )
    with pytest.raises(InputError, match=r"did not write public/sample_submission.csv"):
        prepare(own)


def test_data_that_are_not_those_that_were_measured_are_refused(own):
    prepare(own)
    sums = checksums(own)
    (own.folder / "checksums.yaml").write_text("".join(f"{name}: {digest}\n" for name, digest in sums.items()))
    assert prepare(own, again=True)
    (own.folder / "checksums.yaml").write_text("public/train.csv: 0000\n")
    with pytest.raises(InputError, match="not the file that was measured"):
        prepare(own, again=True)
    assert checksums(own) == sums


def test_two_that_prepare_at_once_wait_for_each_other(own):
    made = []
    threads = [threading.Thread(target=lambda: made.append(prepare(own))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(made) == [False, False, False, True]


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("import sys\n\ndef prepare(raw, public, private):\n    sys.exit(0)\n", r"it raised SystemExit\(0\) before"),
        ("import os\n\ndef prepare(raw, public, private):\n    os._exit(0)\n", "ended its process with exit code 0"),
        ("import sys\nsys.exit(0)\n", "SystemExit"),
        ("def prepare(raw, public, private):\n    raise KeyboardInterrupt\n", "KeyboardInterrupt"),
        ("import os\n\ndef prepare(raw, public, private):\n    os.abort()\n", "signal 6"),
    ],
)
def test_a_prepare_that_ends_the_process_is_an_error_that_names_the_task(own, body, why):
    prepare(own)
    (own.folder / "prepare.py").write_text(body)
    with pytest.raises(InputError, match=why) as error:
        prepare(own)
    assert ": tumours: " in str(error.value), "also where the folder's path is too long to be shown"
    assert (own.public / "train.csv").is_file(), "the old data stay"
    assert {path.name for path in own.public.parents[1].iterdir()} == {"prepared", "raw", ".lock"}


def changed(own, line):
    """The page's prepare.py with a line before the tables are written."""
    path = own.folder / "prepare.py"
    path.write_text(path.read_text().replace("    write_splits(", f"    {line}\n    write_splits(", 1))
    return own


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("test.loc[3, 'benign'] = None", "1 of 200 answers in column 'benign' are missing or not finite; leave these"),
        ("test['benign'] = float('inf')", "200 of 200 answers in column 'benign'"),
        ("test['benign'] = test['benign'].astype(object); test.loc[:4, 'benign'] = 'nan'", "5 of 200 answers"),
        ("test = test[:0]", r"public/test\.csv has no rows"),
        ("train = train[:0]", r"public/train\.csv has no rows"),
    ],
)
def test_tables_without_rows_and_answers_that_are_no_answers_are_refused(own, line, why):
    with pytest.raises(InputError, match=why) as error:
        prepare(changed(own, line))
    assert "prepare.py" in str(error.value)
    assert not own.public.exists()


def test_a_class_may_be_called_nan_among_words(own):
    changed(own, "test['benign'] = ['nan', 'yes'] * 100")
    assert prepare(own)


@pytest.mark.parametrize(
    ("path", "remedy"),
    [
        ("sklearn/datasets/dat", "did you mean 'sklearn/datasets/data'"),
        ("sklern/datasets/data", "install the package"),
        ("sklearn/dataset/data", "install the package"),
    ],
)
def test_a_hidden_path_that_does_not_exist_is_refused_before_and_after_data_are_made(own, path, remedy):
    good = own.folder / "config.yaml"
    text = good.read_text()
    for made in (False, True):
        good.write_text(text.replace("hide: [sklearn/datasets/data]", f"hide: [sklearn/datasets/data, {path}]"))
        with pytest.raises(InputError, match=f"source.hide = '{path}': tumours: there is no such path.*{remedy}"):
            prepare(load(str(own.folder), data=own.public.parents[2]))
        assert own.public.exists() == made
        good.write_text(text)
        prepare(own)


@pytest.mark.parametrize(
    ("content", "accepted"), [(b"id,text\n1,\xff\xfe\n", False), (b"id,text\n1," + b"x" * 200_000 + b"\n", True)]
)
def test_a_table_that_is_no_text_is_refused_by_name_and_a_long_cell_is_not(tmp_path, content, accepted):
    (tmp_path / "train.csv").write_bytes(content)
    if accepted:
        assert len(next(iter(_rows(tmp_path / "train.csv")))["text"]) == 200_000
    else:
        with pytest.raises(InputError, match=r"train\.csv.*no table in UTF-8"):
            list(_rows(tmp_path / "train.csv"))


def test_prepared_data_are_used_where_the_package_they_come_from_is_not_installed(own):
    prepare(own)
    gone = replace(own, source=replace(own.source, package="no-such-package", hide=("no_such_package/data",)))
    assert not prepare(gone)
    here = replace(own, source=replace(own.source, package="numpy", hide=("no_such_package/data",)))
    with pytest.raises(InputError, match="no such path below site-packages"):
        prepare(here)
