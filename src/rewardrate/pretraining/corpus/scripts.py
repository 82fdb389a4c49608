"""Choices in, script out: one writer for each approach."""

from __future__ import annotations

from collections.abc import Callable

from rewardrate.pretraining.corpus import plain
from rewardrate.pretraining.corpus.brief import Brief
from rewardrate.pretraining.corpus.choices import Approach, Choices
from rewardrate.pretraining.corpus.source import SourceWriter
from rewardrate.pretraining.corpus.tables import table_script
from rewardrate.pretraining.corpus.texts import text_script

WRITERS: dict[Approach, Callable[[Brief, Choices], SourceWriter]] = {
    "table": table_script,
    "text": text_script,
    "algebra": plain.algebra_script,
    "centres": plain.centres_script,
    "groups": plain.groups_script,
    "constant": plain.constant_script,
    "csv-algebra": plain.csv_algebra_script,
    "csv-groups": plain.csv_groups_script,
    "csv-words": plain.csv_words_script,
}


def write(brief: Brief, choices: Choices) -> SourceWriter:
    """The script that the choices make for the brief."""
    return WRITERS[choices.approach](brief, choices)
