import pytest

from rewardrate.pretraining.corpus import Corpus, example
from rewardrate.pretraining.corpus.batches import sample_texts
from rewardrate.pretraining.corpus.tokenizer import END, PAD, save_tokenizer, train_tokenizer

transformers = pytest.importorskip("transformers")
ONE = example(Corpus(), 7, 3)


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer(sample_texts(Corpus(), 1, 300), 600, 1536)


def test_text_comes_back_as_it_was(tokenizer):
    for text in (ONE.prompt, ONE.answer, "Grüße 漢字\n\tx = 1\n"):
        assert tokenizer.decode(tokenizer(text)["input_ids"]) == text


def test_the_chat_template_adds_nothing_to_the_prompt(tokenizer):
    chat = [{"role": "user", "content": ONE.prompt}]
    assert tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True) == ONE.prompt
    whole = [*chat, {"role": "assistant", "content": ONE.answer}]
    assert tokenizer.apply_chat_template(whole, tokenize=False) == ONE.prompt + ONE.answer + END


def test_prompt_and_answer_do_not_share_a_token(tokenizer):
    apart = tokenizer(ONE.prompt)["input_ids"] + tokenizer(ONE.answer)["input_ids"]
    assert tokenizer(ONE.prompt + ONE.answer)["input_ids"] == apart


def test_a_word_is_cut_the_same_way_wherever_it_stands(tokenizer):
    alone = tokenizer("sched_dep_time")["input_ids"]
    text = tokenizer('train["sched_dep_time"]')["input_ids"]
    assert any(text[at : at + len(alone)] == alone for at in range(len(text)))


def test_a_line_feed_takes_the_indentation_along(tokenizer):
    pieces = [tokenizer.decode([token]) for token in tokenizer("for r in rows:\n    x = 1\n")["input_ids"]]
    assert "\n    " in pieces


def test_it_is_loaded_by_the_plain_loader(tokenizer, tmp_path):
    save_tokenizer(tokenizer, tmp_path)
    found = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert (found.pad_token, found.eos_token, found.pad_token_id, found.eos_token_id) == (PAD, END, 0, 1)
    assert found(ONE.answer)["input_ids"] == tokenizer(ONE.answer)["input_ids"]


def test_the_same_texts_make_the_same_tokenizer(tokenizer):
    again = train_tokenizer(sample_texts(Corpus(), 1, 300), 600, 1536)
    assert again.get_vocab() == tokenizer.get_vocab()
