"""`accountant dataset renew` and `open --like`: a dataset in another one's place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple, NoReturn
from warnings import catch_warnings, simplefilter

import msgspec
from msgspec import UNSET, UnsetType

from accountant.display.budget_in_force import renewed_budget_words
from accountant.display.datasets import guarantee, joint_words, void_sentence
from accountant.display.numbers import counted, symbol
from accountant.policy import Policy, resolve
from accountant.policy.lifetime import (
    Lifetime,
    StoredLifetime,
    continues,
    next_generation,
    remaining,
)
from accountant.views.datasets import DatasetView
from streams.cli.dataset_proposal import OpeningDraft
from streams.cli.printing.say import say
from streams.cli.reading.dataset_reader import get_dataset, void_notes
from streams.errors import AccountantWarning


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
        rho = get_dataset(ledger, like).policy.rho
        with notes_of_warnings():
            decision = admin.owner(ledger, request).open(
                opening.name,
                like=like,
                owners=owners,
                lifetime=lifetime.fields(rho),
                as_given=True,
                new=opening.new,
            )
        notes = partial(void_notes, ledger, opening.name, decision)
        admin.end(ledger, request, decision, notes=notes)


@contextmanager
def notes_of_warnings() -> Iterator[None]:
    """Print what was not brought along."""
    with catch_warnings(record=True) as found:
        simplefilter("always", AccountantWarning)
        yield
    for each in found:
        say(f"warning: {each.message}", err=True)


class RenewalPlan(NamedTuple):
    """A renewal that was not sent yet.

    Attributes:
        view: the dataset. `renewed_as`: the next generation.
        policy: of the next generation as it was typed, None for that of the dataset.
        pending: how many requests on the dataset wait for an approval.
    """

    view: DatasetView
    renewed_as: str
    policy: Policy | None = None
    pending: int = 0

    @property
    def refusal(self) -> str:
        """Why the lifetime does not admit it, "" where it does."""
        lifetime, policy = self.view.lifetime, self._next_policy
        if lifetime is UNSET:
            return ""
        if not continues(self.view.policy, lifetime, policy):
            what = "another unit, neighbours or population, or another kind of guarantee"
            return f"this will be refused: {self.renewed_as} has {what} than {self.view.dataset}"
        if next_generation(lifetime, policy) is None:
            rest = _amounts(remaining(lifetime))
            return (
                f"this will be refused: {self.renewed_as} would take {guarantee(policy)} of the "
                f"{_named(self.view)}, and {rest} remain of it"
            )
        return ""

    def words(self) -> Iterator[str]:
        """Yield what becomes of a dataset, its reservations, its lifetime and its population."""
        view, name, new = self.view, self.view.dataset, self.renewed_as
        if view.lifetime is UNSET or view.renewed_as:
            return  # refused, with the reason
        if why := self.refusal:
            yield why
            return
        if not view.closed:
            yield f"{name} will be closed for ever, and {new} will open in its place"
        if view.open_reservations:
            count = view.open_reservations
            are = "are" if count > 1 else "is"
            yield (
                f"{counted(count, 'reservation')} {are} open on {name}: those that "
                "have begun still settle there, others cannot begin any more"
            )
        if self.pending:
            wait = "wait" if self.pending > 1 else "waits"
            yield (
                f"{counted(self.pending, 'request')} on {name} {wait} for an approval: answer "
                "before the renewal, since nothing is granted there afterwards"
            )
        yield self._lifetime_words(view.lifetime)
        if words := renewed_budget_words(view, new, self.policy):
            yield words
        yield from _guarantee_words(view)

    @property
    def _next_policy(self) -> Policy:
        return self.view.policy if self.policy is None else resolve(self.policy)

    def _lifetime_words(self, lifetime: StoredLifetime) -> str:
        view, policy = self.view, self._next_policy
        after = next_generation(lifetime, policy)
        assert after is not None
        return (
            f"of the {_named(view)}, {view.dataset} took {guarantee(view.policy)}; "
            f"{self.renewed_as} will take {guarantee(policy)}; {_amounts(remaining(after))} will "
            f"remain afterwards"
        )


def _named(view: DatasetView) -> str:
    is_shared = view.lifetime is not UNSET and view.lifetime.shared
    return f"lifetime of population {view.policy.population}" if is_shared else "lifetime"


def _amounts(amounts: Mapping[str, str]) -> str:
    return ", ".join(f"{symbol(name)} = {each}" for name, each in amounts.items())


def _guarantee_words(view: DatasetView) -> Iterator[str]:
    joint = view.joint_guarantee
    if joint and joint.holds:
        yield (
            f"population {joint.population} keeps its joint guarantee, {joint_words(joint)}: the "
            "lifetime is in it from the first opening on"
        )
    elif joint:
        yield f"population {joint.population} has {joint_words(joint)}; this does not bring it back"
    elif void := void_sentence(view):
        yield f"{void}; this does not bring it back"
