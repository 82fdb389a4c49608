from dataclasses import replace

from pretraining.corpus.scripted import BY_NAME, drawn
from rewardrate.pretraining.corpus.texts import joined, text_script


def test_text_is_vectorized_and_fitted():
    choices = drawn("kjv-section", approach="text")
    script = text_script(BY_NAME["kjv-section"], choices).text()
    assert choices.vectors.text in script
    assert choices.model.text in script


def test_missing_text_counts_as_empty():
    pets = BY_NAME["seattle-pets"]
    assert '.fillna("")' in joined(pets, drawn("seattle-pets", approach="text"), "train")


def test_a_label_is_joined_to_the_text():
    food = BY_NAME["food-reviews"]
    choices = replace(drawn("food-reviews", approach="text"), categories=("product",), narrow=False)
    assert joined(food, choices, "df") == 'df["review"] + " " + df["product"]'


def test_few_components_make_a_dense_matrix():
    choices = drawn("kjv-section", approach="text")
    choices = replace(choices, vectors=replace(choices.vectors, components=50))
    assert "TruncatedSVD(50, random_state=0)" in text_script(BY_NAME["kjv-section"], choices).text()
