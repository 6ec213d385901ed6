"""The command `accountant`: one file a group of commands."""

from __future__ import annotations

from streams.cli.root import main

__all__ = ["main"]
