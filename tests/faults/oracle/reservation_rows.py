"""Rows of open reservations, and their fields in decisions: docs/reference/records/state.md."""

from __future__ import annotations

from tests.faults.oracle.amounts import rounded_up
from tests.faults.oracle.expected import Fields
from tests.faults.oracle.fits import written
from tests.faults.oracle.meter import STATE, Amounts, amount_fields, texts
from tests.faults.oracle.reservations import Charge, Reservation, Reservations


def held_fields(reservations: Reservations, totals: Amounts, at: int) -> Fields:
    """Return what decisions and the row of a dataset say about its open reservations.

    Args:
        at: the decision's time.
    """
    found: Fields = {}
    if reservations.rows:
        held: Fields = {
            "count": len(reservations.open),
            **amount_fields("totals", reservations.held([*totals])),
        }
        held |= {"broken": reservations.broken} if reservations.broken else {}
        held |= {"settled": reservations.settled} if reservations.settled else {}
        latest = reservations.latest
        found["held"] = held | ({"latest_at": latest} if latest > at else {})
    return found


def reservation_rows(dataset: str, reservations: Reservations) -> dict[bytes, Fields]:
    """Return the row of each, by its key; names need no escape."""
    return {
        f'{{"dataset":"{dataset}","grant":"{grant}"}}'.encode(): _row(dataset, each)
        for grant, each in reservations.rows.items()
    }


def _row(dataset: str, of: Reservation) -> Fields:
    request = of.request
    named = {"via": request.get("via"), "purpose": request.get("purpose")}
    levels = [_charge_row(each) for each in of.charges]
    return {
        "type": "reservation",
        "version": 2,
        "dataset": dataset,
        "grant": of.grant,
        "sequence": of.sequence,
        "partition_sequence": of.number,
        "analyst": request["analyst"],
        **{name: value for name, value in named.items() if value},
        "claim": written(request["claim"] | ({"variance": of.settled} if of.settled else {})),
        "stage": of.stage,
        "reserved_at": of.reserved_at,
        "deadline": of.deadline,
        **amount_fields("totals", of.charged),
        **_after(of.after),
        **({"levels": levels} if levels else {}),
        **({"datasets": [*of.datasets]} if of.datasets else {}),
    }


def _charge_row(charge: Charge) -> Fields:
    limit = charge.limit
    place: Fields = {"scope": limit.scope, "name": limit.name}
    if limit.scope == "each":
        place = {"scope": "each", "team": limit.name, "name": charge.analyst}
    row: Fields = {
        **place,
        **_amounts("counted", charge.counted),
        "counted_since": charge.since,
        **_amounts("paced", charge.paced),
        "begins_at": charge.begin,
        "resets": charge.resets,
        **_amounts("used", charge.used),
        "shared_since": charge.shared,
        **_after(charge.after),
    }
    return {name: value for name, value in row.items() if value not in ("", 0)}


def _amounts(name: str, amounts: Amounts | None) -> Fields:
    if amounts is None:
        return {}
    over = rounded_up(amounts)
    return {name: texts(amounts), **({f"{name}_rounded_up": over} if over else {})}


def _after(state: object) -> Fields:
    return {} if state is None else _amounts("after", {STATE: state})
