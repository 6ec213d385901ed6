"""Privacy accounting: claims, filters, odometers, and decisions on requests.

The Python client is in the package `streams`: write `from streams import Accountant`.
"""

from __future__ import annotations

# The names that newcomers look for in this package.
_OF_THE_CLIENT = ("Accountant", "AsyncAccountant")


def __getattr__(name: str) -> object:
    if name in _OF_THE_CLIENT:
        raise ImportError(
            f"{name} is in the package `streams`. Write `from streams import {name}`.",
            name=__name__,
        )
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
