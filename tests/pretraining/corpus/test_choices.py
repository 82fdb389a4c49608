from random import Random

from rewardrate.pretraining.corpus import drawing
from rewardrate.pretraining.corpus.choices import STYLES, Vectors
from rewardrate.pretraining.corpus.shipped import BRIEFS


def test_vectors_are_written_as_a_constructor_call():
    vectors = Vectors("TfidfVectorizer", (("min_df", "2"), ("sublinear_tf", "True")))
    assert vectors.text == "TfidfVectorizer(min_df=2, sublinear_tf=True)"


def test_the_width_counts_the_columns_that_are_named():
    choices = drawing.draw(Random(3), BRIEFS[1])
    named = len(choices.numbers or ()) + len(choices.categories) + len(choices.dates)
    assert choices.width == named


def test_no_style_uses_one_name_for_two_things():
    for style in STYLES:
        names = [style.train, style.test, style.x, style.z, style.y, style.p, style.model, style.columns]
        assert len(set(names)) == len(names)
