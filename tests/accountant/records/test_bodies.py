"""Bytes that may be no request at all: one typed answer, one readable record, nothing charged."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accountant.records import Decision, decode_decision
from accountant.records.outcomes import Outcome
from accountant.replay.replay import state_rows
from tests.accountant.records.test_inputs import PURE, body
from tests.accountant.world import World, code, opened
from tests.every_case import check_rows
from tests.nightly import examples


def nested(depth: int) -> bytes:
    return b'{"type":"repeat","times":1,"claim":' * depth + PURE + b"}" * depth


TWICE: list[tuple[str, Callable[[bytes], bytes]]] = [
    ("a field", lambda b: b[:-1] + b', "analyst": "bob"}'),
    ("an escaped name", lambda b: b[:-1] + b', "an\\u0061lyst": "bob"}'),
    ("the claim's field", lambda b: b.replace(b'"0.01"', b'"0.01", "epsilon": "5"')),
    ("the claim's type", lambda b: b.replace(b'"0.01"', b'"0.01", "type": "zcdp"')),
    (
        "a field where the type is missing",
        lambda b: b.replace(b'"type": "request", ', b"")[:-1] + b', "analyst": "bob"}',
    ),
    ("the purpose", lambda b: b[:-1] + b', "purpose": "x", "purpose": "y"}'),
    ("a field beside a colon", lambda b: b[:-1] + b', "purpose": "a:b", "unit": "person"}'),
]


@pytest.mark.parametrize(("what", "edit"), TWICE)
def test_a_request_with_a_duplicate_key_is_undecodable(
    what: str, edit: Callable[[bytes], bytes]
) -> None:
    world = opened()
    before = world.request()
    after = edit(before)
    assert after != before, what
    assert code(world.send("requests", after)) == "undecodable"
    # Also beside a field that breaks its rule: of two such fields nobody knows which was meant.
    broken = after.replace(b'"census"', b'"cen sus"')
    assert code(world.send("requests", broken)) == "undecodable"


@pytest.mark.parametrize("kind", ["open", "amend", "close", "pause", "resume"])
def test_an_admin_request_with_a_duplicate_key_is_undecodable(kind: str) -> None:
    world = opened()
    fields: dict[str, object] = {
        "open": {"dataset": "survey", "policy": {"filter": "basic", "epsilon": "1"}},
        "amend": {"horizon": "P9D"},
        "close": {"reason": "done"},
        "pause": {"reason": "a loop", "as": "administrator"},
        "resume": {"reason": "mended", "follows": 3},
    }[kind]
    body = world.admin(kind, **fields)
    twice = [body[:-1] + b', "by": "another"}']
    if kind == "open":
        twice.append(body.replace(b'"epsilon": "1"', b'"epsilon": "1", "epsilon": "9"'))
    for each in twice:
        assert each != body
        assert code(world.send("admin", each)) == "undecodable"
    assert world.send("admin", body).outcome is not Outcome.INVALID


def test_bytes_that_are_no_request_get_one_answer() -> None:
    def check_case(source: str, raw: bytes | None, expected: str) -> None:
        world = opened()
        before = world.ledger()
        decision = world.send("admin" if source == "admin" else "requests", raw)
        assert (decision.outcome, code(decision)) == (Outcome.INVALID, expected)
        assert decision.dataset is None
        assert world.ledger() is before
        assert_readable(world, decision)

    check_rows(
        check_case,
        [
            (source, raw, expected)
            for source in ["requests", "admin"]
            for raw, expected in [
                (None, "undecodable"),
                (b"", "undecodable"),
                (b" \n ", "undecodable"),
                (b"null", "invalid_field"),
                (b"[]", "invalid_field"),
                (b"7", "invalid_field"),
                (b"{}", "invalid_field"),
                (b"{", "undecodable"),
                (b"{}{}", "undecodable"),
                (b"\xff\xfe", "undecodable"),
                (b"\xef\xbb\xbf{}", "undecodable"),
                ('{"version": 1}'.encode("utf-16"), "undecodable"),
                (b"[" * 60_000, "undecodable"),
                (b'{"a":' * 10_000 + b"1" + b"}" * 10_000, "undecodable"),
                (b'"' + b"x" * 65_534 + b'"', "invalid_field"),
                (b'"' + b"x" * 65_535 + b'"', "oversize"),
                (b"\x1f\x8b" + b"\0" * 100_000, "oversize"),
            ]
        ],
    )


@pytest.mark.parametrize(
    ("depth", "expected"),
    [(3, "granted"), (4, "invalid_field"), (20, "undecodable"), (1500, "undecodable")],
)
def test_deep_nesting_is_refused(depth: int, expected: str) -> None:
    world = opened()
    assert code(world.send("requests", body(world, nested(depth)))) == expected


def test_a_long_name_of_an_unknown_field_is_not_repeated_in_full() -> None:
    world = opened()
    decision = world.ask(**{"k" * 60_000: 1})
    assert code(decision) == "invalid_field"
    assert len(world.log[-1]) < 70_000
    assert_readable(world, decision)


def test_a_body_that_the_log_could_not_be_read_back_with_is_not_repeated() -> None:
    world = opened()
    decision = world.send("requests", world.request().replace(b'"person"', b'["\\ud800"]'))
    assert code(decision) == "invalid_field"
    assert decision.error is not None
    assert (decision.error.field, bytes(decision.request)) == ("unit", b"")
    assert_readable(world, decision)


def test_a_body_of_several_lines_is_one_line_in_the_log() -> None:
    world = opened()
    raw = json.dumps(json.loads(world.request()), indent=2).encode()
    assert code(world.send("requests", raw)) == "granted"
    assert b"\n" not in world.log[-1]
    assert code(world.send("requests", raw)) == "repeated"


def assert_readable(world: World, decision: Decision) -> None:
    """Assert that the log reads back as what was decided, and refolds to the live state."""
    again = decode_decision(world.log[-1])
    assert bytes(again.request) == bytes(decision.request)
    assert (again.outcome, again.error) == (decision.outcome, decision.error)
    assert state_rows(world.replayed()) == world.rows()


WORLD = opened()
VALID = [WORLD.request(claim) for claim in ("pure:0.01", "3*gaussian:20,1", "pure:0.1+zcdp:0.1")]
VALID += [
    WORLD.admin("open", policy={"epsilon": "1", "delta": "1e-6"}, dataset="new"),
    WORLD.admin("amend", alert_at=["0.5"], horizon="P3D"),
]
PIECES = [b'"', b"{", b"}", b"[", b"]", b":", b",", b"\\", b"\\ud800", b"\n", b"\0", b"\xff"]
PIECES += [b"1e999", b"-0", b"null", b"true", b'"type"', b'"analyst":"x",', b"[" * 40, b"0" * 400]


@st.composite
def mutations(draw: st.DrawFn) -> bytes:
    """A valid body with pieces cut out, put in, or repeated."""
    raw = draw(st.sampled_from(VALID))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(raw)))
        to = draw(st.integers(at, min(len(raw), at + 30)))
        piece = draw(st.one_of(st.sampled_from(PIECES), st.binary(max_size=4)))
        again = raw[at:to] if draw(st.booleans()) else b""
        raw = raw[:at] + piece + again + raw[to:]
    return raw


@st.composite
def documents(draw: st.DrawFn) -> bytes:
    """A valid body with one value replaced by any JSON."""
    value = json.loads(draw(st.sampled_from(VALID)))
    scalars = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text())
    anything = st.recursive(
        scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=6
    )
    value[draw(st.sampled_from([*value, "purpose", "other"]))] = draw(anything)
    return json.dumps(value, ensure_ascii=draw(st.booleans())).encode("utf-8", "surrogatepass")


@pytest.mark.slow
@settings(max_examples=examples(600), deadline=None)
@given(
    st.one_of(st.binary(max_size=200), mutations(), documents()),
    st.sampled_from(["requests", "admin"]),
)
def test_no_bytes_raise_or_charge_unless_granted(raw: bytes, source: str) -> None:
    world = opened()
    before = world.ledger()
    decision = world.send("admin" if source == "admin" else "requests", raw)
    assert_readable(world, decision)
    after = world.ledger()
    if decision.outcome is Outcome.GRANTED:
        assert after.mechanisms > before.mechanisms
    else:
        assert (after.totals, after.mechanisms) == (before.totals, before.mechanisms)
        assert decision.cost is None


def test_a_lone_surrogate_in_an_unknown_field_is_reported_like_any_other() -> None:
    world = opened()
    body = world.request()[:-1] + b',"extra":"\\ud800"}'
    decision = world.send("requests", body)
    assert decision.outcome is Outcome.INVALID
    assert decision.error is not None
    assert decision.error.field == "extra"
