"""A preview tells what the next decision says, and how many more like it would be granted."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accountant.advice.preview import more_like, preview
from accountant.claims.text import parse_claim
from accountant.errors import RequestInvalid
from accountant.ledger.snapshots import snapshot
from accountant.policy import Policy
from accountant.records import Decision
from accountant.records.inputs import MAX_BYTES, Undecodable
from accountant.records.previews import PreviewRequest, check_preview
from accountant.views.datasets import view_of_ledger
from accountant.views.ledgers import ledger_of
from tests.accountant.filters.policies import POLICIES
from tests.accountant.strategies import claims
from tests.accountant.world import World
from tests.every_case import check_each
from tests.nightly import examples

SAME = ("sequence", "granted", "reason", "cost", "asked", "left", "fits")


def world_of(policy: Policy, **more: object) -> World:
    world = World()
    assert world.open(**(msgspec.to_builtins(policy) | more)).outcome == "opened"
    return world


def preview_request(
    text: str, unit: str = "person", neighbours: str = "add_remove"
) -> PreviewRequest:
    return PreviewRequest(parse_claim(text), unit, neighbours)  # type: ignore[arg-type]


def shared_fields(decision: Decision) -> tuple[object, ...]:
    """Return what a decision says of what a preview tells; a preview names the decision before."""
    assert decision.sequence is not None
    said = msgspec.structs.asdict(decision) | {
        "granted": decision.granted,
        "sequence": decision.sequence - 1,
    }
    return tuple([said[name] for name in SAME])


@pytest.mark.parametrize("cap", [None, "0.3"])
@pytest.mark.parametrize("name", POLICIES)
@settings(max_examples=examples(8), deadline=None)
@given(data=st.data())
def test_a_preview_equals_the_next_decision(
    name: str, cap: str | None, data: st.DataObject
) -> None:
    world = world_of(POLICIES[name], **({} if cap is None else {"most_per_request": cap}))
    for claim in data.draw(st.lists(claims(), min_size=1, max_size=6)):
        neighbours = data.draw(st.sampled_from(["add_remove", "replace"]))
        view = view_of_ledger(world.ledger())
        before = len(world.log)
        shown = preview(view, PreviewRequest(claim, "person", neighbours))
        assert len(world.log) == before
        decision = world.ask(msgspec.to_builtins(claim), neighbours=neighbours)
        assert tuple([getattr(shown, field) for field in SAME]) == shared_fields(decision)


def test_a_preview_counts_how_many_more_requests_are_granted() -> None:
    def check_case(name: str, claim: str) -> None:
        world = world_of(POLICIES[name])
        shown = preview(view_of_ledger(world.ledger()), preview_request(claim))
        if not shown.granted:
            assert shown.more == 0
            return
        assert shown.more is not None
        decision = world.ask(claim)
        assert decision.granted
        view = view_of_ledger(world.ledger())
        assert more_like(parse_claim(claim), view) == shown.more
        for left in range(shown.more, 0, -1):
            # gdp_residue counts batches from below: it may have promised fewer.
            now = preview(view_of_ledger(world.ledger()), preview_request(claim))
            assert now.granted
            assert now.more is not None
            assert now.more >= left - 1
            decision = world.ask(claim)
            assert decision.granted
        if name != "gdp_residue":
            assert not world.ask(claim).granted
            assert preview(view_of_ledger(world.ledger()), preview_request(claim)).more == 0

    check_each(check_case, POLICIES, ["pure:0.1", "gaussian:sigma=10,sensitivity=1", "3*pure:0.05"])


def test_more_is_counted_at_the_decision_that_is_shown() -> None:
    world = world_of(Policy(filter="basic", epsilon="1"))
    first = world.ask("pure:0.1")
    world.ask("pure:0.5")
    now = view_of_ledger(world.ledger())
    claim = parse_claim("pure:0.1")
    assert (more_like(claim, now), more_like(claim, now, decision=first)) == (4, 9)


def test_a_claim_that_costs_nothing_fits_any_number_of_times() -> None:
    world = world_of(Policy(filter="basic", epsilon="1"))
    shown = preview(view_of_ledger(world.ledger()), preview_request("pure:0"))
    assert (shown.granted, shown.more) == (True, None)


@pytest.mark.parametrize("end", ["close", "halt"])
def test_nothing_would_be_granted_after_the_end(end: str) -> None:
    world = world_of(Policy(filter="basic", epsilon="1", halt_on_refusal=True))
    if end == "close":
        world.close()
    else:
        world.ask("pure:2")
    shown = preview(view_of_ledger(world.ledger()), preview_request("pure:0.1"))
    assert (shown.granted, shown.reason, shown.more) == (
        False,
        "closed" if end == "close" else "halted",
        0,
    )


def test_a_refused_preview_does_not_halt_the_dataset() -> None:
    world = world_of(Policy(filter="basic", epsilon="1", halt_on_refusal=True))
    view = view_of_ledger(world.ledger())
    assert preview(view, preview_request("pure:2")).reason == "exhausted"
    assert preview(view, preview_request("pure:0.1")).granted


def test_the_ledger_of_a_view_is_the_ledger() -> None:
    def check_case(name: str) -> None:
        world = world_of(POLICIES[name])
        for claim in ("pure:0.3", "gaussian:sigma=3,sensitivity=1", "pure:9", "pure:0.2"):
            world.ask(claim)
            found = ledger_of(view_of_ledger(world.ledger()))
            # A view does not count members.
            live = msgspec.structs.replace(world.ledger(), owners=0, members=0)
            assert snapshot(found) == snapshot(live)
            assert found.readings == world.ledger().readings

    check_each(check_case, POLICIES)


BODY = {"claim": {"type": "pure", "epsilon": "0.1"}, "unit": "person", "neighbours": "replace"}


def test_a_body_is_read_as_a_request_s_is() -> None:
    assert check_preview(json.dumps(BODY).encode()) == preview_request(
        "pure:0.1", neighbours="replace"
    )


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"claim": {"type": "pure", "epsilon": "-1"}}, "claim.epsilon"),
        ({"claim": {"type": "pure", "epsilon": 0.1}}, "claim.epsilon"),
        ({"neighbours": "both"}, "neighbours"),
        ({"analyst": "no name"}, "analyst"),
        ({"purpose": "census"}, "purpose"),
        ({"unit": "per\u2028son"}, "unit"),
        ({"claim": {"type": "pure", "epsilon": "0.1\u0007"}}, "claim.epsilon"),
    ],
)
def test_a_body_that_breaks_a_rule_names_the_field(change: dict[str, object], field: str) -> None:
    with pytest.raises(RequestInvalid) as wrong:
        check_preview(json.dumps(BODY | change).encode())
    assert wrong.value.field == field


@pytest.mark.parametrize("field", BODY)
def test_a_preview_body_without_a_field_is_refused(field: str) -> None:
    with pytest.raises(RequestInvalid, match="must be given"):
        check_preview(json.dumps({k: v for k, v in BODY.items() if k != field}).encode())


@pytest.mark.parametrize(
    "body",
    [b"", b"[", b"\xff", b'{"unit":"a","unit":"b"}', b'"' + b"x" * MAX_BYTES + b'"'],
)
def test_a_preview_body_that_is_not_an_object_is_refused(body: bytes) -> None:
    with pytest.raises((Undecodable, RequestInvalid)):
        check_preview(body)


def test_a_key_twice_is_refused() -> None:
    twice = json.dumps(BODY).replace('"unit"', '"unit": "x", "unit"')
    with pytest.raises(Undecodable, match="twice"):
        check_preview(twice.encode())
