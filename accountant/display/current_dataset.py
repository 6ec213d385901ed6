"""A dataset when a refusal is shown: what its decision does not say, and which owner to ask."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from accountant.display.claims_refused import is_sampled
from accountant.display.reasons import OWNER, REASONS, UNNAMED_OWNER
from accountant.records import Decision
from accountant.records.members import Member
from accountant.records.outcomes import Reason
from accountant.records.request_names import claim_of
from accountant.views.datasets import DatasetView
from accountant.views.limit_views import ScopeView

_MOST_NAMES: Final = 3
_COMPARED: Final = {Reason.UNIT_MISMATCH, Reason.CLAIM_NOT_ACCEPTED, Reason.ABOVE_CAP}
"""Reasons whose words compare the claim with the policy."""


class CurrentDataset(NamedTuple):
    """A dataset when a refusal is shown, for what the decision does not have.

    Attributes:
        limits, members: all that the reader may see.
        pause: the decision that has paused it, where that is known.
        needs_name: nobody is authenticated, so an owner's command needs `--by`.
    """

    view: DatasetView
    limits: Sequence[ScopeView] = ()
    members: Sequence[Member] = ()
    pause: Decision | None = None
    needs_name: bool = False

    def by_option(self, caller: str = "") -> str:
        """Return what an owner's command needs at its end, as `by_option` does.

        Args:
            caller: who sent an owner's record, used where that is an owner.
        """
        return by_option(self.members, caller) if self.needs_name else ""


def needs_current(refused: Decision) -> bool:
    """Tell whether the words of a refused request depend on what its decision does not say."""
    reason, claim = refused.reason, claim_of(refused)
    if reason is None or reason is Reason.UNKNOWN_DATASET:
        return False
    if reason is Reason.EXHAUSTED:  # the budget in force may be below its ceiling
        of_dataset = refused.level is None
        return of_dataset or bool(refused.left_at) or refused.fits is None or is_sampled(claim)
    return reason in _COMPARED or "{owner}" in REASONS[reason].remedy_form


def by_option(members: Iterable[Member], caller: str = "") -> str:
    """Return the option that names an owner in a command: ` --by olga`, or ` --by OWNER`."""
    names = owner_names(members)
    name = caller if caller in names else next(iter(names), "")
    return f" --by {shlex.quote(name) if name else 'OWNER'}"


def owner_names(members: Iterable[Member]) -> list[str]:
    """Return the owners among members: an owner's membership never ends by itself."""
    return [each.member for each in members if "owner" in each.roles]


def owner_words(members: Iterable[Member]) -> str:
    """Return which owner to ask: `an owner (olga or omar)`, or how to find out.

    Args:
        members: those that the reader may see.
    """
    names = owner_names(members)
    if not names:
        return UNNAMED_OWNER
    more = [f"{len(names) - _MOST_NAMES:,} more"] if len(names) > _MOST_NAMES else []
    return f"{OWNER} ({' or '.join([*names[:_MOST_NAMES], *more])})"
