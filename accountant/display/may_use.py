"""How much of a dataset an analyst may still use, what keeps it from being more, and when."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Final, NamedTuple

from msgspec import UNSET

from accountant.advice.room import LimitRoom, Tightest, tightest
from accountant.display.limits import scope_words
from accountant.display.numbers import part_of, remaining_amount, remaining_percent, symbol
from accountant.display.reasons import UNNAMED_OWNER
from accountant.display.times import moment
from accountant.views.datasets import DatasetView, State
from accountant.views.limit_views import AnalystBudget

WAITING: Final = "Waiting will not help: "
FIXED: Final = "a dataset's budget is fixed"
_OVER: Final = frozenset({"closed", "halted"})


class MayUse(NamedTuple):
    """What an analyst may still use of a dataset.

    Attributes:
        percent: of the dataset's budget, "0 %" if nothing is granted any more.
        amount: the same in the sum that decides; "" where no sum alone does.
        by: what keeps it from being more.
        more_at: when more is available, None if waiting does not help.
        waiting: why it does not help, a sentence; "" if it does.
        is_paused: nothing is granted now: the amounts are those after a resume.
        is_over: nothing is granted any more.
    """

    percent: str
    amount: str
    by: str
    more_at: str | None
    waiting: str
    is_paused: bool
    is_over: bool

    def sentence(self, caller: str) -> str:
        """Return how much a caller may use: `you may still use 5 % of the budget (ε 0.05)`."""
        amount = f" ({self.amount})" if self.amount else ""
        may_use = "may use" if self.is_paused else "may still use"
        after = "after the pause " if self.is_paused else ""
        return f"{after}{caller} {may_use} {self.percent} of the budget{amount}"

    def sentence_with_reason(self, caller: str) -> str:
        """Return the same, with what keeps it from being more."""
        return f"{self.sentence(caller)}{': ' if self.is_over else ', by '}{self.by}"


def may_use(
    budget: AnalystBudget,
    state: State,
    owner: str = UNNAMED_OWNER,
    *,
    view: DatasetView | None = None,
) -> MayUse:
    """Return what an analyst may still use.

    Args:
        state: of the dataset. `owner`: which owner to ask for more, see `owner_words`.
        view: the dataset, where it is known: its budget in force may be below its ceiling.
    """
    found, is_over = tightest(budget), state in _OVER
    room = found.room
    if is_over:
        room = room._replace(part=Fraction(0), left=Decimal(0))
    percent, amount = _part_and_amount(room, budget)
    return MayUse(
        percent=percent,
        amount=amount,
        by=f"nothing more is granted: the dataset is {state}" if is_over else _room_words(room),
        more_at=None if is_over else found.more_at,
        waiting=f"{WAITING}the dataset is {state}."
        if is_over
        else _waiting_words(found, owner, view),
        is_paused=state == "paused" or budget.pause is not None,
        is_over=is_over,
    )


def state_of(budget: AnalystBudget) -> State:
    """Return whether a dataset that is not closed still grants, as a budget says it."""
    if budget.paused:
        return "paused"
    return "halted" if budget.halted else "open"


def raise_limit(scope: str, owner: str) -> str:
    """Return what would help where a limit is used up: `scope` in words."""
    return f"{owner} would have to raise the limit of {scope}"


def raise_budget(view: DatasetView, owner: str, by: str = "") -> str:
    """Return what would help where the budget in force is used up, "" where nothing does.

    Args:
        owner: which owner to ask, see `owner_words`. `by`: the end of an owner's command.
    """
    budget = view.in_force
    if budget is UNSET:
        return ""
    field, ceiling = budget.field, getattr(view.policy, budget.field)
    if Decimal(budget.amount) >= Decimal(ceiling):
        return ""
    return (
        f"{owner} may raise the budget in force, {symbol(field)} {budget.amount}, to at most "
        f"{ceiling}: `accountant dataset set-budget {view.dataset} --{field} {ceiling}{by}`"
    )


def reserve_less(owner: str) -> str:
    """Return what would help where the rest is reserved for others."""
    return f"{owner} would have to reserve less for others"


def whole_period_too_small(scope: str) -> str:
    """Return why the next period would not help."""
    return f"a whole period of the period limit of {scope} is too small for this request"


def left_words(room: LimitRoom, budget: AnalystBudget) -> str:
    """Return what one limit leaves: `13.6 % of the budget (ε 0.136)`."""
    percent, amount = _part_and_amount(room, budget)
    return f"{percent} of the budget" + (f" ({amount})" if amount else "")


def _part_and_amount(room: LimitRoom, budget: AnalystBudget) -> tuple[str, str]:
    """Return what is left as a percentage and in one sum, "" where no sum alone says it."""
    percent = remaining_percent(Decimal(room.part.numerator) / Decimal(room.part.denominator))
    agrees = remaining_percent(part_of(room.left, budget.budget[room.unit])) == percent
    return percent, f"{symbol(room.unit)} {remaining_amount(room.left)}" if agrees else ""


def _room_words(room: LimitRoom) -> str:
    """Return what keeps somebody from using more: `the period limit of team red`."""
    if room.level is None:
        return "what remains of the dataset and is not reserved for others"
    what = "period limit" if room.what == "pace" else room.what
    return f"the {what} of {scope_words(room.level.scope, room.level.name)}"


def _waiting_words(found: Tightest, owner: str, view: DatasetView | None) -> str:
    """Return why waiting does not help an analyst, in a sentence; "" where it does."""
    if found.more_at is not None:
        return ""
    room = found.room
    if room.level is None:
        more = "" if view is None else raise_budget(view, owner)
        return f"{WAITING}{reserve_less(owner) if room.what == 'reserved' else more or FIXED}."
    scope = scope_words(room.level.scope, room.level.name)
    if room.level.until is not None:
        return f"The limit of {scope} ends at {moment(room.level.until)}."
    if room.what == "pace":
        return f"{WAITING}a whole period allows {scope} no more."
    return f"{WAITING}{raise_limit(scope, owner)}."
