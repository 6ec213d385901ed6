"""One reservation over several datasets: every step acts on all of them, or on none."""

from __future__ import annotations

import itertools
import json
from typing import Any, Final

import pytest

from accountant.partition.decide import decide
from accountant.partition.operate import reset_clock
from accountant.records.inputs import Input
from accountant.records.parts import by_dataset
from accountant.times import from_iso
from tests.accountant.reservations.scene import BEYOND, HOUR, LOWER, NOBODYS, Scene
from tests.accountant.reservations.shop import NAMES, OTHERS, Shop
from tests.accountant.reservations.test_table import RECORDS, STATES, TABLE, is_of
from tests.accountant.world import SKEW, code
from tests.every_case import check_each

SESSION: Final[dict[str, object]] = {
    "type": "brownian",
    "variance": "400",
    "sensitivity": "1",
    "first": "10000",
}
RHO: Final[dict[str, object]] = {"filter": "zcdp", "rho": "1"}
SETTLED: Final = {"settled in full", "settled lower"}


def reset(shop: Shop, at: int) -> None:
    """Set the clock of the log back. Earlier ids are forgotten, so the next ones are later."""
    shop.commit()
    shop.took(reset_clock(shop.draft, at, "the clock was wrong"))
    shop.now = at + SKEW + 1


def test_every_record_in_every_state() -> None:
    def check_case(state: str, record: str) -> None:
        shop = Shop()
        shop.do(*STATES[state])
        charged, cells = TABLE[state]
        cell = cells[record]
        expected, after = (cell, charged) if isinstance(cell, str) else cell
        kind, fields = RECORDS[record]
        said = shop.step(kind, **fields)
        assert is_of(said, expected), (said.outcome, said.reason)
        assert shop.total() == after
        assert [part.dataset for part in said.parts] in ([], list(NAMES))
        others = [code(each) for each in by_dataset(said)[1:]]
        assert set(others) <= ({expected} if said.outcome != "refused" else {"other_dataset"})
        assert len({row["stage"] for row in shop.reservations()}) <= 1
        shop.check()

    check_each(check_case, STATES, RECORDS)


def test_one_decision_reserves_in_every_dataset() -> None:
    shop = Shop()
    said = shop.reserve()
    assert (said.outcome, said.dataset, said.sequence) == ("reserved", None, None)
    assert [part.cost for part in said.parts] == [{"epsilon": "0.1", "delta": "0"}] * 3
    assert [part.held and part.held.count for part in said.parts] == [1, 1, 1]
    rows = shop.reservations()
    assert [row["dataset"] for row in rows] == list(NAMES)
    assert {tuple(row["datasets"]) for row in rows} == {NAMES}
    assert {row["deadline"] for row in rows} == {shop.now + HOUR}
    shop.check()


@pytest.mark.parametrize("refusing", NAMES)
def test_a_dataset_without_room_reserves_in_none(refusing: str) -> None:
    shop = Shop()
    shop.ask("pure:0.95", dataset=refusing)
    before = shop.totals()
    said = shop.reserve()
    assert (code(said), said.refused_by) == ("exhausted", refusing)
    assert shop.totals() == before
    assert shop.reservations() == []
    shop.check()


@pytest.mark.parametrize("refusing", range(3))
def test_a_dataset_that_refuses_begin_refuses_for_all(refusing: int) -> None:
    shop = Shop()
    shop.reserve()
    shop.owners("pause", dataset=NAMES[refusing])
    said = shop.begin()
    assert (code(said), said.refused_by) == ("paused", NAMES[refusing])
    assert {row["stage"] for row in shop.reservations()} == {"reserved"}
    shop.owners("resume", dataset=NAMES[refusing])
    assert code(shop.begin()) == "begun"
    shop.owners("close", dataset=NAMES[refusing])
    assert code(shop.settle(**LOWER)) == "settled"
    assert shop.total() == "0.025"
    shop.check()


def members_only(**members: tuple[str, ...]) -> Shop:
    """Return datasets for members: each name is a member of some."""
    policy: dict[str, object] = {
        "filter": "basic",
        "epsilon": "1",
        "delta": "1e-6",
        "access": "members",
    }
    shop = Shop(**dict.fromkeys(NAMES, policy))
    for member, names in members.items():
        for name in names:
            assert code(shop.member(member, "analyst", dataset=name)) == "member_set"
    return shop


@pytest.mark.parametrize("lost", NAMES)
def test_who_left_one_dataset_may_still_settle_and_nothing_else(lost: str) -> None:
    shop = members_only(ana=NAMES)
    shop.reserve()
    shop.member("ana", dataset=lost)
    for kind in ("begin", "void"):
        said = shop.step(kind)
        assert (code(said), said.refused_by) == ("not_permitted", lost)
    shop.member("ana", "analyst", dataset=lost)
    shop.begin()
    shop.member("ana", dataset=lost)
    assert code(shop.settle(**BEYOND)) == "beyond_maximum"
    assert {row["stage"] for row in shop.reservations()} == {"begun"}
    assert code(shop.settle(**LOWER)) == "settled"
    assert shop.total() == "0.025"
    shop.check()


