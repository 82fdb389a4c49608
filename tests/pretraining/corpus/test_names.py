from random import Random

from rewardrate.pretraining.corpus import names


def test_columns_are_written_in_five_ways():
    assert [names.cased("avg_room_price", style) for style in range(5)] == [
        "avg_room_price",
        "Avg_Room_Price",
        "AvgRoomPrice",
        "AVG_ROOM_PRICE",
        "avgRoomPrice",
    ]


def test_most_made_up_words_are_new():
    random = Random(0)
    found = [names.made_up(random) for _ in range(1000)]
    assert len(set(found)) > 800
    assert all(word.isalpha() and len(word) > 1 for word in found)


def test_the_targets_of_held_out_tasks_are_in_no_pool():
    assert not {"demand", "great", "avg_price_per_room", "review", "product", "workday", "digit"} & set(names.ALL)
