"""The steps of a reservation: docs/reference/reservations.md."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from tests.faults.oracle.amounts import INFINITE, as_text, whole_up
from tests.faults.oracle.expected import Fields
from tests.faults.oracle.levels import as_json
from tests.faults.oracle.limits import Clock
from tests.faults.oracle.meter import STATE, Amounts
from tests.faults.oracle.refunds import Policy, Returned, give_back, unused, voided
from tests.faults.oracle.reservations import Charge, Reservation, less
from tests.faults.oracle.texts import at_text

if TYPE_CHECKING:
    from tests.faults.oracle.dataset import Dataset, Verdict

STEPS = frozenset({"begin", "settle", "void"})


def decide_step(dataset: Dataset, step: Fields, said: Fields, clock: Clock) -> Verdict:
    """Decide a `begin`, `settle` or `void`, and give back what comes back."""
    reservation = dataset.reservations.open.get(step["grant"])
    if reservation is None or not is_permitted(dataset, step, reservation, clock.at):
        return "refused", missing(dataset, step, reservation, clock.at), said_of(reservation, step)
    if reservation.datasets:
        return "refused", "not_first_dataset", said_of(reservation, step)
    now = dataset.reservations.time(clock.at)
    reason = refusal(dataset, step, reservation, now)
    if reason is None:
        return take_step(dataset, step, reservation, said, clock)
    if reason == "beyond_maximum" and breaks(dataset, step, reservation, clock.at):
        reservation.stage = "broken"
        return "refused", reason, said_of(reservation, step, broken=True)
    return "refused", reason, said_of(reservation, step) | said_of_pause(dataset, reason, step)


def said_of_pause(dataset: Dataset, reason: str | None, step: Fields) -> Fields:
    """Return the field about the pause that refuses a step, {} for any other refusal."""
    return {"pause": dataset.pause_of(step)} if reason == "person_paused" else {}


def take_step(
    dataset: Dataset, step: Fields, reservation: Reservation, said: Fields, clock: Clock
) -> Verdict:
    """Take a step that nothing refuses."""
    kind, more = step["type"], said_of(reservation, step)
    update = more["reservation"]
    if kind == "begin":
        reservation.stage = "begun"
        return "begun", None, _begin(dataset, reservation, update, said, clock)
    if kind == "void":
        del dataset.reservations.rows[reservation.grant]
        return "voided", None, _void(dataset, reservation, update, clock)
    if "shown" in step:
        back = unused(reservation.request["claim"], step["shown"])
        more = _return(
            dataset, reservation, update, back(dataset.policy, reservation.charged),
            lambda charge: back(_policy_of(charge), charge.counted or {}), back, clock,
        )  # fmt: skip
    dataset.reservations.settle(reservation, step.get("shown"))
    return "settled", None, more


def said_of(reservation: Reservation | None, step: Fields, *, broken: bool = False) -> Fields:
    """Return the field about a reservation of a decision on a step, of one that has a row."""
    if reservation is None:
        return {}
    update = about(reservation) | _purpose(reservation)
    if "shown" in step:
        update["shown"] = step["shown"]
    return {"reservation": update | ({"stage": "broken"} if broken else {})}


def about(reservation: Reservation) -> Fields:
    """Return the fields about a reservation that each of its decisions has after the first."""
    return {
        "analyst": reservation.request["analyst"],
        "until": at_text(reservation.deadline),
        "reserved_at": at_text(reservation.reserved_at),
    }


def granted(reservation: Reservation) -> Fields:
    """Return the fields about a reservation of the decision that grants it."""
    first = about(reservation)
    del first["reserved_at"]
    return first | _purpose(reservation)


def _purpose(reservation: Reservation) -> Fields:
    purpose = reservation.request.get("purpose")
    return {"purpose": purpose} if purpose else {}


def is_permitted(dataset: Dataset, step: Fields, reservation: Reservation | None, at: int) -> bool:
    """Return whether the sender may take a step in a dataset; with no row, some step."""
    may_ask = dataset.members.may_ask(step, dataset.access, at)
    is_owner = step["type"] == "void" and "via" not in step
    if is_owner and dataset.members.has(step["analyst"], "owner", at):
        return True
    if reservation is None:
        return may_ask
    request = reservation.request
    holds = step["analyst"] == request["analyst"]
    holds = holds and ("via" not in step or step["via"] == request.get("via"))
    return holds and (may_ask or step["type"] == "settle")


def missing(dataset: Dataset, step: Fields, reservation: Reservation | None, at: int) -> str:
    """Return the reason where a permission is missing, or a row."""
    return "not_open" if is_permitted(dataset, step, reservation, at) else "not_permitted"


def refusal(dataset: Dataset, step: Fields, reservation: Reservation, now: int) -> str | None:
    """Return why a permitted step of an open reservation is refused."""
    kind = step["type"]
    if kind == "settle":
        return _settle_refusal(step, reservation, now)
    if reservation.stage != "reserved":
        return "already_begun"
    if kind == "void":
        return "lapsed" if reservation.final_at <= now else None
    if reservation.deadline <= now:
        return "lapsed"
    if dataset.closed:
        return "closed"
    if dataset.reservations.broken:
        return "suspended"
    if dataset.facts["paused"]:
        return "paused"
    return None if dataset.pause_of(step) is None else "person_paused"


def _settle_refusal(step: Fields, reservation: Reservation, now: int) -> str | None:
    if reservation.stage == "broken":
        return "beyond_maximum"
    if reservation.deadline <= now:
        return "lapsed"
    if reservation.stage == "reserved":
        return "not_begun"
    if "shown" not in step:
        return None
    claim, shown = reservation.request["claim"], Fraction(step["shown"])
    if "first" not in claim:
        return "settles_in_full"
    least = claim["least"] if claim["type"] == "ex_post" else claim["variance"]
    if shown < Fraction(least):
        return "beyond_maximum"
    return "above_first" if shown > Fraction(claim["first"]) else None


def breaks(dataset: Dataset, step: Fields, reservation: Reservation, at: int) -> bool:
    """Return whether a false claim suspends the dataset: of a member, and once."""
    may_ask = dataset.members.may_ask(step, dataset.access, at)
    return reservation.stage == "begun" and may_ask


def _void(dataset: Dataset, reservation: Reservation, update: Fields, clock: Clock) -> Fields:
    def of_limit(charge: Charge) -> Amounts:
        now = charge.limit.use_of(charge.analyst).counted[1].get(STATE)
        return voided(charge.counted or {}, stays=charge.by_state and now != charge.after)

    def whole(_: Policy, charged: Amounts) -> Amounts:
        return voided(charged, stays=False)

    moved = dataset.totals.get(STATE) != reservation.after
    back = voided(reservation.charged, stays=reservation.by_state and moved)
    return _return(dataset, reservation, update, back, of_limit, whole, clock)


def _begin(
    dataset: Dataset, reservation: Reservation, update: Fields, said: Fields, clock: Clock
) -> Fields:
    """Charge a pure mechanism its own cost under gdp_residue, instead of a Gaussian's."""
    claim = as_json(reservation.request["claim"])

    def of_limit(charge: Charge) -> Amounts | None:
        limit, use = charge.limit, charge.limit.use_of(charge.analyst)
        if charge.counted is None or charge.by_state or limit.meter is None:
            return None
        entries = (each for each in said.get("levels", []) if _is_of(each, limit.head))
        text = next(entries, {}).get("totals", {}).get(STATE)
        spent, own = use.counted[1], charge.counted
        after = limit.meter.begun(limit.capacity, spent, own, claim, text)
        if after is None:
            return None
        back = dict.fromkeys(own, 0) | {STATE: spent[STATE] - after}
        charge.counted = less(own, back)
        return back

    def nothing(_: Policy, charged: Amounts) -> Amounts:
        return dict.fromkeys(charged, 0)

    meter, back = dataset.division.meter, nothing(dataset.policy, reservation.charged)
    if not reservation.by_state:
        text = said.get("totals", {}).get(STATE)
        after = meter.begun(dataset.capacity, dataset.totals, reservation.charged, claim, text)
        if after is not None:
            back[STATE] = dataset.totals[STATE] - after
    found = _return(dataset, reservation, update, back, of_limit, nothing, clock)
    reservation.charged = less(reservation.charged, back)
    return found