def test_an_owner_voids_where_they_own_all_datasets() -> None:
    shop = Shop()
    shop.reserve()
    shop.member("pia", "owner", dataset="census")
    said = shop.void(analyst="pia")
    assert (code(said), said.refused_by) == ("not_permitted", "returns")
    for name in OTHERS:
        shop.member("pia", "owner", dataset=name)
    assert code(shop.void(analyst="pia")) == "voided"
    assert shop.total() == "0"
    shop.check()


def test_a_settlement_beyond_the_maximum_suspends_every_dataset() -> None:
    shop = Shop()
    shop.do("reserve", "begin")
    said = shop.settle(**BEYOND)
    assert (code(said), said.refused_by) == ("beyond_maximum", "census")
    for part in by_dataset(said):
        assert part.reservation is not None
        assert (part.reservation.stage, part.guarantee) == ("broken", "void")
    assert [shop.ledger(name).suspended for name in NAMES] == [True] * 3
    assert all(shop.ledger(name).is_void for name in NAMES)
    shop.check()
    # Each owner resolves their own dataset.
    for i, name in enumerate(NAMES):
        resolved = shop.owners("resolve", dataset=name, grant=shop.grant, mistaken="a typo")
        assert code(resolved) == "resolved"
        assert [shop.ledger(each).suspended for each in NAMES] == [j > i for j in range(3)]
    shop.check()


@pytest.mark.parametrize("kind", ["begin", "settle", "void"])
def test_a_step_names_the_first_dataset(kind: str) -> None:
    shop = Shop()
    shop.reserve()
    said = shop.step(kind, dataset="visits")
    assert (code(said), said.dataset, said.parts) == ("not_first_dataset", "visits", ())
    assert code(shop.step(kind, dataset="visits", analyst="eve")) == "not_permitted"
    assert {row["stage"] for row in shop.reservations()} == {"reserved"}
    shop.check()


def test_a_repeated_step_moves_nothing() -> None:
    shop = Shop()
    shop.reserve()
    body = {"version": 1, "type": "begin", "analyst": "ana", "dataset": "census"}
    raw = json.dumps(body | {"request_id": shop.new_id(), "grant": shop.grant}).encode()
    assert code(shop.send("requests", raw)) == "begun"
    again = shop.send("requests", raw)
    assert (again.outcome, again.parts, again.first and again.first.outcome) == (
        "repeated",
        (),
        "begun",
    )
    shop.check()


def clock_ahead(shop: Shop, name: str, by: int) -> int:
    """Decide on a dataset at a later time than the log goes on with; return that time."""
    before = shop.now
    shop.alone(name, reserve={"until": "P2D"})
    shop.now += by
    shop.ask("pure:0.001", dataset=name)
    reset(shop, before)
    return before + by


@pytest.mark.parametrize("ahead", NAMES)
def test_the_deadline_counts_from_the_latest_clock(ahead: str) -> None:
    shop = Shop()
    latest = clock_ahead(shop, ahead, HOUR)
    said = shop.reserve()
    assert {row["reserved_at"] for row in shop.reservations()} == {latest}
    untils = {part.reservation and part.reservation.until for part in said.parts}
    assert {from_iso(str(each)) for each in untils} == {latest + HOUR}
    shop.check()


@pytest.mark.parametrize("ahead", NAMES)
def test_a_dataset_whose_clock_is_ahead_counts_for_all(ahead: str) -> None:
    shop = Shop()
    shop.reserve()
    clock_ahead(shop, ahead, HOUR)
    said = shop.begin()
    assert (code(said), said.refused_by) == ("lapsed", "census")
    assert code(shop.void()) == "voided"
    assert {row["dataset"] for row in shop.reservations()} == set()
    shop.check()


def test_a_row_that_one_dataset_dropped_is_not_open_in_any() -> None:
    def check_case(ahead: str, kind: str) -> None:
        shop = Shop()
        shop.reserve()
        if kind == "settle":
            shop.begin()
        clock_ahead(shop, ahead, 3 * HOUR)
        assert len(shop.reservations()) == 2
        before = shop.totals()
        said = shop.step(kind, **(BEYOND if kind == "settle" else {}))
        assert code(said) == "not_open"
        assert said.refused_by == (None if ahead == "census" else ahead)
        assert shop.totals() == before
        assert [shop.ledger(name).suspended for name in NAMES] == [False] * 3
        shop.check()
        # The other rows go when their own clocks come to it.
        shop.now += 3 * HOUR
        for name in NAMES:
            shop.ask("pure:0.001", dataset=name)
        assert shop.reservations() == []
        shop.check()

    check_each(check_case, NAMES, ["begin", "settle", "void"])


