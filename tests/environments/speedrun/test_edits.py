"""Edit blocks: what is accepted, and the name of every refusal."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewardrate.environments.speedrun.edits import (
    CHARACTERS,
    Block,
    EditRefused,
    apply,
    blocks,
    logged,
    parse,
    replaced,
)

PARENT = """\
import torch
lr = 0.1
steps = 10

def train(step):
    return lr * step

for step in range(steps + 1):
    if step % 125 == 0 or step == steps:
        val_loss = train(step)
        print(f"step:{step}/{steps} val_loss:{val_loss:.4f} train_time:1ms")
    train(step)
"""


def edit(*pairs):
    return "\n".join(f"<<<<<<< SEARCH\n{a}\n=======\n{b}\n>>>>>>> REPLACE" for a, b in pairs)


def refused(text, parent=PARENT):
    with pytest.raises(EditRefused) as caught:
        apply(parent, text)
    return caught.value.reason


def test_blocks_are_applied_and_their_lines_counted():
    found = apply(PARENT, "words\n" + edit(("lr = 0.1", "lr = 0.2\nmomentum = 0.9")) + "\nmore words")
    assert found.code == PARENT.replace("lr = 0.1", "lr = 0.2\nmomentum = 0.9")
    assert found.changed_lines == 3


def test_all_blocks_match_the_parent_so_their_order_means_nothing():
    pairs = [("lr = 0.1", "lr = steps"), ("steps = 10", "steps = 20")]
    assert apply(PARENT, edit(*pairs)).code == apply(PARENT, edit(*reversed(pairs))).code
    chain = edit(("lr = 0.1", "rate = 0.1"), ("rate = 0.1", "rate = 0.2"))
    assert refused(chain) == "no-match", "a block cannot match what another made"


def test_an_empty_replacement_takes_lines_away_and_line_ends_of_windows_are_no_obstacle():
    assert "import torch" not in apply(PARENT, edit(("import torch\n", ""))).code
    assert apply(PARENT, edit(("steps = 10", "steps = 11")).replace("\n", "\r\n")).code.count("steps = 11") == 1


REFUSALS = {
    "no-block": "CHANGE lr to 0.2",
    "broken-block": "<<<<<<< SEARCH\nlr = 0.1\n=======\nlr = 0.2\n",
    "blank-search": edit(("  \n", "x = 1")),
    "no-match": edit(("lr = 0.3", "lr = 0.2")),
    "several-matches": edit(("train(step)", "train(step + 1)")),
    "overlap": edit(("lr = 0.1\nsteps = 10", "lr = 0.2"), ("steps = 10", "steps = 11")),
    "unchanged": edit(("lr = 0.1", "lr = 0.1")),
    "too-long": edit(("lr = 0.1", "x = '" + "a" * CHARACTERS + "'")),
    "syntax": edit(("lr = 0.1", "lr = (0.1")),
    "too-many-blocks": edit(*[(f"a{i}", "b") for i in range(101)]),
    "validation-touched": edit(("val_loss:{val_loss:.4f}", "val_loss:{val_loss / 2:.4f}")),
}


@pytest.mark.parametrize(("reason", "text"), REFUSALS.items(), ids=REFUSALS)
def test_every_refusal_has_its_name(reason, text):
    assert refused(text) == reason


@pytest.mark.parametrize(
    "text",
    [
        "=======\n>>>>>>> REPLACE",
        ">>>>>>> REPLACE",
        "<<<<<<< SEARCH\n<<<<<<< SEARCH\n=======\n>>>>>>> REPLACE",
        "<<<<<<< SEARCH\nlr = 0.1\n>>>>>>> REPLACE",
    ],
)
def test_a_block_that_is_not_whole_is_broken(text):
    assert refused(text) == "broken-block"


TOUCHED = {
    "a second line": ("    train(step)", "    train(step)\n    print('step:1/1 val_loss:1.0 train_time:1ms')"),
    "by percent": ("lr = 0.1", "lr = 0.1\nprint('val_loss:%f' % 1.0)"),
    "by format": ("lr = 0.1", "lr = 0.1\nprint('val_loss:{}'.format(1))"),
    "by bytes": ("lr = 0.1", "lr = 0.1\nprint(b'val_loss:1')"),
    "in a name": ("lr = 0.1", "lr = 0.1\nLINE = 'val_loss:'"),
    "another condition": ("if step % 125 == 0 or step == steps:", "if step == steps:"),
    "another branch": (
        "    if step % 125 == 0 or step == steps:\n        val_loss",
        "    if step % 125 == 0 or step == steps:\n        pass\n    else:\n        val_loss",
    ),
    "taken away": (
        '        print(f"step:{step}/{steps} val_loss:{val_loss:.4f} train_time:1ms")\n',
        "",
    ),
}


@pytest.mark.parametrize("pair", TOUCHED.values(), ids=TOUCHED)
def test_however_it_is_written_a_change_of_what_is_printed_is_seen_on_the_tree(pair):
    assert refused(edit(pair)) == "validation-touched"


def test_another_way_to_write_the_same_line_is_the_same_line():
    old = 'print(f"step:{step}/{steps} val_loss:{val_loss:.4f} train_time:1ms")'
    new = (
        'print(\n            f"step:{step}/{steps} "\n            f"val_loss:{val_loss:.4f} train_time:1ms"\n        )'
    )
    assert apply(PARENT, edit((old, new))).code != PARENT


HOSTILE = {
    "nested": "x = " + "(" * 3000 + ")" * 3000,
    "minus": "x = " + "-" * 30_000 + "1",
    "ifs": "\n".join(" " * i + "if x:" for i in range(99)) + "\n" + " " * 99 + "pass",
    "chain": "x = " + "a." * 20_000 + "b",
    "sum": "x = " + "1+" * 20_000 + "1",
    "null": "x = '\0'",
    "number": "x = " + "9" * 100_000,
    "many lines": "x = 1\n" * 5_000,
    "surrogate": "x = '\ud800'",
}


@pytest.mark.parametrize("line", HOSTILE.values(), ids=HOSTILE)
def test_hostile_code_is_refused_or_read_in_good_time(line):
    start = time.process_time()
    try:
        apply(PARENT, edit(("lr = 0.1", line)))
    except EditRefused as refusal:
        assert refusal.reason in ("syntax", "too-long")
    assert time.process_time() - start < 10


@given(st.lists(st.integers(0, 30), max_size=6, unique=True))
def test_replacing_lines_by_themselves_changes_nothing(places):
    parent = "\n".join(f"line number {i};" for i in range(31))
    found = [Block(f"line number {i};", f"line number {i};") for i in places]
    assert replaced(parent, found) == parent


def test_a_statement_is_known_by_what_stands_around_it():
    (line,) = logged(parse(PARENT))
    assert "If step % 125 == 0 or step == steps body" in line
    assert blocks(edit(("a", "b"))) == [Block("a", "b")]
