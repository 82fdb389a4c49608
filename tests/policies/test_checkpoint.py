"""A saved learner resumes bit for bit, and what does not fit is refused with nothing changed."""

import json

import pytest

torch = pytest.importorskip("torch", reason="needs the agent extra")
pytest.importorskip("transformers", reason="needs the agent extra")

from rewardrate.errors import InputError  # noqa: E402
from rewardrate.policies.checkpoint import STATE, TENSORS, fingerprint, load_learner, save_learner  # noqa: E402
from rewardrate.policies.learner import Experience, Learner, LearnerSettings  # noqa: E402

SETTINGS = {"learning_rate": 1e-3, "critic_learning_rate": 1e-3, "mini_batch": 3}


def learner(build, seed=0, **changes):
    return Learner(build.llama(), LearnerSettings(**SETTINGS | changes), seed=seed)


def rows(step):
    return [Experience((1 + i, 2), (3 + step, 4 + i), float(i - step)) for i in range(7)]


def numbers(owner):
    found = [p.detach().clone() for p in [*owner.model.parameters(), *owner.critic.parameters()]]
    for optimiser in (owner.optimiser, owner.critic_optimiser):
        found += [tensor.clone() for state in optimiser.state.values() for tensor in state.values()]
    return found


def equal(one, other):
    return len(one) == len(other) and all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("critic", ["own", "shared"])
@pytest.mark.parametrize("before", [0, 2])
def test_saved_loaded_and_continued_equals_never_stopped(build, tmp_path, critic, before):
    unbroken = learner(build, critic=critic)
    for step in range(before):
        unbroken.update(rows(step))
    save_learner(unbroken, tmp_path, {"note": "x"})
    again = learner(build, seed=99, critic=critic)
    assert load_learner(again, tmp_path, {"note": "x"})["note"] == "x"
    for step in range(before, before + 3):
        unbroken.update(rows(step))
        again.update(rows(step))
    assert equal(numbers(unbroken), numbers(again))


def test_loading_over_a_learner_that_went_elsewhere_forgets_where_it_was(build, tmp_path):
    start = learner(build)
    save_learner(start, tmp_path, {})
    other = learner(build)
    other.update(rows(5))
    load_learner(other, tmp_path, {})
    start.update(rows(0))
    other.update(rows(0))
    assert equal(numbers(start), numbers(other))


def test_no_file_of_a_checkpoint_is_a_pickle(build, tmp_path):
    save_learner(learner(build), tmp_path, {})
    assert sorted(path.name for path in tmp_path.iterdir()) == [STATE, TENSORS]
    assert json.loads((tmp_path / STATE).read_text())["format"] == 1


def spoil(folder, how):
    if how == "no tensors":
        (folder / TENSORS).unlink()
    elif how == "half the tensors":
        (folder / TENSORS).write_bytes((folder / TENSORS).read_bytes()[:1000])
    elif how == "no state":
        (folder / STATE).unlink()
    elif how == "state is a list":
        (folder / STATE).write_text("[]")
    elif how == "state is cut":
        (folder / STATE).write_text((folder / STATE).read_text()[:30])
    elif how == "no shuffle":
        (folder / STATE).write_text('{"format": 1}')
    elif how == "another format":
        (folder / STATE).write_text((folder / STATE).read_text().replace('"format": 1', '"format": 7'))


@pytest.mark.parametrize(
    "how",
    ["no tensors", "half the tensors", "no state", "state is a list", "state is cut", "no shuffle", "another format"],
)
def test_a_spoilt_checkpoint_is_refused_and_nothing_changes(build, tmp_path, how):
    save_learner(learner(build), tmp_path, {})
    spoil(tmp_path, how)
    mine = learner(build)
    mine.update(rows(0))
    before, order = numbers(mine), mine.shuffle.get_state()
    with pytest.raises(InputError, match="checkpoint"):
        load_learner(mine, tmp_path, {})
    assert equal(before, numbers(mine))
    assert torch.equal(order, mine.shuffle.get_state())


def test_a_checkpoint_of_another_critic_or_shape_is_refused(build, tmp_path):
    save_learner(learner(build, critic="shared"), tmp_path, {})
    with pytest.raises(InputError, match="does not fit"):
        load_learner(learner(build), tmp_path, {})
    wide = Learner(build.llama(intermediate_size=64), LearnerSettings(critic="shared"))
    with pytest.raises(InputError, match="another shape"):
        load_learner(wide, tmp_path, {})


def test_what_was_expected_and_is_not_there_is_named(build, tmp_path):
    save_learner(learner(build), tmp_path, {"base": "abc"})
    with pytest.raises(InputError, match="its base is 'abc', this policy's is 'xyz'"):
        load_learner(learner(build), tmp_path, {"base": "xyz"})


def test_the_fingerprint_tells_models_apart(build):
    assert fingerprint(build.llama()) == fingerprint(build.llama())
    assert len({fingerprint(m) for m in (build.llama(), build.llama(seed=1), build.qwen())}) == 3
