"""Datasets as commands read them, wherever the ledger is; a ledger's file is only read."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TypeVar

from streams.cli.printing.exits import Exit, fail
from streams.cli.reading.connected import settings_for

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from accountant.claims import Claim
    from accountant.records.members import Member
    from accountant.views.datasets import DatasetView
    from accountant.views.limit_views import LevelView
    from streams.client import Accountant

T = TypeVar("T")

_LATEST = 60  # decisions among which the last grant is looked for


def reader(url: str, token_file: Path | None = None) -> Accountant:
    """Return a client that reads the ledger at an address, and a file without a lock.

    Raises: AddressInvalid, Unavailable, NoSuchLedger, Refused.
    """
    from streams.client import Accountant

    return Accountant(settings=settings_for(url, token_file), read_only=True)


def find(ledger: Accountant, name: str) -> DatasetView | None:
    """Return one dataset as it stands, None if it was never opened."""
    from accountant.records.names import is_name

    return ledger.dataset(name) if is_name(name) else None


def existing(ledger: Accountant, name: str) -> DatasetView:
    """Return one dataset as it stands; end the command if it was never opened."""
    found = find(ledger, name)
    if found is None:
        fail_unopened(name)
    return found


def fail_unopened(name: str) -> NoReturn:
    """End the command for a dataset that was never opened."""
    hint = "`accountant dataset list` shows those there are"
    fail(Exit.FAILED, f"no dataset {name} was ever opened", hint=hint)


def members_shown(ledger: Accountant, dataset: str) -> list[Member]:
    """Return the members of a dataset that are shown to the caller."""
    return _shown(ledger.members, dataset)


def limits_shown(ledger: Accountant, dataset: str) -> list[LevelView]:
    """Return the limits of a dataset that are shown to the caller."""
    return _shown(ledger.limits, dataset)


def _shown(read: Callable[[str], list[T]], dataset: str) -> list[T]:
    from streams.errors import NotPermitted

    with suppress(NotPermitted):
        return read(dataset)
    return []


def last_granted(ledger: Accountant, view: DatasetView) -> Claim | None:
    """Return the claim of the last grant among a dataset's latest decisions, None without one."""
    from accountant.errors import BudgetError
    from accountant.records.request_names import claim_in

    claim = None
    with suppress(BudgetError):  # they are archived, or not shown to the caller
        for decision in ledger.requests(view.dataset, after=max(0, view.sequence - _LATEST)):
            if decision.granted:
                claim = claim_in(decision.request)
    return claim


def one_with_joint(view: DatasetView, ledger: Accountant) -> DatasetView:
    """Return a dataset with the joint guarantee of its population, where it has one.

    Only then, and where no server has told it, are the others read.
    """
    if not view.policy.population or view.joint_guarantee:
        return view
    return all_with_joint([view], ledger.datasets(), ledger)[0]


def all_with_joint(
    shown: Sequence[DatasetView], every: Sequence[DatasetView], ledger: Accountant
) -> Sequence[DatasetView]:
    """Return datasets with joint guarantees: a server's, which knows of datasets that it hides.

    Args:
        ledger: which has read `every`.
    """
    from accountant.views.population import with_joint

    is_told = any(view.joint_guarantee for view in shown)
    if is_told or not any(view.policy.population for view in shown):
        return shown
    return with_joint(shown, every, ordered=ledger.ordered_before())
