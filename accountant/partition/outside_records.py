"""Decide an owner's record of a release made elsewhere, and take what it changes into the draft."""

from __future__ import annotations

import msgspec

from accountant.claims import CheckedClaim, check_claim
from accountant.claims.price import Price, price
from accountant.dataset_ledger import DatasetLedger, guarantee_after_resolving
from accountant.ledger.adjudicate import Verdict, advance, charge_outside, reason_without_price
from accountant.limits.applicable_limits import ApplicableLimits, limit_at
from accountant.limits.charge import ChargedLimit, charge
from accountant.limits.cut_shares import cut_shares
from accountant.partition.draft import Draft
from accountant.records.dataset_facts import facts_of_record, with_facts
from accountant.records.outcomes import Outcome, Reason
from accountant.records.requests import RecordRelease


def decide_record(
    draft: Draft, ledger: DatasetLedger, record: RecordRelease
) -> tuple[DatasetLedger, Verdict, dict[str, object]]:
    """Return the ledger after a record, the verdict, and the decision's extra fields.

    Nothing refuses a release that has happened but what the ledger cannot price. What does not fit
    the budget is not added to it: sums never stand above their budget, and the guarantee is void.
    """
    at, plan = draft.decided_at, ledger.plan
    claim = check_claim(record.claim)
    asked = price(claim, plan.priced)
    reason = _refusal(ledger, record, claim, asked)
    if reason is not None:
        return advance(ledger, at), Verdict(Outcome.REFUSED, reason), {}
    found = charge_outside(ledger, claim, at)
    after, cost, crossed = (advance(ledger, at), None, ()) if found is None else found
    guarantee = guarantee_after_resolving(
        ledger.guarantee, mistaken=False, charged=found is not None
    )
    facts = with_facts(ledger.facts, facts_of_record(charged=found is not None))
    after = msgspec.structs.replace(after, guarantee=guarantee, facts=facts)
    charged = _charge_team(draft, ledger, record, claim, asked)
    for each in charged:
        draft.levels.put(each.after)
    extra: dict[str, object] = {"cost": cost, "levels": tuple([each.update for each in charged])}
    if ledger.limits:
        cut = cut_shares(draft.levels, after)
        for state in cut.states:
            draft.levels.put(state)
        extra |= cut.fields
    ended = plan.ended
    ends = ended is not None and after.totals[ended] != ledger.totals[ended]
    verdict = Verdict(Outcome.RECORDED, crossed=crossed, ends=plan.policy.filter if ends else None)
    return after, verdict, extra


def _refusal(
    ledger: DatasetLedger, record: RecordRelease, claim: CheckedClaim, asked: Price
) -> Reason | None:
    if ledger.has_changed_since(record.follows):
        return Reason.OUT_OF_DATE
    return reason_without_price(ledger.plan, claim, asked)


def _charge_team(
    draft: Draft, ledger: DatasetLedger, record: RecordRelease, claim: CheckedClaim, asked: Price
) -> tuple[ChargedLimit, ...]:
    """Return the limit of a record's team after the release, which may be above its amount."""
    if record.team is None:
        return ()
    state = draft.levels.get((ledger.dataset, "team", "", record.team))
    if state is None or state.rule is None or not state.rule.is_in_force:
        return ()
    limit = limit_at(state, state.rule, ledger.plan, draft.decided_at, draft.resets)
    limits = ApplicableLimits((limit,), resets=draft.resets.number)
    used = [budget.charge_above(used, claim, asked) for budget, used in limits.budgets]
    return charge(limits, ledger, asked, used)
