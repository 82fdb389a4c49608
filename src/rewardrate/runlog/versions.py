"""Run logs of older formats: read as they are, and brought to the current one by the first process that writes.

Version 1 kept no prompt. Where an attempt improved a seed, its column `prompt` held `[seed: NAME]`; another producer
may have written any text there. It had neither `seed` nor `rank_key`, by which version 2 ranks the attempts of a race;
and every chain had one attempt a step, so that `chain` is the row and `updates` the steps before.
"""

from __future__ import annotations

import re
import sqlite3

from rewardrate.runlog import schema
from rewardrate.runlog.encoding import chat_text

SEED = re.compile(r"\[seed: ([\w.+-]{1,200})\]")
_INSTEAD = {
    "seed": f"seed_of_version_1({schema.text_of('prompt')})",
    "prompt": f"chat_of_version_1({schema.text_of('prompt')})",
    "rank_key": "NULL",
    "chain": "a.row",
    "updates": "a.step - 1",
    "arrival": "NULL",
}


def seed_of(prompt: str | bytes | None) -> str | None:
    """Name of the seed that the prompt of a version-1 log stands for; None for any other text."""
    found = SEED.fullmatch(prompt) if isinstance(prompt, str) else None
    return found[1] if found else None


def chat_of(prompt: str | bytes | None) -> str | None:
    """The prompt of a version-1 log as a chat of one message; None where there was none, or a seed's name."""
    if prompt is None or seed_of(prompt) is not None:
        return None
    text = prompt.decode("utf-8", "surrogatepass") if isinstance(prompt, bytes) else prompt
    return chat_text([{"role": "user", "content": text}], "prompt")


def read_as_current(db: sqlite3.Connection) -> None:
    """Views of this connection alone, over the tables of version 1, that show the columns of the current version."""
    db.create_function("seed_of_version_1", 1, seed_of, deterministic=True)
    db.create_function("chat_of_version_1", 1, chat_of, deterministic=True)
    for name in ("attempts", "pending"):
        db.execute(f"CREATE TEMP VIEW {name} AS {schema.view(name, _INSTEAD)}")


def read_as_is(db: sqlite3.Connection) -> None:
    """Take those views away again: the writer has brought the file to the current version meanwhile."""
    for name in ("attempts", "pending"):
        db.execute(f"DROP VIEW IF EXISTS temp.{name}")


def migrate(db: sqlite3.Connection) -> None:
    """Bring a file of version 1 to version 2 in one transaction: a process killed inside leaves version 1 as it was."""
    db.execute("BEGIN IMMEDIATE")
    try:
        for name in ("attempts", "pending"):
            db.execute(f"DROP VIEW {name}")
            db.execute(f"ALTER TABLE {name}_rows ADD COLUMN seed TEXT")
            db.execute(f"ALTER TABLE {name}_rows ADD COLUMN rank_key REAL")
            for column in ("chain INTEGER NOT NULL DEFAULT 0", "updates INTEGER NOT NULL DEFAULT 0", "arrival INTEGER"):
                db.execute(f"ALTER TABLE {name}_rows ADD COLUMN {column}")
            db.execute(f"UPDATE {name}_rows SET chain = row, updates = step - 1")
        used = "SELECT prompt FROM attempts_rows UNION SELECT prompt FROM pending_rows"
        found = db.execute(f"SELECT id, text FROM texts WHERE id IN ({used})").fetchall()
        seeds = {number: seed_of(text) for number, text in found}
        chats = {number: schema.number_of_text(db, chat_of(text) or "") for number, text in found}
        db.create_function("new_seed", 1, seeds.get)
        db.create_function("new_prompt", 1, chats.get)
        for name in ("attempts", "pending"):
            db.execute(f"UPDATE {name}_rows SET seed = new_seed(prompt), prompt = new_prompt(prompt)")
        db.execute(schema.UNUSED_TEXTS)
        for statement in schema.VIEWS:
            db.execute(statement)
        db.execute("PRAGMA user_version = 2")
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise
