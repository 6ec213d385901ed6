"""The base of every privacy filter: a budget for a few sums, and a rule that admits a price."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from decimal import Decimal
from operator import add, gt
from types import MappingProxyType
from typing import Any, ClassVar, Final, NamedTuple, Protocol

from accountant.amounts import INFINITE, Units, precise
from accountant.claims.price import Price
from accountant.errors import OVER_ZERO, RequestInvalid


class Budget(Protocol):
    """The part of a policy that a filter reads, with its amounts parsed.

    Attributes:
        epsilon: of the guarantee, None where the policy gives `rho`.
        rho: of the guarantee, None where the policy gives `epsilon`.
        delta_for_claims: delta'', the limit on the sum of the claims' own deltas.
        delta_for_filter: delta' = delta - delta'', for the filter's own proof.
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
    """A policy's promise, which holds for ever and for every sequence of requests.

    Attributes:
        name: "epsilon" or "rho": (epsilon, delta)-DP or delta-approximate rho-zCDP.
        amount: in nats.
    """

    name: str
    amount: Decimal
    delta: Decimal


class Parameter(NamedTuple):
    """A field of the policy that only some filters read.

    Attributes:
        help: the help text of the field's option in commands.
        example: a value of the field: one text or several, or True.
    """

    help: str
    example: str | tuple[str, ...] | bool

    @property
    def is_flag(self) -> bool:
        """Whether the field is True or left out, and never needed."""
        return self.example is True


Parameters = Mapping[str, Parameter]

DELTAS: Final = frozenset({"delta", "apart_delta", "ex_post_delta"})
"""The sums of claims' deltas."""


