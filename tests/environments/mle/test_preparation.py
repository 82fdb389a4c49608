import os
import shutil
import stat
import threading

import pytest

from rewardrate.environments.mle import load
from rewardrate.environments.mle.preparation import checksums, current, prepare
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


def test_a_prepare_that_forgets_a_file_is_told_which(own):
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
