"""Reads of commands about the analyst whose request they send."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

from streams.cli.printing.exit_codes import Exit
from streams.cli.printing.exits import fail

if TYPE_CHECKING:
    from accountant.views.limit_views import ScopeView
    from streams.client import Accountant


def scopes_of(ledger: Accountant, dataset: str, analyst: str | None) -> Sequence[ScopeView]:
    """Return the limits of an analyst, none if they cannot be read."""
    from accountant.errors import BudgetError

    with suppress(BudgetError):
        return ledger.budget(dataset, analyst).levels
    return ()


def fail_without_analyst(ledger: Accountant) -> NoReturn:
    """End the command: for a missing token if the server requires one, else for the name."""
    from accountant.errors import BudgetError
    from streams.errors import Unauthenticated

    try:
        ledger.me()
    except Unauthenticated:
        raise
    except BudgetError:  # the ledger cannot be read: only the name is known to be missing
        pass
    fail(
        Exit.USAGE,
        "the request names no analyst",
        hint="add --analyst NAME, or set ACCOUNTANT_ANALYST",
    )
