"""Untrusted text as tokens: the name of a control token in it, such as `<|im_end|>`, is text and not that token.

A tokenizer reads such a name as the token itself, wherever it stands. A script that holds one could so end the user's
turn of the next prompt and write the reply's beginning itself. Names are replaced by characters that nothing else uses
before a chat template sees the text, and are spelled out in ordinary tokens afterwards.
"""

from __future__ import annotations

import re
from typing import Any

PRIVATE = range(0xF0000, 0xFFFFE)  # characters that Unicode leaves to private use
MARKUP = re.compile(r"<\|.*\|>", re.DOTALL)  # some tokenizers do not flag all of theirs as special


class ControlTokens:
    """The control tokens of a tokenizer, and text without them."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        added = tokenizer.added_tokens_decoder.values()
        names = {str(token) for token in added if token.special or MARKUP.fullmatch(str(token))}
        ordered = sorted(names - {""}, key=len, reverse=True)  # a name may begin another
        self._names = re.compile("|".join(map(re.escape, ordered)) or "(?!)")

    def marks(self, text: str) -> dict[str, str]:
        """A character that does not occur in the text for every name that does."""
        names = sorted(set(self._names.findall(text)))
        free = (chr(code) for code in PRIVATE if chr(code) not in text) if names else iter(())
        return dict(zip(names, free, strict=False))

    def hidden(self, text: str, marks: dict[str, str]) -> str:
        """The text with marks in place of names."""
        return self._names.sub(lambda name: marks[name[0]], text)

    def tokens(self, text: str, marks: dict[str, str], *, add_special_tokens: bool = False) -> list[int]:
        """Tokens of a text whose names are hidden: they are spelled out; control tokens that a template wrote stay.

        A name is cut in two, so that the tokenizer does not recognise it.
        """
        names = {mark: name for name, mark in marks.items()}
        pieces = re.split(f"([{''.join(names)}])", text) if names else [text]
        found: list[int] = list(self.tokenizer(pieces[0], add_special_tokens=add_special_tokens).input_ids)
        for piece in pieces[1:]:
            name = names.get(piece, piece)
            half = len(name) // 2 if piece in names else 0
            for part in (name[:half], name[half:]):
                found += self.tokenizer(part, add_special_tokens=False).input_ids if part else []
        return found

    def spelled(self, text: str) -> str:
        """The text with a space inside each name: for engines that encode a chat themselves."""
        return self._names.sub(lambda name: f"{name[0][:1]} {name[0][1:]}", text)

    def plain(self, text: str, *, add_special_tokens: bool = False) -> list[int]:
        """Tokens of an untrusted text."""
        text = well_formed(text)
        marks = self.marks(text)
        return self.tokens(self.hidden(text, marks), marks, add_special_tokens=add_special_tokens)


def well_formed(text: str) -> str:
    """The text with `?` for half surrogate pairs, which no tokenizer takes."""
    return text.encode("utf-8", "replace").decode("utf-8")
