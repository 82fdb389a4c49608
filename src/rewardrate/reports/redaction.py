"""Removes passwords and keys in addresses and settings from what a page shows."""

from __future__ import annotations

import re

HIDDEN = "(hidden)"
WORDS = r"(?:api_?key|key|token|secret|password|passwd|credentials?|authorization|bearer)"
# https://user:password@host -> https://(hidden)@host; the query of an address may carry a key, too
_USER = re.compile(r"(?i)\b([a-z][a-z0-9+.-]{0,30}://)[^/\s@\"']*@")  # bounded: else a.a.a... takes quadratic time
_QUERY = re.compile(rf"(?i)([?&][\w.-]*{WORDS}=)[^&\s\"']+")
# name = "value", 'name': 'value', NAME: value
_SETTING = re.compile(
    rf"(?i)(?<![a-z0-9_?&-])((?:[\w-]*[_-])?{WORDS}[\"']?\s*[:=]\s*)(\"[^\"]*\"|'[^']*'|[^\s\"',;}}]+)"
)
# the shapes that well-known services give their keys
_SHAPES = re.compile(
    r"\b(?:sk-[A-Za-z0-9_-]{16,}|hf_[A-Za-z0-9]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|AKIA[A-Z0-9]{16}|AIza[\w-]{30,}"
    r"|xox[abprs]-[A-Za-z0-9-]{10,})"
)
_BEARER = re.compile(r"(?i)\bbearer\s+[\w.~+/=-]{8,}")


def redacted(text: str) -> str:
    """The text without what looks like a password or a key. Scripts do not come through here: they stay as is."""
    if "://" in text:
        text = _QUERY.sub(rf"\1{HIDDEN}", _USER.sub(rf"\1{HIDDEN}@", text))
    return _BEARER.sub(f"Bearer {HIDDEN}", _SHAPES.sub(HIDDEN, text))


def redacted_settings(text: str) -> str:
    """A config's text without values of settings that are named like a secret."""
    return _SETTING.sub(rf'\1"{HIDDEN}"', redacted(text))
