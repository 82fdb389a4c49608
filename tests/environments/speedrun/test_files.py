"""Files that a script writes: which are its own, and which calls write at all."""

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewardrate.environments.speedrun.files import own_file, written
from rewardrate.environments.speedrun.texts import UNKNOWN


@pytest.mark.parametrize(
    "path",
    [
        "ckpt.pt",
        "./ckpt.pt",
        "verify_ckpt/state_?.pt",
        "step_?.pt",
        "runs/a/b.json",
        "losses",
        "model_final.pt",
        "log.txt",
    ],
)
def test_files_of_its_own(path):
    assert own_file(path.replace("?", UNKNOWN))


TAKEN = (
    "stdout.log model.pt model_000020.pt model_?.pt m?.pt data/kjv1024/a.pt data ? ?.pt /tmp/a.pt ~/a.pt ../a.pt"
    " a/../model.pt torch.py a/sitecustomize.py x.so ckpt? s? ./model.pt ./data/a.pt kjv_val_000000.bin train_gpt.py"
    " a/ ./"
)


@pytest.mark.parametrize("path", TAKEN.split())
def test_files_that_others_read_or_that_cannot_be_reported(path):
    assert not own_file(path.replace("?", UNKNOWN))
    assert not own_file("")


@given(st.text(alphabet="a./\0~%{}", max_size=12))
def test_any_path_is_judged(path):
    assert own_file(path) in (True, False)


WRITTEN = {
    "open('a', 'w')": ["'a'"],
    "open('a', mode='ab')": ["'a'"],
    "open('a', 'r+b')": [],
    "open('a', m)": [],
    "open('a')": None,
    "open('a', 'rb')": None,
    "p.open('w')": ["p"],
    "p.open()": None,
    "torch.save(x, 'a')": ["'a'"],
    "torch.save(x, f='a')": ["'a'"],
    "np.save('a', x)": ["'a'"],
    "x.tofile('a')": ["'a'"],
    "p.write_text(x)": ["p"],
    "os.replace('a', 'b')": ["'a'", "'b'"],
    "os.makedirs('a', exist_ok=True)": ["'a'"],
    "os.write(1, x)": [],
    "os.dup2(f, 1)": [],
    "os.fdopen(1, 'w')": [],
    "p.replace(q)": ["p", "q"],
    "p.rename(q)": ["p", "q"],
    "text.replace('a', 'b')": None,
    "items.remove(x)": None,
    "np.memmap('a', mode='r+')": [],
    "np.memmap('a', mode='r')": None,
    "F.linear(x, w)": None,
}


@pytest.mark.parametrize(("call", "paths"), WRITTEN.items(), ids=WRITTEN)
def test_what_a_call_writes(call, paths):
    node = ast.parse(call, mode="eval").body
    found = written(node, ast.unparse(node.func))
    assert (None if found is None else [ast.unparse(one) for one in found]) == paths
