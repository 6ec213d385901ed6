"""What a renewal does to a dataset and to its lifetime, before an owner renews it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from msgspec import UNSET

from accountant.display.budget_in_force import renewed_budget_words
from accountant.display.datasets import guarantee, joint_words, void_sentence
from accountant.display.numbers import counted, symbol
from accountant.policy import Policy, resolve
from accountant.policy.lifetime import StoredLifetime, continues, next_generation, remaining
from accountant.policy.proposal import differences
from accountant.questions.schema import Schema
from accountant.views.datasets import DatasetView


class RenewalPlan(NamedTuple):
    """A renewal that was not sent yet.

    Attributes:
        view: the dataset. `renewed_as`: the next generation.
        policy: of the next generation as it was typed, None for that of the dataset.
        pending: how many requests on the dataset wait for an approval.
        schema: that goes with `policy`, None for none.
        budget: in force of the next generation, where `policy` has a ceiling above it; "" for all.
    """

    view: DatasetView
    renewed_as: str
    policy: Policy | None = None
    pending: int = 0
    schema: Schema | None = None
    budget: str = ""

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
        if self.budget:
            yield f"{new} will begin with {self.budget} in force"
        elif words := renewed_budget_words(view, new, self.policy):
            yield words
        if unlike := self._unlike_words():
            yield f"{new} will differ from {name}: {', '.join(unlike)}"
        yield from _guarantee_words(view)

    @property
    def _next_policy(self) -> Policy:
        return self.view.policy if self.policy is None else resolve(self.policy)

    def _unlike_words(self) -> list[str]:
        """Return what a typed policy changes: it is the whole one, and brings nothing along."""
        if self.policy is None:
            return []
        changed = differences(self.view.policy, self.policy)
        words = [f"{field} {was} becomes {new}" for field, (was, new) in changed.items()]
        if self.view.schema is not UNSET and self.schema is None:
            words.append("it takes no questions, without a schema")
        return words

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
