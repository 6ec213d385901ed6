"""What a record of a release made elsewhere does, and has done, in words."""

from __future__ import annotations

from typing import Final, NamedTuple

from accountant.amounts import format_units
from accountant.claims import Claim, check_claim
from accountant.claims.price import price
from accountant.claims.text import claim_text
from accountant.display.limits import scope_words
from accountant.display.numbers import counting_amounts, counting_cost, spent_line, sufficient_line
from accountant.display.times import moment
from accountant.errors import RequestInvalid
from accountant.foreign_text import escape_text
from accountant.ledger.adjudicate import charge_outside, reason_without_price
from accountant.records import Decision
from accountant.records.inputs import Undecodable, check
from accountant.records.requests import RecordRelease, Remark
from accountant.views.datasets import DatasetView
from accountant.views.ledgers import ledger_of

_IF_BOUNDED: Final = "if the size of this release was bounded before anything was released"


NOT_CHARGED: Final = "not charged, since it did not fit the budget"


def recording_notes(
    view: DatasetView, claim: Claim, released_at: str, *, cuts: bool = False
) -> list[str]:
    """Return what a record of a release would do, in sentences.

    Args:
        view: with the joint guarantee of its population, if it has one.
        released_at: as the record has it.
        cuts: somebody has a reserved share.
    """
    name, ledger, asked = view.dataset, ledger_of(view), check_claim(claim)
    plan, left = ledger.plan, counting_amounts(view.left, view.totals, view.budget)
    due = price(asked, plan.priced)
    if reason := reason_without_price(plan, asked, due):
        return [f"This will be refused ({reason})."]
    found = charge_outside(ledger, asked, ledger.changed_at)
    costs = dict(zip(plan.kind.sums, map(format_units, due.amounts), strict=False))
    cost = counting_cost(costs if found is None else found[1], left, view.totals, view.budget)
    notes = [
        f"It costs {spent_line(cost) or 'more than any budget'}; {sufficient_line(left)} left."
    ]
    joint = view.joint_guarantee
    promises = f", nor do the datasets of population {joint.population} together" if joint else ""
    if found is None:
        return [
            *notes,
            f"It does not fit: dataset {name} guarantees nothing then, for ever{promises}.",
        ]
    if plan.brake is not None and not plan.brake.admits(found[0].spent):
        notes.append("It is more than what is in force: nothing is granted until that is raised.")
    too = f", and the joint one of population {joint.population}" if joint and joint.holds else ""
    notes.append(f"The guarantee of dataset {name}{too} then holds {_IF_BOUNDED}.")
    if released_at < view.opened_at:
        notes.append("It was made before the opening, so only if this budget was fixed before it.")
    if cuts:
        notes.append("Reserved shares that it leaves no room for are cut, the newest first.")
    return notes


def lasting_charge_words(claim: str, dataset: str, team: str | None) -> str:
    """Return that nothing takes the charge of a release back, and whose limits have it, too."""
    whose = f" and the limits of team {team}" if team else ""
    return f"no later record takes a charge of {claim} to dataset {dataset}{whose} back"


class ReleaseElsewhere(NamedTuple):
    """A release made elsewhere that an owner has recorded.

    Attributes:
        number, at: of the decision. `by`: the owner.
        released_at: when it was released. `team`: by which team, "" for none.
        cost: what was charged, "" for one that did not fit the budget.
        document: the hash of a document, "" for none.
    """

    number: int
    at: str
    by: str
    claim: str
    released_at: str
    team: str
    cost: str
    evidence: str
    document: str


def release_of(decision: Decision) -> ReleaseElsewhere | None:
    """Return the release that a decision records, None for any other decision."""
    said = _statement(decision)
    if not isinstance(said, RecordRelease):
        return None
    has_cost = decision.cost is not None
    return ReleaseElsewhere(
        number=decision.sequence or 0,
        at=decision.decided_at,
        by=said.by,
        claim=claim_text(said.claim),
        released_at=said.released_at,
        team=said.team or "",
        cost=spent_line(counting_cost(decision.cost, decision.left)) if has_cost else "",
        evidence=said.evidence,
        document=said.evidence_hash or "",
    )


def statement_words(decision: Decision) -> str:
    """Return what an owner has said of the past: a release made elsewhere, or a remark; else ""."""
    said = _statement(decision)
    if said is None:
        return ""
    start = f"{decision.dataset}, decision {decision.sequence}, {moment(decision.decided_at)}"
    if isinstance(said, Remark):
        return f"{start}: {said.by} says of decision {said.decision}: {_quoted(said.remark)}"
    found = release_of(decision)
    assert found is not None
    team = f" by team {found.team}" if found.team else ""
    charged = f"charged {found.cost}" if found.cost else NOT_CHARGED
    document = f", document {found.document}" if found.document else ""
    return (
        f"{start}: {found.by} records {found.claim}, released at {moment(found.released_at)}"
        f"{team}, {charged}. Evidence: {_quoted(found.evidence)}{document}"
    )


def document_of(decision: Decision) -> str | None:
    """Return the hash of the document that a record of a release names, None for none."""
    said = _statement(decision)
    return said.evidence_hash if isinstance(said, RecordRelease) else None


def _statement(decision: Decision) -> Remark | RecordRelease | None:
    if not decision.outcome.is_applied or decision.dataset is None:
        return None
    try:
        said = check("admin", bytes(decision.request)).body
    except (RequestInvalid, Undecodable):  # of another source
        return None
    return said if isinstance(said, Remark | RecordRelease) else None


def recorded_notes(decision: Decision) -> list[str]:
    """Return what people must know of a decision on such a record, besides its outcome."""
    if not decision.outcome.charges_team:
        return []
    name = decision.dataset
    notes = list[str]()
    if decision.cost is None:
        notes.append("the release does not fit the budget, and is not added to it")
    if decision.guarantee == "void":
        notes.append(f"dataset {name} guarantees nothing any more, for ever")
    else:
        notes.append(f"the guarantee of dataset {name} holds {_IF_BOUNDED}")
    notes += [
        f"the reserved share of {scope_words(each.scope, each.name)} is cut by "
        f"{', '.join(f'{sum_} {amount}' for sum_, amount in each.cut.items() if amount != '0')}"
        for each in decision.shares_cut
    ]
    if decision.more_shares_cut:
        notes.append(f"{decision.more_shares_cut:,} more reserved shares are cut")
    return notes


def _quoted(text: str) -> str:
    return f'"{escape_text(text)}"'
