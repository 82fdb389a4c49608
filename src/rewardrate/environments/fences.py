"""Untrusted code and text between fences of a prompt: neither can close its block or open another."""

from __future__ import annotations

import re


def fenced(code: str, language: str = "python") -> str:
    """Code as a block of its own, in a fence that no line of it can close."""
    marks = fence(code)
    return f"{marks}{language}\n{code.rstrip()}\n{marks}"


def fence(code: str) -> str:
    """One backtick more than the code has in a row, and three at least, as in CommonMark."""
    return "`" * max(3, 1 + max(map(len, re.findall("`{3,}", code)), default=0))


def unfenced(text: str) -> str:
    """Text that cannot close a fence or open another."""
    return text.replace("```", "'''").replace("~~~", "---")
