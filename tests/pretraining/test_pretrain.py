import dataclasses
import math
from dataclasses import replace
from pathlib import Path

import pytest

from rewardrate import config as configs
from rewardrate.environments.mle.extraction import extract
from rewardrate.environments.mle.prompts import SYSTEM
from rewardrate.errors import InputError
from rewardrate.pretraining.corpus import Corpus
from rewardrate.pretraining.corpus.batches import TokenBatch
from rewardrate.pretraining.corpus.shipped import BRIEFS

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from rewardrate.pretraining.pretrain import Pretraining, Shape, loss_of, new_model, pretrain  # noqa: E402

ROOT = Path(__file__).parents[2]
SMALL = Shape(vocabulary=512, layers=1, width=32, hidden=64, heads=2, key_value_heads=1, context=1536, texts=100)


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def small(out, **changes):
    plain = {"steps": 4, "batch_tokens": 4096, "warmup_steps": 1, "window": 256, "device": "cpu", "shape": SMALL}
    return Pretraining(out=str(out), **{**plain, **changes})


def weights(folder):
    return transformers.AutoModelForCausalLM.from_pretrained(folder).state_dict()


def test_a_run_lowers_the_loss_and_writes_a_model_that_loads(tmp_path):
    seen = []
    folder = pretrain(replace(small(tmp_path), steps=12, learning_rate=1e-2), on_step=seen.append)
    assert [one.step for one in seen] == list(range(1, 13))
    assert seen[-1].loss < seen[0].loss - 0.5
    assert seen[-1].tokens > seen[0].tokens > 0
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    assert model.dtype == torch.bfloat16
    assert model.generation_config.eos_token_id == tokenizer.eos_token_id
    assert configs.load(Pretraining, folder / "pretrain.toml").steps == 12


def test_the_same_config_gives_the_same_losses(tmp_path):
    first, second = [], []
    pretrain(small(tmp_path / "a"), on_step=lambda one: first.append(one.loss))
    pretrain(small(tmp_path / "b"), on_step=lambda one: second.append(one.loss))
    assert first == second


def test_a_run_that_was_stopped_goes_on_as_if_it_had_not_been(tmp_path):
    class Stop(Exception):
        pass

    def stop(one):
        if one.step == 3:
            raise Stop

    whole = pretrain(small(tmp_path / "whole", checkpoint_steps=2))
    with pytest.raises(Stop):
        pretrain(small(tmp_path / "broken", checkpoint_steps=2), on_step=stop)
    seen = []
    again = pretrain(small(tmp_path / "broken", checkpoint_steps=2), on_step=lambda one: seen.append(one.step))
    assert seen == [3, 4]
    ours, theirs = weights(again), weights(whole)
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


def test_a_training_that_ends_early_is_the_beginning_of_the_whole_one(tmp_path):
    seen, early = [], []
    whole = pretrain(small(tmp_path / "whole", keep=(2, 3)), on_step=seen.append)
    ended = pretrain(small(tmp_path / "early", stop_after=2), on_step=early.append)
    assert [(one.loss, one.learning_rate) for one in early] == [(one.loss, one.learning_rate) for one in seen[:2]]
    assert [path.name for path in sorted((whole / "steps").iterdir())] == ["000002", "000003"]
    kept, ours = weights(whole / "steps" / "000002"), weights(ended)
    assert all(torch.equal(ours[name], kept[name]) for name in kept)
    assert not torch.equal(kept["model.norm.weight"], weights(whole)["model.norm.weight"])
    assert transformers.AutoTokenizer.from_pretrained(whole / "steps" / "000003").eos_token_id is not None


def test_a_training_that_ended_early_goes_on_from_its_checkpoint(tmp_path):
    pretrain(small(tmp_path / "run", checkpoint_steps=2, stop_after=2, keep=(2,)))
    again = []
    pretrain(small(tmp_path / "run", checkpoint_steps=2, stop_after=2, keep=(2,)), on_step=again.append)
    assert again == []
    pretrain(small(tmp_path / "run", checkpoint_steps=2), on_step=again.append)
    assert [one.step for one in again] == [3, 4]


def test_other_settings_than_those_of_the_checkpoints_are_refused_and_nothing_is_overwritten(tmp_path):
    out = pretrain(small(tmp_path / "run", checkpoint_steps=2))
    before = (out / "pretrain.toml").read_bytes()
    wider = dataclasses.replace(SMALL, width=2 * SMALL.width)
    for change, words in (({"seed": 9}, "seed = 9"), ({"shape": wider}, "shape.width"), ({"steps": 8}, "steps = 8")):
        with pytest.raises(InputError, match=f"{words}.*was begun with"):
            pretrain(small(tmp_path / "run", checkpoint_steps=2, **change))
        assert (out / "pretrain.toml").read_bytes() == before