class Filter(ABC):
    """One way to decide whether a mechanism may run.

    An implementation holds its policy's parameters and no state: the caller passes the spent
    totals. How to add a filter: docs/how-to/add-a-filter.md. Reasons:
    docs/decisions/0023-filters-with-a-rule.md.

    Attributes:
        name: its name in a policy.
        budget_fields: the policy fields that may hold the budget; a policy gives exactly one.
        reads: fields of every policy that the constructor takes as keywords, unparsed; a field
            that the policy leaves out is not passed.
        parameters: further such fields, which only policies with this filter have. Commands
            and checks derive their lists of parameters from here.
        sums: names of its totals; the first is the one that the budget is counted in.
        settles_ex_post: an `ex_post` claim may be settled below its bound.
        takes_beside: basic composition may stand beside it, `beside` of a policy.
        error_law: the law of noise that a question with `error` gets by default, of the laws
            whose claims the filter takes the one that costs it least.
        adds_up: what a batch costs is the sum of what its mechanisms cost, whatever was spent.
    """

    name: str
    budget_fields: tuple[str, ...] = ("epsilon",)
    reads: ClassVar[tuple[str, ...]] = ()
    parameters: ClassVar[Parameters] = MappingProxyType({})
    settles_ex_post: bool = False
    adds_up: bool = False
    takes_beside: bool = True
    error_law: str = "discrete_laplace"
    sums: tuple[str, ...]

    @classmethod
    def of(cls, **values: Any) -> Filter:
        """Return the filter of a policy's values of `reads` and `parameters`."""
        return cls(**values)

    @property
    def state(self) -> tuple[str, ...]:
        """Names of its totals: `sums`, and behind them those that have no limit."""
        return self.sums

    @property
    def needs(self) -> tuple[str, ...]:
        """Names of the sums that it needs of a price; `sums` unless its rule is not a sum."""
        return self.sums

    def default_for_claims(self, delta: Decimal, *, budget_field: str) -> Decimal:
        """Return delta'', the part of delta that claims may spend where the policy gives none.

        Args:
            budget_field: the one of `budget_fields` that the policy gives.
        """
        return Decimal(0)

    def delta_for_claims(self, budget: Budget) -> Decimal:
        """Return the limit on the sum of all claims' deltas."""
        return budget.delta_for_claims

    def guarantee(self, budget: Budget) -> Guarantee:
        """Return the policy's promise; never the filter's formula at the spent totals."""
        with precise():
            delta = budget.delta_for_claims + budget.delta_for_filter
        if budget.epsilon is None:
            return Guarantee("rho", require_positive(budget.rho, "rho"), delta)
        return Guarantee("epsilon", budget.epsilon, delta)

    @abstractmethod
    def capacity(self, budget: Budget) -> tuple[Units, ...]:
        """Return the limit of each sum, rounded down. Called once, at opening.

        Raises: RequestInvalid: the filter's proof needs more, such as a delta above 0.
        """

    @abstractmethod
    def charge(
        self, capacity: tuple[Units, ...], spent: tuple[Units, ...], price: Price
    ) -> tuple[Units, ...] | None:
        """Return the spent totals after the claim, None if it does not fit."""

    def add(self, spent: tuple[Units, ...], price: Price) -> tuple[Units, ...]:
        """Return the spent totals after a claim that nothing refuses, above any limit too."""
        return tuple(map(add, spent, price.amounts))

    @abstractmethod
    def remaining(self, capacity: tuple[Units, ...], spent: tuple[Units, ...]) -> tuple[Units, ...]:
        """Return the amount by which each sum may still grow.

        Where a rule ties the sums together, it is an upper limit for each of them.
        """

    @abstractmethod
    def count(
        self, capacity: tuple[Units, ...], spent: tuple[Units, ...], price: Price
    ) -> int | None:
        """Return how many such claims fit one after another, None if any number does.

        A filter that cannot count exactly may return any number that provably fits.
        """

    def fits(self, capacity: tuple[Units, ...], spent: tuple[Units, ...], price: Price) -> bool:
        """Tell whether `charge` would admit the claim, for callers that do not need its cost."""
        return self.charge(capacity, spent, price) is not None

    def excess(
        self, capacity: tuple[Units, ...], spent: tuple[Units, ...], price: Price
    ) -> float | None:
        """Return about ln(cost / budget left), which guides the search for the largest fit.

        It is 0 where the claim just fits, and infinite where nothing is left. It only speeds
        up the search, which checks every result. None: there is no such number.
        """
        return None

    def accepts(self, price: Price) -> bool:
        """Tell whether the claim would fit into some budget, however large."""
        return INFINITE not in price.amounts[: len(self.needs)]

    def has_room_for_delta(self, capacity: tuple[Units, ...], price: Price) -> bool:
        """Tell whether an empty budget has room for the deltas of the claim."""
        return not any(
            name in DELTAS and price.amounts[self.needs.index(name)] > limit
            for name, limit in zip(self.sums, capacity, strict=True)
        )

    def holds(self, capacity: tuple[Units, ...], spent: tuple[Units, ...]) -> bool:
        """Tell whether the spent totals obey the filter's rule; an audit checks this."""
        return not any(map(gt, spent, capacity))

    def within(self, limits: tuple[Units, ...], spent: tuple[Units, ...]) -> bool:
        """Tell whether spent totals are within smaller limits than the filter's own.

        It proves nothing by itself: what is above is refused, whatever the filter would admit.
        """
        return self.holds(limits, spent)

    def progress(self, capacity: tuple[Units, ...], spent: tuple[Units, ...]) -> Units:
        """Return the spent part of `capacity[0]`, in [0, capacity[0]], for thresholds."""
        return spent[0]


def require_positive(value: Decimal | None, field: str) -> Decimal:
    """Return a budget that must be given and greater than 0.

    Raises: RequestInvalid: it is missing or 0.
    """
    if not value:
        raise RequestInvalid(field, OVER_ZERO, "nothing" if value is None else str(value))
    return value


def own_delta(budget: Budget) -> Decimal:
    """Return delta' = delta - delta'', which must be greater than 0.

    Raises: RequestInvalid: the claims' part of delta leaves the filter nothing.
    """
    if not budget.delta_for_claims and budget.delta_for_filter <= 0:
        raise RequestInvalid("delta", OVER_ZERO, "0")
    if budget.delta_for_filter <= 0:
        raise RequestInvalid(
            "delta", "must exceed delta_for_claims for this filter", str(budget.delta_for_filter)
        )
    return budget.delta_for_filter


def sum_name(family: str, member: Decimal) -> str:
    """Return the name of a sum of `price.FAMILIES`: `renyi_22`, `within_0.01`."""
    # `normalize` would round the number to the context's 28 digits: the divergence of a smaller
    # order is a smaller cost.
    text = f"{member:f}"
    return f"{family}_{text.rstrip('0').rstrip('.') if '.' in text else text}"
