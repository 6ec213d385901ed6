"""What a request ends for good: the filter, basic composition beside it, or the dataset."""

from __future__ import annotations

from accountant.advice.preview import Preview
from accountant.display.datasets import about_end
from accountant.filters.beside import WITHOUT
from accountant.policy import Policy
from accountant.records import Decision
from accountant.records.outcomes import Reason


def ending_words(decided: Decision | Preview, policy: Policy | None = None) -> str:
    """Return what a request ends, or would end, "" for nothing.

    Args:
        policy: of the dataset: after a decision, only it says whether a refusal halts.
    """
    if decided.ends is not None:
        return about_end(decided.ends, granted=decided.granted)
    if _ends_basic(decided):
        return "basic composition: from now on a request must fit the filter alone"
    if _halts(decided, policy):
        return "the dataset: it grants nothing after a request that did not fit"
    return ""


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
