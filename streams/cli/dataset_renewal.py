"""`accountant dataset renew` and `open --like`: a dataset in another one's place."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final, NamedTuple, NoReturn
from warnings import catch_warnings, simplefilter

import msgspec
from msgspec import UNSET, UnsetType

from accountant.policy.lifetime import Lifetime
from streams.cli.dataset_proposal import OpeningDraft
from streams.cli.printing.say import say
from streams.cli.reading.dataset_reader import get_dataset, policy_notes
from streams.errors import AccountantWarning

_NO_LIFETIME: Final = (
    "note: the lifetime of {like} is not copied: {name} can never be renewed, and nothing is "
    "promised of both together. If that is not meant, close {name} before any request, and open "
    "another with --lifetime, or renew {like}"
)


class TypedLifetime(NamedTuple):
    """A lifetime as it was typed.

    Attributes:
        amount: in epsilon, or rho; None for no lifetime.
        delta: None for 0.
        shared: it is that of the population.
    """

    amount: str | None
    delta: str | None
    shared: bool

    def fields(self, rho: str | None) -> dict[str, object] | None:
        """Return it for an opening, in the parameter of its policy, None for none.

        Args:
            rho: that of the policy.
        """
        if self.amount is None:
            return None
        fields: dict[str, object] = {"epsilon" if rho is None else "rho": self.amount}
        fields |= {} if self.delta is None else {"delta": self.delta}
        return fields | ({"shared": True} if self.shared else {})

    def declared(self, rho: str | None) -> Lifetime | UnsetType:
        """Return it as a record has it, unchecked."""
        fields = self.fields(rho)
        return UNSET if fields is None else msgspec.convert(fields, Lifetime)


def open_like(
    opening: OpeningDraft,
    like: str,
    owners: list[str] | None,
    lifetime: TypedLifetime,
) -> NoReturn:
    """Open a dataset like another one, and end the command.

    Args:
        lifetime: its own.
    """
    admin = opening.admin
    with admin.ledger() as (ledger, request):
        copied = get_dataset(ledger, like)
        with notes_of_warnings():
            decision = admin.owner(ledger, request).open(
                opening.name,
                like=like,
                owners=owners,
                lifetime=lifetime.fields(copied.policy.rho),
                as_given=True,
                new=opening.new,
            )
        own = copied.lifetime is not UNSET and not copied.lifetime.shared
        if decision.outcome.opens and own and lifetime.amount is None:
            say(_NO_LIFETIME.format(name=opening.name, like=like), err=True)
        notes = partial(policy_notes, ledger, opening.name, decision)
        admin.end(ledger, request, decision, notes=notes)


@contextmanager
def notes_of_warnings() -> Iterator[None]:
    """Print what was not brought along."""
    with catch_warnings(record=True) as found:
        simplefilter("always", AccountantWarning)
        yield
    for each in found:
        say(f"warning: {each.message}", err=True)
