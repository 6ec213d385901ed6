"""`open_per_holder` of a policy: the most open reservations of one analyst, and of one engine."""

from __future__ import annotations

from typing import Any, Final

import pytest

from accountant.advice.preview import Preview, preview
from accountant.claims.text import parse_claim
from accountant.display.refusals import refusal_words
from accountant.policy import Policy, resolve
from accountant.policy.proposal import PROPOSED_PER_HOLDER, differences, propose_defaults
from accountant.records import Decision
from accountant.records.parts import by_dataset
from accountant.records.previews import PreviewRequest
from accountant.records.requests import Reserve
from accountant.records.reservation_rows import HolderCount
from accountant.replay.audit import audit
from accountant.replay.replay import state_rows
from accountant.views.datasets import view_of_ledger
from accountant.views.limit_views import DatasetLimits
from tests.accountant.partition.test_derived_claims import question
from tests.accountant.partition.test_question_sessions import COUNT, GAUSSIAN, STOP, with_curator
from tests.accountant.partition.test_several_datasets import shop, spent
from tests.accountant.reservations.scene import HOUR, Scene
from tests.accountant.world import World, code

BASIC: Final = {"filter": "basic", "epsilon": "1", "delta": "1e-6"}
RESERVE: Final = {"reserve": {"until": "PT1H"}}
CLAIM: Final = {"type": "pure", "epsilon": "0.01"}


def scene(most: int | None = 2, **policy: Any) -> Scene:
    limit = {} if most is None else {"open_per_holder": most}
    found = Scene(CLAIM, **BASIC, **limit, **policy)
    assert code(found.member("eng", "engine")) == "member_set"
    return found


def check_log(world: World) -> None:
    """Check that replay and audit agree with the live state."""
    assert state_rows(world.replayed()) == world.rows()
    report = audit(world.log, genesis=world.genesis)
    assert report.ok, report.first_disagreement


def holder(decision: Decision) -> HolderCount | None:
    assert code(decision) == "too_many_of_holder", decision
    return decision.holder


def test_one_holder_leaves_room_for_the_others_and_is_not_charged() -> None:
    here = scene()
    assert [code(here.reserve()) for _ in range(2)] == ["reserved"] * 2
    before = here.total()
    assert holder(here.reserve()) == HolderCount("ana", 2, 2)
    assert here.total() == before
    assert code(here.ask("pure:0.01")) == "granted"  # it is no reservation
    assert code(here.reserve(analyst="ben")) == "reserved"
    assert code(here.step("void", analyst="ben")) == "voided"
    check_log(here)


@pytest.mark.parametrize("ending", ["void", "settle", "final"])
def test_what_ends_makes_room(ending: str) -> None:
    here = scene(1)
    here.reserve()
    if ending == "settle":
        here.begin()
        assert holder(here.reserve()) == HolderCount("ana", 1, 1)
    here.tick(HOUR if ending == "final" else 0)
    if ending == "final":
        assert holder(here.reserve()) == HolderCount("ana", 1, 1)  # lapsed, and not dropped yet
        here.tick(HOUR)
    else:
        here.do(ending)
    assert code(here.reserve()) == "reserved"
    check_log(here)


def test_a_settled_session_is_open_no_more() -> None:
    here = Scene(CLAIM, filter="zcdp", rho="1", delta="0", open_per_holder=1)
    here.run_session("100")
    assert len(here.state.reservations.of("census")) == 1  # a claim may continue it
    assert code(here.reserve({"type": "zcdp", "rho": "0.01"})) == "reserved"
    check_log(here)


def test_an_engine_is_a_holder_too_for_all_of_its_analysts() -> None:
    here = scene(2)
    assert code(here.reserve(via="eng")) == "reserved"
    assert code(here.reserve(analyst="ben", via="eng")) == "reserved"
    assert holder(here.reserve(analyst="zoe", via="eng")) == HolderCount("eng", 2, 2)
    assert code(here.reserve()) == "reserved"
    # The analyst comes first.
    assert holder(here.reserve(via="eng")) == HolderCount("ana", 2, 2)
    # A name that is both counts once in a reservation.
    assert code(here.member("ben", "engine")) == "member_set"
    assert code(here.reserve(analyst="ben", via="ben")) == "reserved"
    assert holder(here.reserve(analyst="ben")) == HolderCount("ben", 2, 2)
    check_log(here)


def test_what_is_not_committed_yet_counts() -> None:
    here = scene(2)
    here.commit()
    here.batch = 1_000
    assert [code(here.reserve()) for _ in range(3)] == ["reserved"] * 2 + ["too_many_of_holder"]
    assert code(here.void()) == "voided"
    mark = here.draft.mark()
    assert code(here.reserve()) == "reserved"
    here.draft.rewind(mark)
    del here.log[-1], here.encoded[-1], here.decisions[-1]
    assert here.draft.reservations.open_of_holder("census", "ana") == 1
    assert code(here.reserve()) == "reserved"
    assert holder(here.reserve()) == HolderCount("ana", 2, 2)
    check_log(here)
    assert here.state.reservations.open_of_holder("census", "ana") == 2
    assert here.replayed().reservations.open_of_holder("census", "ana") == 2