def test_the_loss_is_that_of_the_answer_alone():
    import numpy as np

    torch.manual_seed(0)
    model = new_model(SMALL, 0, 1).eval()
    tokens = np.array([[5, 6, 7, 8, 1, 0, 0, 0]], dtype=np.int32)
    part = np.array([[1, 1, 1, 2, 2, 0, 0, 0]], dtype=np.int8)
    summed, total, answer = loss_of(model, TokenBatch(tokens, part), 0.0, torch.device("cpu"))
    logits = model(torch.tensor([[5, 6, 7, 8, 1]])).logits[0].log_softmax(-1)
    expected = -(logits[2, 8] + logits[3, 1]).item()
    assert math.isclose(summed.item(), expected, rel_tol=1e-5)
    assert math.isclose(answer.item(), expected, rel_tol=1e-5)
    assert total.item() == 2
    weighted, total, _ = loss_of(model, TokenBatch(tokens, part), 0.5, torch.device("cpu"))
    prompt = -(logits[0, 6] + logits[1, 7]).item()
    assert math.isclose(weighted.item(), expected + 0.5 * prompt, rel_tol=1e-5)
    assert total.item() == 3


def test_two_small_batches_are_one_large_step(tmp_path):
    seen = []
    pretrain(small(tmp_path, accumulate=2), on_step=seen.append)
    assert seen[0].tokens > 4096


def test_any_model_with_a_chat_template_can_be_warmed_up(tmp_path):
    start = pretrain(small(tmp_path / "start"))
    tokenizer = transformers.AutoTokenizer.from_pretrained(start)
    tokenizer.chat_template = "{% for m in messages %}[{{ m['role'] }}]{{ m['content'] }}{% endfor %}[assistant]"
    tokenizer.save_pretrained(start)
    config = small(tmp_path / "warm", model=str(start), form="full", corpus=Corpus(mistakes=0.0))
    seen = []
    folder = pretrain(config, on_step=seen.append)
    assert len(seen) == 4
    after = transformers.AutoTokenizer.from_pretrained(folder)
    chat = [{"role": "system", "content": SYSTEM}]
    assert after.apply_chat_template(chat, tokenize=False).startswith(f"[system]{SYSTEM}")


def test_a_model_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(InputError, match="model"):
        pretrain(small(tmp_path, model=str(tmp_path / "nothing")))


def test_heads_that_do_not_divide_the_width_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"shape\.heads"):
        pretrain(replace(small(tmp_path), shape=replace(SMALL, heads=3)))


def test_the_recipe_of_tiny_is_a_valid_config():
    config = configs.load(Pretraining, ROOT / "recipes" / "pretrain-tiny.toml")
    assert config.model == ""
    assert "mnist-5k" in config.corpus.held_out


def test_the_under_trained_start_is_the_recipe_of_tiny_ended_early():
    whole, start = (configs.load(Pretraining, ROOT / "recipes" / f"pretrain-{name}.toml") for name in ("tiny", "start"))
    assert start.stop_after < start.steps
    assert replace(start, out=whole.out, stop_after=0, keep=()) == whole


def test_the_shipped_model_is_small_loads_plainly_and_writes_scripts():
    folder = ROOT / "src" / "rewardrate" / "policies" / "tiny"
    assert sum(path.stat().st_size for path in folder.iterdir()) < 16e6
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    shape = configs.load(Pretraining, ROOT / "recipes" / "pretrain-tiny.toml").shape
    assert (model.config.num_hidden_layers, model.config.hidden_size) == (shape.layers, shape.width)
    assert 3e6 < sum(one.numel() for one in model.parameters()) < 8e6
    prompt = next(brief for brief in BRIEFS if brief.task == "digits8x8").prompt()
    rows = tokenizer([prompt] * 8, return_tensors="pt", add_special_tokens=False)["input_ids"]
    torch.manual_seed(0)
    with torch.no_grad():
        found = model.generate(
            input_ids=rows, attention_mask=torch.ones_like(rows), do_sample=True, top_k=0, max_new_tokens=320
        )
    texts = tokenizer.batch_decode(found[:, rows.shape[1] :], skip_special_tokens=True)
    scripts = [extract(text).code for text in texts]
    assert sum(code is not None and "submission.csv" in code and "digit" in code for code in scripts) >= 5
    assert len(set(texts)) >= 6
