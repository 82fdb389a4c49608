from itertools import islice

import numpy as np
import pytest

from rewardrate.pretraining.corpus import Corpus, batches, example
from rewardrate.pretraining.corpus.tokenizer import save_tokenizer, train_tokenizer

pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def reading(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokenizer")
    save_tokenizer(train_tokenizer(batches.sample_texts(Corpus(), 1, 300), 600, 1536), folder)
    return batches.Reading(Corpus(), 5, str(folder), "compact", 1024, pieces=2)


def test_a_row_is_prompt_answer_and_end(reading):
    encoder = batches.Encoder(reading)
    row = encoder.rows(0)[0]
    lengths = [sum(len(ids) for ids in encoder._encode(list(encoder.texts(number)))) for number in range(20)]
    first = next(
        number for number, length in enumerate(lengths) if length < reading.context
    )  # longer ones are left out
    one = example(Corpus(), 5, first)
    assert encoder.tokenizer.decode(row.tokens[: row.start]) == one.prompt
    assert encoder.tokenizer.decode(row.tokens[row.start : -1]) == one.answer
    assert row.tokens[-1] == encoder.tokenizer.eos_token_id


def test_batches_keep_to_their_size_and_waste_little(reading):
    found = list(islice(batches.batches(reading, 16_384), 14))
    assert all(batch.tokens.size <= 16_384 for batch in found)
    assert all(batch.tokens.shape[1] % batches.ROUND == 0 for batch in found)
    used = sum((batch.part > 0).sum() for batch in found) / sum(batch.part.size for batch in found)
    assert used > 0.85


def test_long_examples_are_left_out(reading):
    assert all(len(row.tokens) <= 1024 for piece in (0, 1) for row in batches.Encoder(reading).rows(piece))


def test_the_order_does_not_depend_on_the_number_of_processes(reading):
    alone = list(islice(batches.batches(reading, 8192), 3))
    shared = batches.batches(reading, 8192, workers=1)
    try:
        for one, other in zip(alone, islice(shared, 3), strict=True):
            assert np.array_equal(one.tokens, other.tokens)
            assert np.array_equal(one.part, other.part)
    finally:
        shared.close()