def test_an_owner_amends_it_and_ends_nothing_by_that() -> None:
    here = scene(None)
    assert [code(here.reserve()) for _ in range(3)] == ["reserved"] * 3
    assert code(here.amend(open_per_holder=1)) == "amended"
    assert here.row("census")["held"]["count"] == 3
    assert here.row("census")["policy"]["open_per_holder"] == 1
    assert holder(here.reserve()) == HolderCount("ana", 3, 1)
    assert code(here.amend(horizon="P365D")) == "amended"  # leaves it as it is
    assert holder(here.reserve()) == HolderCount("ana", 3, 1)
    assert code(here.amend(open_per_holder=0)) == "amended"
    assert "open_per_holder" not in here.row("census")["policy"]
    assert code(here.reserve()) == "reserved"
    check_log(here)


def test_a_lowered_budget_leaves_it_unless_it_names_another() -> None:
    for named, most in ((None, 2), (5, 5)):
        here = scene(2)
        lower = BASIC | {"epsilon": "0.5"} | ({} if named is None else {"open_per_holder": named})
        assert code(here.amend(policy=lower)) == "amended"
        assert here.ledger().plan.policy.open_per_holder == most
        check_log(here)


@pytest.mark.parametrize("wrong", [0, -1, 10_001, 1.5, True, "2", None])
def test_a_number_out_of_its_bounds_is_refused(wrong: object) -> None:
    world = World()
    decision = world.open(**BASIC, open_per_holder=wrong)
    assert decision.error is not None
    assert (code(decision), decision.error.field) == ("invalid_field", "policy.open_per_holder")
    if wrong not in {0, None}:
        here = scene()
        amended = here.amend(open_per_holder=wrong)
        assert amended.error is not None
        assert (code(amended), amended.error.field) == ("invalid_field", "open_per_holder")


def test_it_counts_at_each_of_several_datasets() -> None:
    world = shop(returns={"open_per_holder": 1}, visits={"open_per_holder": 9})
    both = {"dataset": "sales", "other_datasets": ["returns"]}
    assert code(world.ask("pure:0.1", **both, **RESERVE)) == "reserved"
    before = spent(world)
    refused = world.ask("pure:0.1", **both, **RESERVE)
    assert (code(refused), refused.refused_by) == ("too_many_of_holder", "returns")
    seen = {each.dataset: each.holder for each in by_dataset(refused)}
    assert seen == {"sales": None, "returns": HolderCount("ana", 1, 1)}
    assert spent(world) == before
    others = {"dataset": "sales", "other_datasets": ["visits"]}
    assert code(world.ask("pure:0.1", **others, **RESERVE)) == "reserved"
    assert code(world.ask("pure:0.1", **both)) == "granted"
    check_log(world)


def test_a_session_of_a_question_counts_before_its_schema_is_read() -> None:
    world = with_curator(open_per_holder=1)
    fields = {**RESERVE, "stop": STOP}
    first = world.send("requests", question(world, COUNT, GAUSSIAN, **fields))
    assert code(first) == "reserved"
    for asked in (COUNT, {"ask": "sum", "column": "none"}):
        refused = world.send("requests", question(world, asked, GAUSSIAN, **fields))
        assert holder(refused) == HolderCount("ana", 1, 1)
        assert (refused.error, refused.derived) == (None, None)
    check_log(world)


def previewed(here: Scene, analyst: str = "ana", via: str | None = None) -> Preview:
    ledger = here.ledger()
    divided = DatasetLimits(
        ledger,
        here.state.levels,
        here.now,
        here.state.resets,
        here.state.reservations.open_of("census"),
    )
    asked = PreviewRequest(
        claim=parse_claim("pure:0.01"),
        unit="person",
        neighbours="add_remove",
        analyst=analyst,
        reserve=Reserve("PT1H"),
        **({} if via is None else {"via": via}),
    )
    return preview(view_of_ledger(ledger), asked, divided, here.state.members.get)


def test_a_preview_equals_the_decision_and_counts_the_room_of_each_holder() -> None:
    here = scene(3)
    for more in (2, 1, 0):
        seen = previewed(here)
        assert (seen.granted, seen.more, seen.holder or None) == (True, more, None)
        assert code(here.reserve(via="eng")) == "reserved"
    for analyst, via in (("ana", None), ("ben", "eng")):
        seen = previewed(here, analyst, via)
        decision = here.reserve(analyst=analyst, **({} if via is None else {"via": via}))
        assert (seen.reason, seen.holder) == (decision.reason, holder(decision))
    assert previewed(here, "ben").more == 2
    here.tick(2 * HOUR)  # the next decision drops them first
    assert previewed(here).more == 2


def test_the_refusal_says_who_how_many_and_what_to_do() -> None:
    here = scene(2)
    here.reserve()
    here.reserve()
    seen = refusal_words(here.reserve())
    for said in (
        "Open reservations of dataset census that ana holds: 2. One holder may have 2",
        "`accountant reservation void census --holder ana`",
        "for more (`accountant dataset amend census --open-per-holder 4`)",
    ):
        assert said in seen, seen
    assert refusal_words(previewed(here)) == seen


def test_clients_propose_a_tenth_and_a_repeat_by_default_differs_from_none() -> None:
    assert propose_defaults({"epsilon": "1"})["open_per_holder"] == PROPOSED_PER_HOLDER == 1_000
    assert propose_defaults({"open_per_holder": 7})["open_per_holder"] == 7
    plain, proposed = Policy(**BASIC), Policy(**BASIC, open_per_holder=PROPOSED_PER_HOLDER)
    amended, named = Policy(**BASIC, open_per_holder=5), Policy(**BASIC, open_per_holder=7)
    for has in (plain, amended, proposed):
        assert differences(resolve(has), proposed) == {}
        assert set(differences(resolve(has), named)) == {"open_per_holder"}
