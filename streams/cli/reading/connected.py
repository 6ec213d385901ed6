"""The ledger that a command's options name, with its token."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from accountant.views.datasets import DatasetView
    from streams.cli.reading.views.base import Views
    from streams.client import Accountant
    from streams.settings import Settings


WAIT_S = 10.0


def settings_for(url: str, token_file: Path | None) -> Settings:
    """Return the settings of the environment, what was typed before what is there.

    Raises: Refused: a value breaks its rule.
    """
    from streams.settings import load_client

    settings = load_client(url=url, token_file=token_file)
    if token_file is not None:
        settings = settings.model_copy(update={"token": None})
    return settings


def connected(url: str, token_file: Path | None, *, wait: float = WAIT_S) -> Accountant:
    """Return a client of the ledger at an address.

    Raises: AddressInvalid, Unavailable, Refused.
    """
    from streams.client import Accountant

    return Accountant(settings=settings_for(url, token_file), wait=wait)


def one_with_joint(view: DatasetView, views: Views) -> DatasetView:
    """Return a dataset with the joint guarantee of its population, where it has one.

    Only then, and where no server has told it, are the others read.
    """
    if not view.policy.population or view.joint_guarantee:
        return view
    return all_with_joint([view], views.read(), views)[0]


def all_with_joint(
    shown: Sequence[DatasetView], every: Sequence[DatasetView], views: Views
) -> Sequence[DatasetView]:
    """Return datasets with joint guarantees: a server's, which knows of datasets that it hides.

    Args:
        views: which have read `every`.
    """
    from accountant.views.population import with_joint

    is_told = any(view.joint_guarantee for view in shown)
    if is_told or not any(view.policy.population for view in shown):
        return shown
    return with_joint(shown, every, ordered=views.ordered_before())
