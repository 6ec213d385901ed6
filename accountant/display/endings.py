"""What a request ends for good: the filter, basic composition beside it, or the dataset."""

from __future__ import annotations

from accountant.advice.preview import Preview
from accountant.display.numbers import Texts, remaining_amount, symbol
from accountant.filters.base import DELTAS
from accountant.filters.beside import EPSILON, WITHOUT
from accountant.policy import Policy
from accountant.records import Decision
from accountant.records.outcomes import Reason


def ending_words(decided: Decision | Preview, policy: Policy | None = None) -> str:
    """Return what a request ends, or would end, "" for nothing.

    Args:
        policy: of the dataset: after a decision, only it says whether a refusal halts.
    """
    if decided.ends is not None:
        return _filter_ends(decided.ends, decided.left or {}, granted=decided.granted)
    if _ends_basic(decided):
        return f"simple addition for good; only the filter{_rest(decided.left or {})} remains"
    if _halts(decided, policy):
        return "the dataset: it grants nothing after a request that did not fit"
    return ""


def _filter_ends(name: str, left: Texts, *, granted: bool) -> str:
    """Return what it means that a grant, or the claim that would fit, ends a filter."""
    own = _own_sums(left)
    sums = f"{symbol(own[0])} " if len(own) == 1 else ""
    after = "" if granted else ", after that claim"
    rest = f" (ε {remaining_amount(left[EPSILON])} left)" if granted and EPSILON in left else ""
    return f"the {sums}budget of {name} for good{after}; only simple addition{rest} remains"


def _rest(left: Texts) -> str:
    """Return what the filter has left, in brackets; "" where one sum alone does not say it."""
    own = _own_sums(left)
    if len(own) != 1:
        return ""
    return f" ({symbol(own[0])} {remaining_amount(left[own[0]])} left)"


def _own_sums(left: Texts) -> list[str]:
    """Return the sums of the filter itself, without deltas."""
    return [name for name in left if name != EPSILON and name not in DELTAS]


def _ends_basic(decided: Decision | Preview) -> bool:
    """Whether a grant is the first without an epsilon, where basic composition counts, too."""
    if isinstance(decided, Preview):
        return decided.ends_basic
    added = (decided.cost or {}).get(WITHOUT, "0") if decided.granted else "0"
    return added != "0" and (decided.totals or {}).get(WITHOUT) == added


def _halts(decided: Decision | Preview, policy: Policy | None) -> bool:
    if isinstance(decided, Preview):
        return decided.halts
    exhausted = decided.reason is Reason.EXHAUSTED and decided.level is None
    return exhausted and policy is not None and bool(policy.halt_on_refusal)
