"""Claims that continue a session: refused where it has not settled at `previous` or below.

The session is reserved down to variance 1 and shows variances from 100 on. Its continuation goes
on to 1/2, so that both together cost a rho of 1 whatever the session has shown.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Final

import pytest

from accountant.partition.operate import reset_clock
from accountant.replay.audit import audit
from accountant.replay.replay import state_rows
from tests.accountant.reservations.scene import HOUR, NOBODYS, NOISE_REDUCTION, Scene
from tests.accountant.world import code
from tests.every_case import check_rows

Body = dict[str, Any]
POLICY: Final[Body] = {"filter": "zcdp", "rho": "4", "delta": "1e-6"}
SESSION: Final[Body] = {"type": "brownian", "variance": "1", "sensitivity": "1", "first": "100"}
FULL: Final = "0.5"
AT_4: Final = "0.125"


def settled(shown: str | None = "4") -> Scene:
    """Return a session that settled at a variance, None for its maximum."""
    scene = Scene(SESSION, **POLICY)
    scene.do("reserve", "begin")
    assert code(scene.settle(**({} if shown is None else {"shown": shown}))) == "settled"
    scene.session = scene.grant
    return scene


def continuation(scene: Scene, previous: str = "4", **fields: object) -> Body:
    body: Body = {"type": "brownian", "variance": "0.5", "sensitivity": "1", "previous": previous}
    return {**body, "continues": scene.session, **fields}


def ways(scene: Scene, claim: Body, **fields: object) -> set[str]:
    """Return what the claim is decided to be by a request and by a reservation."""
    return {code(scene.ask(claim, **fields)), code(scene.reserve(claim, **fields))}


def test_a_claim_continues_a_session_from_where_it_settled_or_before() -> None:
    def check_case(shown: str | None, previous: str, is_taken: bool) -> None:
        scene = settled(shown)
        found = ways(scene, continuation(scene, previous))
        assert found == ({"granted", "reserved"} if is_taken else {"not_settled"})

    check_rows(
        check_case,
        [
            ("4", "4", True),
            ("4", "4.0", True),
            ("4", "9", True),
            ("4", "3.999999", False),
            ("4", "1", False),
            ("100", "100", True),
            ("100", "4", False),
            (None, "1", True),
            (None, "0.999999", False),
        ],
    )


@pytest.mark.parametrize("shown", ["100", "4", "1"])
def test_a_session_and_its_continuation_cost_what_one_session_costs(shown: str) -> None:
    scene = settled(shown)
    assert code(scene.reserve(continuation(scene, shown))) == "reserved"
    scene.do("begin", "settle")
    assert Fraction(scene.total("rho")) == 1


def test_the_counterexample_is_refused_while_the_session_is_open_and_after_it() -> None:
    scene = Scene(SESSION, **POLICY)
    scene.do("reserve", "begin")
    scene.session = scene.grant
    assert ways(scene, continuation(scene, "1")) == {"not_settled"}
    assert code(scene.settle(grant=scene.session, shown="4")) == "settled"
    assert ways(scene, continuation(scene, "1")) == {"not_settled"}  # 0.625 for 1
    assert scene.total("rho") == AT_4


STATES: Final[dict[str, tuple[str, ...]]] = {
    "reserved": ("reserve",),
    "begun": ("reserve", "begin"),
    "voided": ("reserve", "void"),
    "lapsed before begin": ("reserve", "to_deadline"),
    "lapsed after begin": ("reserve", "begin", "to_deadline"),
    "settled, and its deadline has passed": ("reserve", "begin", "settle", "to_deadline"),
}


@pytest.mark.parametrize("state", STATES)
def test_nothing_continues_what_has_not_settled(state: str) -> None:
    scene = Scene(SESSION, **POLICY)
    scene.do(*STATES[state])
    scene.session, before = scene.grant, scene.total("rho")
    assert ways(scene, continuation(scene, "1")) == {"not_settled"}
    assert scene.total("rho") == before


def test_nothing_continues_what_was_broken_also_once_it_is_resolved() -> None:
    scene = Scene(SESSION, **POLICY)
    scene.do("reserve", "begin")
    scene.settle(shown="0.7")
    scene.session = scene.grant
    assert ways(scene, continuation(scene, "1")) == {"not_settled"}
    scene.owners("resolve", grant=scene.session, mistaken="no")
    assert ways(scene, continuation(scene, "1")) == {"not_settled"}


def test_nothing_continues_a_session_of_another_analyst_or_a_grant_without_a_session() -> None:
    scene = settled()
    assert ways(scene, continuation(scene), analyst="ben") == {"not_settled"}
    assert ways(scene, continuation(scene, continues=NOBODYS)) == {"not_settled"}
    scene.reserve(NOISE_REDUCTION)
    scene.do("begin", "settle_lower")
    assert ways(scene, continuation(scene, "100", continues=scene.grant)) == {"not_settled"}
    scene.reserve({"type": "gaussian", "sigma": "10", "sensitivity": "1"})
    scene.do("begin", "settle")
    assert ways(scene, continuation(scene, "100", continues=scene.grant)) == {"not_settled"}


@pytest.mark.parametrize(
    ("sensitivity", "is_taken"), [("1", True), ("1.0", True), ("0.5", True), ("1.01", False)]
)
def test_a_session_of_a_smaller_sensitivity_has_not_paid_for_the_variance(
    sensitivity: str, is_taken: bool
) -> None:
    scene = settled()
    found = ways(scene, continuation(scene, sensitivity=sensitivity))
    assert found == ({"granted", "reserved"} if is_taken else {"not_settled"})


def test_a_chain_cannot_raise_its_sensitivity_by_steps() -> None:
    scene = settled()
    assert code(scene.reserve(continuation(scene, variance="2", sensitivity="0.5"))) == "reserved"
    scene.do("begin", "settle")
    scene.session = scene.grant
    assert ways(scene, continuation(scene, "2", sensitivity="1")) == {"not_settled"}


def test_each_part_of_a_batch_is_checked() -> None:
    scene = settled()
    for right, claim in (
        (True, continuation(scene)),
        (False, continuation(scene, "3")),
    ):
        batch = {"type": "all_of", "claims": [{"type": "zcdp", "rho": "0.001"}, claim]}
        found = ways(scene, {"type": "repeat", "times": 1, "claim": batch})
        assert found == ({"granted", "reserved"} if right else {"not_settled"})


def test_a_reservation_with_previous_names_what_it_continues() -> None:
    scene = settled()
    claim = {name: value for name, value in continuation(scene).items() if name != "continues"}
    assert code(scene.reserve(claim)) == "invalid_field"
    assert code(scene.reserve({"type": "repeat", "times": 2, "claim": claim})) == "invalid_field"
    assert code(scene.ask(claim)) == "granted"  # as the analyst promises


@pytest.mark.parametrize("grant", ["", "sha256:0", "sha256:" + "G" * 64, 7])
def test_a_grant_that_is_no_hash_is_invalid(grant: object) -> None:
    scene = settled()
    assert code(scene.ask(continuation(scene, continues=grant))) == "invalid_field"


def test_a_claim_without_previous_continues_nothing() -> None:
    scene = settled()
    claim = {name: value for name, value in continuation(scene).items() if name != "previous"}
    assert code(scene.ask(claim)) == "invalid_field"


def test_a_continuation_is_continued_in_its_turn() -> None:
    scene = settled()
    last = continuation(scene, first="2")
    assert code(scene.reserve(last)) == "reserved"
    scene.begin()
    assert code(scene.settle(shown="1")) == "settled"
    assert Fraction(scene.total("rho")) == Fraction(FULL)
    scene.session = scene.grant
    assert ways(scene, continuation(scene, "0.9")) == {"not_settled"}
    assert code(scene.ask(continuation(scene, "1"))) == "granted"
    assert Fraction(scene.total("rho")) == 1


def test_a_settled_session_holds_nothing_and_takes_no_step() -> None:
    scene = settled()
    held = scene.row("census")["held"]
    assert (held["count"], held["settled"]) == (0, 1)
    assert {float(amount) for amount in held["totals"].values()} == {0}
    for kind in ("begin", "settle", "void"):
        said = scene.step(kind)
        assert (code(said), said.reservation) == ("not_open", None)
    said = scene.owners("resolve", grant=scene.grant, mistaken="no")
    assert code(said) == "not_open"
    assert scene.total("rho") == AT_4
    scene.to_deadline()
    scene.ask("zcdp:0.001")
    assert not scene.reservation()
    assert "held" not in scene.row("census")


def test_a_settled_session_is_in_the_rows_the_replay_and_the_audit() -> None:
    scene = settled()
    assert scene.reservation()["stage"] == "settled"
    assert scene.reservation()["claim"]["variance"] == "4"
    for _ in range(2):
        assert scene.rows() == state_rows(scene.replayed())
        assert audit(scene.log, genesis=scene.genesis).ok
        scene.ask(continuation(scene))
        scene.tick(HOUR)
        scene.ask(continuation(scene))


def test_what_had_lapsed_stays_lapsed_when_the_clock_is_set_back() -> None:
    scene = settled()
    scene.tick(HOUR)
    scene.ask("zcdp:0.001")
    scene.commit()
    scene.tick(-HOUR // 2)
    scene.took(reset_clock(scene.draft, scene.now, "it was ahead"))
    scene.tick(400_000)
    assert ways(scene, continuation(scene)) == {"not_settled"}


def test_a_member_alone_learns_whether_a_session_has_settled() -> None:
    scene = Scene(SESSION, **POLICY, access="members")
    scene.member("ana", "analyst")
    scene.do("reserve", "begin", "settle")
    scene.session = scene.grant
    scene.member("ana")
    for previous in ("1", "0.9"):
        assert ways(scene, continuation(scene, previous)) == {"not_permitted"}


@pytest.mark.slow
def test_a_thousand_settled_sessions_can_be_continued_and_no_more() -> None:
    scene = Scene({**SESSION, "variance": "10000", "first": "10000"}, **POLICY)
    scene.batch = 1_000
    grants = []
    for _ in range(1_001):
        scene.do("reserve", "begin", "settle")
        grants.append(scene.grant)
    claim = continuation(scene, "10000", variance="9999")
    for grant, expected in zip(grants[-2:], ["granted", "not_settled"], strict=True):
        assert code(scene.ask({**claim, "continues": grant})) == expected
    assert scene.row("census")["held"]["settled"] == 1_000
