"""What every privacy filter is: a budget for a few sums, and a rule that admits a price."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from decimal import Decimal
from operator import gt
from types import MappingProxyType
from typing import ClassVar, NamedTuple, Protocol

from accountant.amounts import INFINITE, Units, precise
from accountant.claims.price import Price
from accountant.errors import RequestInvalid


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


class Guarantee(NamedTuple):
    """What a policy promises for ever, whatever is asked: its constants.

    Attributes:
        name: "epsilon" or "rho": (epsilon, delta)-DP or delta-approximate rho-zCDP.
        amount: in nats.
    """

    name: str
    amount: Decimal
    delta: Decimal


class Parameter(NamedTuple):
    """A field of the policy that only some filters take.

    Attributes:
        help: what a command says of its option.
        example: a value as the field holds it, a text or several.
    """

    help: str
    example: str | tuple[str, ...]


Parameters = Mapping[str, Parameter]


class Filter(ABC):
    """One way to decide whether a mechanism may run.

    An implementation holds its policy's parameters and no state: what has been spent is
    handed to it. How to add one: docs/code.md. Why it is so:
    docs/decisions/0023-filters-with-a-rule.md.

    Attributes:
        name: what a policy calls it.
        budget_fields: fields of the policy of which exactly one holds its budget.
        reads: fields of every policy that its constructor takes, by keyword, as they stand
            there; one that is left out is not passed.
        parameters: further ones that only policies with such a filter have. Whoever lists
            them reads them here.
        sums: names of the totals it keeps, the first being the additive unit of the budget.
        settles_ex_post: an `ex_post` claim may be settled below its bound.
    """

    name: ClassVar[str]
    budget_fields: ClassVar[tuple[str, ...]] = ("epsilon",)
    reads: ClassVar[tuple[str, ...]] = ()
    parameters: ClassVar[Parameters] = MappingProxyType({})
    settles_ex_post: ClassVar[bool] = False
    sums: tuple[str, ...]

    @property
    def needs(self) -> tuple[str, ...]:
        """Names of the sums that a price must tell it, `sums` unless its rule is no sum."""
        return self.sums

    def default_for_claims(self, delta: Decimal, *, budget_field: str) -> Decimal:
        """Return delta'', the part of delta that claims may spend unless the policy says.

        Args:
            budget_field: which of `budget_fields` the policy gives.
        """
        return Decimal(0)

    def delta_for_claims(self, budget: Budget) -> Decimal:
        """Return what the deltas of all claims may add up to."""
        return budget.delta_for_claims

    def guarantee(self, budget: Budget) -> Guarantee:
        """Return what the policy promises; never the filter's formula at what is spent."""
        with precise():
            delta = budget.delta_for_claims + budget.delta_for_filter
        if budget.epsilon is None:
            return Guarantee("rho", required(budget.rho, "rho"), delta)
        return Guarantee("epsilon", budget.epsilon, delta)

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
        """Return what each sum may still grow by, rounded down.

        Where a rule ties the sums together it is what each may grow by at most.
        """

    @abstractmethod
    def count(
        self, capacity: tuple[Units, ...], spent: tuple[Units, ...], price: Price
    ) -> int | None:
        """Return how many such claims fit one after another, None if without end.

        A filter that cannot count exactly may return a number that is proved to fit.
        """

    def fits(self, capacity: tuple[Units, ...], spent: tuple[Units, ...], price: Price) -> bool:
        """Tell whether `charge` would admit the claim, for those who need not know its cost."""
        return self.charge(capacity, spent, price) is not None

    def excess(
        self, capacity: tuple[Units, ...], spent: tuple[Units, ...], price: Price
    ) -> float | None:
        """Return about ln(cost / what is left), by which the largest that fits is searched.

        It is 0 where the claim just fits, and infinite where nothing is left; what it says is
        never relied upon. None: there is no such number, and the search takes longer.
        """
        return None

    def accepts(self, price: Price) -> bool:
        """Tell whether the claim is of a kind that fits at all, were the budget large enough."""
        return INFINITE not in price.amounts[: len(self.needs)]

    def holds(self, capacity: tuple[Units, ...], spent: tuple[Units, ...]) -> bool:
        """Tell whether what is spent obeys the filter's rule: what an audit asks of totals."""
        return not any(map(gt, spent, capacity))

    def progress(self, capacity: tuple[Units, ...], spent: tuple[Units, ...]) -> Units:
        """Return what is spent of `capacity[0]`, in [0, capacity[0]], for thresholds."""
        return spent[0]


def required(value: Decimal | None, field: str) -> Decimal:
    """Return a budget that must be given and greater than 0.

    Raises: RequestInvalid: it is not.
    """
    if not value:
        rule = "must be greater than 0 for this filter"
        raise RequestInvalid(field, rule, "nothing" if value is None else str(value))
    return value


def own_delta(budget: Budget) -> Decimal:
    """Return delta' = delta - delta'', which must be greater than 0.

    Raises: RequestInvalid: the claims' share leaves the filter none.
    """
    if not budget.delta_for_claims and budget.delta_for_filter <= 0:
        raise RequestInvalid("delta", "must be greater than 0 for this filter", "0")
    if budget.delta_for_filter <= 0:
        raise RequestInvalid(
            "delta", "must exceed delta_for_claims for this filter", str(budget.delta_for_filter)
        )
    return budget.delta_for_filter
