"""Texts of any length, and sentences that begin with a name."""

from __future__ import annotations

from typing import Final

_LONGEST: Final = 300


def shorten(text: str, maximum: int = _LONGEST) -> str:
    """Return a text that is not longer than a table bears."""
    return text if len(text) <= maximum else f"{text[:maximum]}…"


def capital(text: str) -> str:
    """Return a text as the beginning of a sentence."""
    return text[:1].upper() + text[1:]
