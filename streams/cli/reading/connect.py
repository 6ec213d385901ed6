"""Connects a command to the ledger that its options name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from streams.client import Accountant
    from streams.settings import Settings


WAIT_S = 10.0


def settings_for(url: str, token_file: Path | None) -> Settings:
    """Return the settings of the environment; options override them.

    Raises: Refused: a value breaks its rule.
    """
    from streams.settings import load_client

    settings = load_client(url=url, token_file=token_file)
    if token_file is not None:
        settings = settings.model_copy(update={"token": None})
    return settings


def connect(
    url: str, token_file: Path | None, *, wait: float = WAIT_S, replace_ledger: bool = False
) -> Accountant:
    """Return a client of the ledger at an address.

    Args:
        replace_ledger: as of `Accountant`.

    Raises: AddressInvalid, Unavailable, Refused.
    """
    from streams.client import Accountant

    settings = settings_for(url, token_file)
    return Accountant(settings=settings, wait=wait, replace_ledger=replace_ledger)
