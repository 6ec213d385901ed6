"""Counts of open reservations by state agree with a walk over all of them."""

from __future__ import annotations

import random
from collections.abc import Iterable

from accountant.claims import Pure
from accountant.records.reservation_rows import Stage
from accountant.reservations.deadlines import ReservationCounts
from accountant.reservations.reservation import Reservation
from accountant.reservations.table import ReservationTable
from tests.accountant.reservations.scene import HOUR, Scene

MINUTE = 60_000
LENGTHS = (MINUTE, 7 * MINUTE, 30 * MINUTE, 48 * HOUR)
STAGES: tuple[Stage, ...] = ("reserved", "begun", "broken")


def row(number: int, stage: Stage, begins: int, length: int, dataset: str) -> Reservation:
    return Reservation(
        dataset,
        f"sha256:{number}",
        number,
        number,
        "ana",
        "",
        "",
        Pure(epsilon="0.1"),
        stage,
        begins,
        begins + length,
        ("epsilon",),
        (1,),
    )


def walked(rows: Iterable[Reservation], at: int) -> ReservationCounts | None:
    """Return what the index must say, by the words of docs/reference/metrics/datasets.md."""
    every = list(rows)
    if not every:
        return None
    reserved = [each for each in every if each.stage == "reserved"]
    begun = [each for each in every if each.stage == "begun"]

    def ahead(some: list[Reservation]) -> list[int]:
        return [each.deadline for each in some if at < each.deadline]

    def expiring(some: list[Reservation]) -> int:
        return sum(
            at < each.deadline and 10 * (each.deadline - at) <= each.deadline - each.reserved_at
            for each in some
        )

    length = [(each.deadline, each.deadline - each.reserved_at) for each in reserved]
    return ReservationCounts(
        reserved=len(ahead(reserved)),
        begun=len(ahead(begun)),
        lapsed=sum(deadline <= at < deadline + long for deadline, long in length),
        broken=sum(each.stage == "broken" for each in every),
        final=sum(deadline + long <= at for deadline, long in length)
        + sum(each.deadline <= at for each in begun),
        reserved_expiring=expiring(reserved),
        begun_expiring=expiring(begun),
        begin_until=min(ahead(reserved), default=None),
        settle_until=min(ahead(begun), default=None),
    )


def test_counts_agree_with_a_walk_after_every_change() -> None:
    chance, table = random.Random(35), ReservationTable()
    rows: dict[tuple[str, str], Reservation] = {}
    for number in range(4000):
        at = number * MINUTE
        dataset = chance.choice(("census", "census", "survey"))
        if rows and chance.random() < 0.5:
            key = chance.choice(list(rows))
            before = rows.pop(key)
            if chance.random() < 0.5:
                table.remove(*key)
            else:  # a step: the same reservation in another stage
                length = before.deadline - before.reserved_at
                stage = chance.choice(STAGES)
                rows[key] = row(before.sequence, stage, before.reserved_at, length, key[0])
                table.put(rows[key])
        else:
            stage = chance.choice(STAGES)
            new = row(number, stage, at - chance.randrange(HOUR), chance.choice(LENGTHS), dataset)
            rows[new.key] = new
            table.put(new)
        for name in ("census", "survey", "adult"):
            later = at + chance.choice((0, 1, MINUTE, HOUR, 100 * HOUR))
            mine = [each for each in rows.values() if each.dataset == name]
            assert table.counts(name, later) == walked(mine, later), (number, name)
    for key in list(rows):
        table.remove(*key)
        table.remove(*key)
    assert table.counts("census", 0) is None


def test_the_states_of_one_reservation_are_those_of_the_rules() -> None:
    scene = Scene()

    def states() -> dict[str, int]:
        scene.commit()
        counts = scene.state.reservations.counts("census", scene.now)
        return {} if counts is None else {k: v for k, v in counts._asdict().items() if v == 1}

    scene.do("reserve")
    assert states() == {"reserved": 1}
    scene.do("begin")
    assert states() == {"begun": 1}
    scene.do("settle_beyond", "to_final")
    assert states() == {"broken": 1}
    assert scene.owners("resolve", grant=scene.grant, mistaken="a wrong scale").outcome
    assert states() == {}
    scene.do("reserve", "to_deadline")
    assert states() == {"lapsed": 1}
    scene.tick(HOUR - 1)
    assert states() == {"lapsed": 1}
    scene.tick(1)
    assert states() == {"final": 1}
    scene.do("reserve")
    assert states() == {"reserved": 1}  # each decision drops what is final
