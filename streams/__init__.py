"""A streaming privacy accountant: ledgers, servers, the command, and the Python client.

A program that asks for budget starts with

    from streams import Accountant

or, in an event loop, with `AsyncAccountant`. `streams.client` has the rest of the client: its
errors, and what a call returns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from streams.client import Accountant, AsyncAccountant

__all__ = ["Accountant", "AsyncAccountant"]


def __getattr__(name: str) -> object:
    # Servers and commands import this package, too, and need no client: load it at the first use.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from streams import client

    value: object = getattr(client, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
