"""A job is checked when it is made, and every mistake is named."""

from pathlib import Path

import pytest

from rewardrate.errors import InputError
from rewardrate.sandbox import Job
from rewardrate.sandbox.job import gpu_devices


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"script": b"pass"}, "script = 'bytes'"),
        ({"data": {".hidden": Path("/tmp")}}, "a name is made of"),
        ({"data": {"a/b": Path("/tmp")}}, "a name is made of"),
        ({"data": {"": Path("/tmp")}}, "a name is made of"),
        ({"data": [1]}, "it must map names"),
        ({"files": {"../x": b""}}, "without folders"),
        ({"files": {"script.py": b""}}, "is put there already"),
        ({"files": {"x": "text"}}, "must be bytes"),
        ({"environment": {"A=B": "x"}}, "names no ="),
        ({"environment": {"A": "x\0"}}, "without NUL"),
        ({"collect": "submission.csv"}, "it must be a list of paths"),
        ({"hide": "/usr/share"}, "it must be a list of paths"),
        ({"hide": [3]}, "it must be a path"),
        ({"clock": "wal"}, "did you mean 'wall'"),
    ],
)
def test_what_cannot_be_a_job_is_refused_by_name(arguments, words):
    with pytest.raises(InputError, match=words):
        Job(**{"script": "pass", **arguments})


def test_names_of_data_may_have_inner_dots():
    assert Job("pass", data={"train.v1.csv": Path("/tmp"), "a_b-c": "/tmp"}).clock is None


def test_devices_are_character_devices_below_dev(tmp_path):
    assert Job("pass", devices=("/dev/null",)).devices == ("/dev/null",)
    for wrong in ("/dev/nothing", "/etc/passwd", "/dev/../dev/null", "null", str(tmp_path)):
        with pytest.raises(InputError, match="it must be a character device below /dev"):
            Job("pass", devices=(wrong,))
    assert all(path.startswith("/dev/nvidia") for path in gpu_devices())
