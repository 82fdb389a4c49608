"""A node runs jobs with the data it was sent, and hides on its own machine what was hidden where the job was made."""

from pathlib import Path

import pytest

from rewardrate import __version__
from rewardrate.errors import InputError
from rewardrate.sandbox import Job, Limits
from rewardrate.scale.node import Homes, Node
from rewardrate.scale.shipping import digest, pieces

SETTINGS = {"clock": "wall", "repeats": 0, "warm_imports": ("numpy",)}


def test_a_job_finds_the_data_that_were_sent(tmp_path):
    (tmp_path / "words.txt").write_text("hello")
    node = Node(SETTINGS, Homes.here())
    name = digest(tmp_path)
    for chunk in pieces(tmp_path):
        node.put(name, chunk)
    node.complete(name)
    result = node.run(Job("print(open('data/here/words.txt').read())", Limits(seconds=20, cores=1)), {"here": name})
    assert (result.status, result.stdout) == ("ok", "hello\n")
    assert node.about().version == __version__
    node.close()


def test_a_hidden_path_is_hidden_below_this_machines_own_python():
    there = Homes((Path("/a/rewardrate"), Path("/a/venv"), Path("/a/python")))
    here = Homes((Path("/b/rewardrate"), Path("/b/venv"), Path("/b/python")))
    secret = Path("/a/venv/lib/python3.11/site-packages/sklearn/datasets/data")
    assert there.moved(secret, here) == {secret, Path("/b/venv/lib/python3.11/site-packages/sklearn/datasets/data")}
    assert there.moved("/elsewhere", here) == {Path("/elsewhere")}


def test_a_script_on_a_node_cannot_read_what_the_job_hides():
    import sklearn.datasets

    secret = Path(sklearn.datasets.__file__).parent / "data" / "digits.csv.gz"
    node = Node(SETTINGS, Homes.here())
    result = node.run(
        Job(f"print(len(open({str(secret)!r}, 'rb').read()))", Limits(seconds=20, cores=1), hide=[secret]), {}
    )
    assert result.stdout.strip() in ("", "0")
    node.close()


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("devices", ("/dev/nvidia99",), "devices = '/dev/nvidia99': there is no such device on the node"),
        ("python", "/nowhere/python", "python = '/nowhere/python': there is no such interpreter on the node"),
    ],
)
def test_a_device_or_an_interpreter_that_only_the_sender_has_is_named_with_the_node(field, value, words):
    job = Job("print(1)", Limits(seconds=20, cores=1))
    object.__setattr__(job, field, value)  # as it arrives from a machine that has it: nothing is checked on the way
    node = Node(SETTINGS, Homes.here())
    with pytest.raises(InputError, match=words):
        node.run(job, {})
    node.close()
