"""The error for an object that is none of an engine's: what is wanted, and how to get one."""

from __future__ import annotations


def wrong_type(argument: str, wanted: str, value: object, how: str) -> TypeError:
    """Return the error for an argument of another type.

    Args:
        wanted: the type, in words. `how`: what to pass instead, a sentence.
    """
    return TypeError(f"{argument} must be {wanted}, got {type(value).__name__}. {how}")