def _is_of(entry: Fields, head: Fields) -> bool:
    return all(entry.get(name) == head.get(name) for name in ("scope", "name"))


def _policy_of(charge: Charge) -> Policy:
    assert charge.meter is not None
    return charge.meter.policy


def _return(
    dataset: Dataset,
    reservation: Reservation,
    update: Fields,
    back: Amounts,
    of_limit: object,
    of_dataset: Returned,
    clock: Clock,
) -> Fields:
    """Lower the dataset's totals, then those of its limits; return the decision's fields."""
    before = dataset.totals
    dataset.totals = less(before, back)
    if dataset.totals != before:
        dataset.exhausted = dataset.spent_part() >= 1
    fallen = {
        name: as_text(whole_up(before[name]) - whole_up(total))
        for name, total in dataset.totals.items()
        if INFINITE not in (total, before[name]) and whole_up(total) < whole_up(before[name])
    }
    if fallen:
        update["returned"] = fallen
    levels = give_back(
        dataset.division,
        dataset.totals,
        reservation,
        of_limit,  # type: ignore[arg-type]
        of_dataset,
        clock,
        dataset.sequence + 1,
    )
    return {"reservation": update, **levels}


def decide_resolve(dataset: Dataset, record: Fields, said: Fields, at: int) -> Verdict:
    """Decide what an owner says about a reservation that showed more than it reserved."""
    reservations = dataset.reservations
    reservation = reservations.open.get(record["grant"])
    if reservation is None:
        return "refused", "not_open", {}
    if reservation.stage != "broken":
        return "refused", "not_broken", {}
    claim, became, more = record.get("claim"), "explained", Fields()
    if claim is not None:
        if dataset.is_for_others(claim):
            return "refused", "claim_not_accepted", {}
        charged = dataset.charge_outside(claim, said)
        became = "void" if charged is None else "if_bounded"
        more = charged or {}
    reservations.worsen(became)
    reservations.note = record.get("mistaken") or record.get("reason") or reservations.note
    del reservations.rows[reservation.grant]
    return "resolved", None, {"reservation": about(reservation), **more}
