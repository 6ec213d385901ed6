"""Decide a request of a log once more, and compare."""

from __future__ import annotations

from typing import Final

from accountant.claims import check_claim
from accountant.claims.price import price
from accountant.claims.text import parse_claim
from accountant.dataset_ledger import DatasetLedger
from accountant.errors import RequestInvalid
from accountant.ledger.adjudicate import would_end
from accountant.ledger.budgets import budgets_of
from accountant.limits.applicable_limits import applicable_limits, team_of
from accountant.partition import Partition
from accountant.partition.decide import decide
from accountant.partition.draft import Draft
from accountant.partition.ids import decode_identity
from accountant.records import Decision, Source
from accountant.records.inputs import Input
from accountant.records.parts import by_dataset
from accountant.replay.plain_text import plain
from accountant.replay.sums import Finding, Findings, check_odometers, same
from accountant.times import from_iso

# These fields must be equal. Odometers may differ by rounding, `fits` must only fit, and of
# `error` only the field must be equal: a library may word the rule.
_DECIDED: Final = (
    "outcome",
    "reason",
    "dataset",
    "generation",
    "sequence",
    "cost",
    "asked",
    "totals",
    "rounded_up",
    "left",
    "crossed",
    "spent_ratio",
    "first",
    "policy",
    "budget",
    "owners",
    "member",
    "administrator",
    "limit",
    "reached",
    "more_reached",
    "level",
    "levels",
    "left_at",
    "reservation",
    "held",
    "guarantee",
    "refused_by",
    "derived",
    "in_force",
    "lifetime",
    "pending",
    "decided_at",
    "floor",
)


_RANKS: Final = {name: rank for rank, name in enumerate(_DECIDED)}


def comes_before(field: str, other: str) -> bool:
    """Tell whether a field of a decision is a cause of another, as an outcome is of its cost."""
    one, two = (_RANKS.get(each.partition(".")[0]) for each in (field, other))
    return one is not None and two is not None and one < two


def redecide(partition: Partition, decision: Decision, value: bytes) -> Findings:
    """Yield the findings about a decision on a request, decided again from the log's alone.

    Args:
        value: the decision's bytes: where the same are decided again, nothing differs.
    """
    source = decision.source
    assert source is not None
    at = from_iso(decision.decided_at)
    topic: Source = "admin" if source.topic == "admin" else "requests"
    draft = Draft(partition)
    body = decision.input_body
    encoded = decide(draft, Input(topic, source.offset, None, body, at), at)
    if encoded.value == value:
        return
    ours = encoded.decision
    due, found = by_dataset(ours), by_dataset(decision)
    if len(due) != len(found):
        yield Finding("parts", plain(ours.parts), plain(decision.parts))
        return
    for one, other in zip(due, found, strict=True):
        yield from _compare(draft, one, other)
    yield from same("request", bytes(ours.request), bytes(decision.request))
    yield from same("approval", bytes(ours.approval), bytes(decision.approval))
    yield from same(
        "error.field", ours.error and ours.error.field, decision.error and decision.error.field
    )


def _compare(draft: Draft, ours: Decision, decision: Decision) -> Findings:
    """Yield the findings about a decision as one dataset sees it."""
    for field in _DECIDED:
        due, found = getattr(ours, field), getattr(decision, field)
        if due != found:
            yield Finding(field, plain(due), plain(found))
    ledger = draft.ledgers.get(str(decision.dataset))
    if ledger is None:
        yield from same("odometers", None, decision.odometers)
        yield from same("fits", None, decision.fits)
        yield from same("ends", None, decision.ends)
        return
    readings = decision.odometers or {}
    yield from check_odometers(ledger.plan, ledger.totals, readings, is_void=ledger.is_void)
    if ours.fits != decision.fits and not _fits(draft, ledger, decision):
        yield Finding("fits", plain(ours.fits), plain(decision.fits))
        return
    ends = ours.ends
    if ours.fits != decision.fits:
        ends = would_end(ledger.plan, ledger.spent, decision.fits)
    yield from same("ends", ends, decision.ends)


def _fits(draft: Draft, ledger: DatasetLedger, decision: Decision) -> bool:
    """Return whether the claim that a refusal offers would have been granted.

    A search in floats finds that claim, so another machine may offer another last digit.
    """
    plan = ledger.plan
    limits = None
    if ledger.limits:
        analyst = decode_identity(decision.request).analyst
        at = draft.decided_at
        team = team_of(draft.members.get(ledger.dataset, analyst), at)
        limits = applicable_limits(ledger, draft.levels, analyst, team, at, draft.resets)
    kind = budgets_of(ledger, limits).search_filter
    try:
        asked = price(check_claim(parse_claim(decision.fits or "")), kind.needs)
    except RequestInvalid:
        return False
    return kind.fits(plan.capacity, ledger.spent, asked)
