"""What every privacy filter is: a budget for a few sums, and a rule that admits a price."""

from __future__ import annotations

from abc import ABC, abstractmethod
from decimal import Decimal
from typing import ClassVar, Protocol

from accountant.amounts import Units
from accountant.totals import Price


class Budget(Protocol):
    """The part of a policy that a filter reads; amounts already parsed.

    Attributes:
        epsilon: of the guarantee, None where the policy gives `rho`.
        rho: of the guarantee, None where the policy gives `epsilon`.
        delta_for_claims: delta'', what the claims' own deltas may add up to.
        delta_for_filter: delta' = delta - delta'', what the filter's own argument uses.
    """

    @property
    def epsilon(self) -> Decimal | None: ...
    @property
    def rho(self) -> Decimal | None: ...
    @property
    def delta_for_claims(self) -> Decimal: ...
    @property
    def delta_for_filter(self) -> Decimal: ...


class Filter(ABC):
    """One way to decide whether a mechanism may run.

    An implementation is stateless: what has been spent is handed to it. To add a filter,
    write one such class in a file of its own beside this one, most easily an
    `additive.AdditiveFilter`, and name it in `filters.FILTERS`: policies, the command's
    `--filter` and the audit then know it. If it adds up something new, name that sum in
    `totals.SUMS`. Why it is so: docs/decisions/0021-additive-filters.md.

    Attributes:
        name: what a policy calls it.
        budget_field: "epsilon" or "rho", the field of the policy that holds its budget.
        all_delta_for_claims: delta'' is all of delta unless the policy says otherwise.
        sums: names in `totals.SUMS`, the first being the additive unit of the budget.
    """

    name: ClassVar[str]
    budget_field: ClassVar[str] = "epsilon"
    all_delta_for_claims: ClassVar[bool] = False
    sums: ClassVar[tuple[str, ...]]

    @abstractmethod
    def capacity(self, budget: Budget) -> tuple[Units, ...]:
        """Return what each sum may reach, rounded down. Called once, at opening.

        Raises: RequestInvalid: the budget leaves the filter nothing to argue with.
        """

    @abstractmethod
    def charge(
        self, capacity: tuple[Units, ...], spent: tuple[Units, ...], price: Price
    ) -> tuple[Units, ...] | None:
        """Return what is spent once the claim is admitted, None if it does not fit."""

    @abstractmethod
    def left(self, capacity: tuple[Units, ...], spent: tuple[Units, ...]) -> tuple[Units, ...]:
        """Return what each sum may still grow by, rounded down."""

    @abstractmethod
    def count(
        self, capacity: tuple[Units, ...], spent: tuple[Units, ...], price: Price
    ) -> int | None:
        """Return how many such claims fit one after another, None if without end."""
