from rewardrate.pretraining.corpus.brief import Brief
from rewardrate.pretraining.corpus.shipped import BRIEFS

PETS = next(brief for brief in BRIEFS if brief.task == "seattle-pets")
LEAF = next(brief for brief in BRIEFS if brief.task == "leaf-flavia")


def test_words_are_labels_texts_or_dates():
    assert (PETS.categories, PETS.texts, PETS.dates) == (("zip_code",), ("animal_name",), ("license_issue_date",))


def test_an_elided_list_names_the_columns_it_shows_and_knows_how_many_there_are():
    assert LEAF.many
    assert "..." not in LEAF.listed
    assert (len(LEAF.listed), LEAF.columns) == (11, 50)


def test_a_date_tells_the_hour_only_if_its_name_says_so():
    elec = next(brief for brief in BRIEFS if brief.task == "elec-demand")
    assert elec.has_time
    assert not PETS.has_time


def test_a_prompt_with_a_parent_is_the_base_prompt_and_then_the_parent():
    base = PETS.prompt()
    assert base.startswith("# task: seattle-pets\n# goal: ")
    assert base.endswith("# submission: id,cat\n")
    said = "score 0.8 in 1.00 s"
    assert PETS.prompt("print(1)\n", said) == f"{base}# previous: {said}\nprint(1)\n# better:\n"


def test_a_task_without_columns_of_a_kind_says_none():
    brief = Brief("t", "g", "tabular", "m", 3, (), (), "y", ("id", "y"), "number")
    assert "# numbers: none\n# words: none\n" in brief.prompt()
