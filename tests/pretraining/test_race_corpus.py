"""The corpus of the race: every example is a prompt of the race and a reply that means something."""

from itertools import islice
from pathlib import Path

import pytest

from rewardrate import config
from rewardrate.environments.speedrun import race
from rewardrate.environments.speedrun.edits import EditRefused, apply
from rewardrate.environments.speedrun.specification import read
from rewardrate.errors import InputError
from rewardrate.pretraining.corpus.batches import Reading
from rewardrate.pretraining.corpus.tokenizer import save_tokenizer, train_tokenizer
from rewardrate.pretraining.pretrain import Pretraining, pretrain
from rewardrate.pretraining.race_corpus import RaceCorpus, batches, example, sample_texts

ROOT = Path(__file__).parents[2]


def test_the_same_number_is_the_same_example_and_numbers_differ():
    assert example(RaceCorpus(), 1, 7) == example(RaceCorpus(), 1, 7)
    assert len({example(RaceCorpus(), 1, number).answer for number in range(60)}) > 20


def test_answers_are_edits_of_the_parent_in_the_prompt_and_mistakes_are_few():
    found = [example(RaceCorpus(mistakes=0.0), 2, number) for number in range(60)]
    for one in found:
        assert apply(one.parent.code, read(one.answer).change).changed_lines > 0
        assert one.prompt.endswith("# better:\n")
    wrong = 0
    for one in (example(RaceCorpus(mistakes=1.0), 2, number) for number in range(20)):
        try:
            apply(one.parent.code, read(one.answer).change)
        except EditRefused:
            wrong += 1
    assert 0 < wrong < 20, "some mistakes are refused at once, others fail when they run"


def test_the_recipe_is_a_valid_config_and_trains(tmp_path):
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    recipe = config.load(Pretraining, ROOT / "recipes" / "pretrain-speedrun.toml")
    assert recipe.race is not None
    small = ["steps=3", "batch_tokens=4096", "window=256", "device=cpu", "workers=0", "shape.vocabulary=512"]
    small += [
        "warmup_steps=1",
        "shape.layers=1",
        "shape.width=32",
        "shape.hidden=64",
        "shape.heads=2",
        "shape.key_value_heads=1",
    ]
    path = ROOT / "recipes" / "pretrain-speedrun.toml"
    seen = []
    quick = config.load(Pretraining, path, [*small, "shape.texts=100", f'out="{tmp_path / "model"}"'])
    pretrain(quick, on_step=seen.append)
    assert [one.step for one in seen] == [1, 2, 3]
    assert (tmp_path / "model" / "model.safetensors").exists()


def test_batches_are_the_same_for_the_same_seed_whatever_the_number_of_processes(tmp_path):
    pytest.importorskip("transformers")
    save_tokenizer(train_tokenizer(sample_texts(RaceCorpus(), 1, 100), 512, 1536), tmp_path)
    reading = Reading(RaceCorpus(), 5, str(tmp_path), "compact", 1536, pieces=1)
    first, again = (list(islice(batches(RaceCorpus(), reading, 8192, workers), 3)) for workers in (0, 2))
    assert all((one.tokens == other.tokens).all() for one, other in zip(first, again, strict=True))
    assert all(one.tokens.size <= 8192 for one in first)


def test_a_corpus_of_several_races_names_each_in_its_prompts_and_edits_its_own_script():
    corpus = RaceCorpus(races=("nanogpt-mini", "nanogpt-tiny"), mistakes=0.0, seeds=0.0)
    found = [example(corpus, 3, number) for number in range(40)]
    names = {one.prompt.splitlines()[0] for one in found}
    assert names == {"# race: nanogpt-mini", "# race: nanogpt-tiny"}
    for one in found:
        tiny = "nanogpt-tiny" in one.prompt.splitlines()[0]
        assert ("VAL_EVERY = 20 " in one.parent.code) == tiny
        assert apply(one.parent.code, read(one.answer).change).changed_lines > 0


def test_some_prompts_show_the_baseline_before_it_was_run_as_the_first_of_a_run_does():
    every, none = ([example(RaceCorpus(unrun=share), 4, number) for number in range(40)] for share in (1.0, 0.0))
    rules = race.load("nanogpt-mini")
    first = f"# race: nanogpt-mini\n# target: {rules.target_loss:g}\n# result: it has not been run yet\n# better:\n"
    assert all(one.prompt == first and one.parent.code == rules.baseline for one in every)
    assert len({one.answer for one in every}) > 10
    assert not any("not been run" in one.prompt for one in none)


def test_a_corpus_needs_a_race():
    with pytest.raises(InputError, match=r"race.races = \[\]: there must be at least one"):
        RaceCorpus(races=())
