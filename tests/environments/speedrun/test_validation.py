"""Where a script validates."""

import ast
import time

from rewardrate.environments.speedrun import race
from rewardrate.environments.speedrun.edits import parse
from rewardrate.environments.speedrun.normal_form import script_of
from rewardrate.environments.speedrun.validation import (
    counted_names,
    free_statements,
    kind_of,
    mentions,
    printed_names,
    readers_of,
    sections_of,
)

TREE = parse(race.load("nanogpt-mini").baseline)


def test_the_section_and_its_condition_are_found():
    (section,), conditions = sections_of(TREE)
    assert any("validation_loss(" in ast.unparse(one) for one in section)
    assert conditions == ["body of if last or step % VAL_EVERY == 0"]
    assert printed_names(TREE) == {"val_loss"}


def test_the_loader_is_what_reads_files_and_what_calls_it():
    definitions = {node.name: node for node in TREE.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    assert readers_of(definitions) == {"load_shard", "training_batches"}


def test_a_long_chain_of_readers_is_followed_soon():
    chain = "def f0(): open('x')\n" + "".join(f"def f{n}(): f{n - 1}()\n" for n in range(1, 12_000))
    definitions = {node.name: node for node in ast.parse(chain).body}
    start = time.process_time()
    assert len(readers_of(definitions)) == 12_000
    assert time.process_time() - start < 4, "a tenth of a second; looking at all of them for each takes ten"


SECTION = """
best = f(best)
val_loss = check(raw, val_tokens)
torch.save(raw.state_dict(), "own.pt")
torch.save(raw.state_dict(), "model.pt")
print(f"val_loss:{val_loss}")
best = min(best, val_loss)
raw.weight = 0
again = val_tokens[0]
if val_loss < 3:
    stop = True
"""


def test_free_is_what_comes_after_the_printing_and_touches_nothing_it_is_made_of():
    tree = ast.parse(SECTION)
    free = free_statements(tree.body, counted_names(tree.body[:5], {"torch"}), {"val_loss"}, script_of(tree))
    assert [id(one) in free for one in tree.body] == [False, False, True, False, False, True, False, False, True]


def test_reading_the_printed_number_is_no_mention_and_its_gradient_is_one():
    tree = ast.parse("low = val_loss < 3\nval_loss.backward()\nx = val_tokens\nval_loss = 3\ny = 'v' + 'al'")
    assert sorted(mentions(tree, set(), set(), {"val_loss"}, script_of(tree))) == [
        "val_loss = 3",
        "val_loss.backward()",
        "x = val_tokens",
        "y = 'v' + 'al'",
    ]


def test_statements_have_their_kind():
    kinds = [
        kind_of(ast.parse(line).body[0]) for line in ("dist.all_reduce(x)", "x / 2", "print('val_loss')", "x += 1")
    ]
    assert kinds == ["reduction", "division", "printed-value", "validation-loop"]