@pytest.mark.parametrize("order", list(itertools.permutations(NAMES))[::2])
def test_each_dataset_drops_a_final_row_by_itself(order: tuple[str, ...]) -> None:
    shop = Shop()
    shop.reserve()
    shop.to_final()
    for i, name in enumerate(order):
        shop.ask("pure:0.001", dataset=name)
        assert len(shop.reservations()) == 2 - i
        shop.check()
    assert shop.total() == "0.101"


def test_a_session_returns_to_every_dataset_and_limit_by_its_own_filter() -> None:
    residue: dict[str, object] = {"filter": "gdp_residue", "epsilon": "1", "delta": "1e-6"}
    shop = Shop(SESSION, census=RHO, returns=residue)
    assert shop.reserve().refused_by == "visits"  # basic composition takes no Gaussian
    shop = Shop(SESSION, census=RHO, returns=residue, visits={"filter": "zcdp", "rho": "2"})
    shop.limit("analyst", "ana", dataset="census", part="0.5")
    shop.limit("analyst", "ana", dataset="visits", part="0.5")
    shop.reserve()
    reserved = [dict(part.totals) for part in by_dataset(shop.decisions[-1]) if part.totals]
    shop.begin()
    said = shop.settle(shown="800")
    assert [len(each.levels) for each in by_dataset(said)] == [1, 0, 1]
    for part, before in zip(by_dataset(said), reserved, strict=True):
        name = next(iter(set(before) - {"mechanisms", "delta"}))
        assert float((part.totals or {})[name]) == pytest.approx(float(before[name]) / 2)
        assert part.reservation is not None
        assert part.reservation.returned
    shop.check()


def test_a_pure_claim_is_priced_again_at_begin_in_each_dataset() -> None:
    residue: dict[str, object] = {"filter": "gdp_residue", "epsilon": "1", "delta": "1e-6"}
    shop = Shop({"type": "pure", "epsilon": "0.1"}, census=residue, visits=residue)
    shop.ask("gaussian:sigma=5,sensitivity=1", dataset="visits")
    shop.reserve()
    said = shop.begin()
    returned = [part.reservation and part.reservation.returned for part in said.parts]
    assert [bool(each) for each in returned] == [True, False, True]
    assert returned[0] != returned[2]  # each at its own state
    shop.check()


def finer(grant: str) -> dict[str, object]:
    """Return a claim that goes on from a settled session to a fourth of its variance."""
    claim = {"type": "brownian", "variance": "100", "sensitivity": "1", "previous": "400"}
    return {**claim, "continues": grant}


def continues(shop: Shop, grant: str, **fields: object) -> Any:
    return shop.reserve(finer(grant), **fields)


def test_a_session_is_continued_over_the_same_datasets() -> None:
    shop = Shop(SESSION, **dict.fromkeys(NAMES, RHO))
    shop.reserve()
    grant = shop.grant
    assert code(continues(shop, grant)) == "not_settled"
    shop.do("begin", "settle")
    assert {row["stage"] for row in shop.reservations()} == {"settled"}
    assert code(continues(shop, grant, other_datasets=OTHERS[:1])) == "not_settled"
    assert code(shop.ask(finer(grant))) == "not_settled"
    assert code(continues(shop, grant, dataset="visits", other_datasets=NAMES[:2])) == "reserved"
    assert shop.total("rho") == "0.005"
    shop.check()


def test_a_session_of_one_dataset_is_not_continued_over_more() -> None:
    shop = Shop(SESSION, **dict.fromkeys(NAMES, RHO))
    Scene.reserve(shop)
    shop.do("begin", "settle")
    assert code(continues(shop, shop.grant)) == "not_settled"


def test_a_grant_that_is_none_is_not_open_in_the_dataset_that_the_step_names() -> None:
    shop = Shop()
    shop.grant = NOBODYS
    said = shop.begin()
    assert (code(said), said.parts) == ("not_open", ())


def test_a_step_that_is_undone_leaves_every_dataset_as_it_was() -> None:
    shop = Shop()
    shop.reserve()
    shop.commit()
    body = {"version": 1, "type": "void", "analyst": "ana", "dataset": "census"}
    raw = json.dumps(body | {"request_id": shop.new_id(), "grant": shop.grant}).encode()
    before = shop.draft.rows()
    mark = shop.draft.mark()
    record = Input("requests", shop.draft.next["requests"], b"key", raw, shop.now)
    assert code(decide(shop.draft, record, shop.now).decision) == "voided"
    shop.draft.rewind(mark)
    assert shop.draft.rows() == before
    assert code(shop.void()) == "voided"
    shop.check()
