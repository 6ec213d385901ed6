"""An audit passes every log that was really written, and names the first record of others.

Each forgery is tried twice: as it is, and hashed into a new chain from there on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings

from accountant.partition import hash_of
from accountant.records import NO_REQUEST, RULES, Decision, decode_decision, encode
from accountant.records.outcomes import Outcome, Reason
from accountant.replay.audit import Auditor, audit
from tests.accountant.histories import worlds
from tests.accountant.world import World, code
from tests.every_case import check_each, check_rows
from tests.nightly import examples

ODOMETERS = [
    {"type": "one_sided_mixture", "delta": "1e-6", "r": "0.01"},
    {"type": "basic"},
    {"type": "stitched", "delta": "1e-6", "v0": "1"},
]


def recorded() -> World:
    """Return a world whose log holds every outcome; `AT` says where."""
    world = World()
    world.open(epsilon="1", delta="1e-6", odometers=ODOMETERS, alert_at=["0.4", "1"])  # 1
    body = world.request("pure:0.1")
    world.send("requests", body)  # 2
    world.ask("100*pure:0.01")  # 3
    world.ask("pure:3")  # 4
    world.ask("pure:0.1", unit="household")  # 5
    world.send("requests", body)  # 6
    world.send("requests", body[:-1] + b', "purpose": "x"}')  # 7
    world.send("requests", b"not json")  # 8
    world.ask({"type": "pure", "epsilon": "-1"})  # 9
    world.ask(dataset="nowhere")  # 10
    world.amend(horizon="P9D")  # 11
    world.now += 1000
    world.ask("gaussian:sigma=30,sensitivity=1", analyst="bob")  # 12
    world.ask(request_id=world.new_id(world.now - 10_000_000))  # 13
    world.open("survey", filter="basic", epsilon="1", delta="0")  # 14
    world.ask("pure:1", dataset="survey")  # 15
    world.ask("pure:1", dataset="survey")  # 16
    world.close("survey")  # 17
    world.ask("pure:0.1", dataset="survey")  # 18
    world.ask("pure:0.05")  # 19
    return world


CODES = (
    "genesis opened granted granted exhausted unit_mismatch repeated conflict undecodable "
    "invalid_field unknown_dataset amended granted expired opened granted exhausted closed "
    "closed granted"
)
WORLD = recorded()
LOG = WORLD.log
HEAD = (WORLD.state.sequence, WORLD.state.head)


def rechained(log: list[bytes], start: int) -> list[bytes]:
    """Return the log with numbers and hashes made right from `start` on."""
    fixed = log[:start]
    for i, value in enumerate(log[start:], start):
        previous = hash_of(fixed[-1]) if fixed else "sha256:" + "0" * 64
        decision = decode_decision(value)
        linked = msgspec.structs.replace(decision, previous=previous, partition_sequence=i)
        fixed.append(encode(linked))
    return fixed


def edited(at: int, edit: Callable[[Decision], Decision]) -> list[bytes]:
    log = list(LOG)
    log[at] = encode(edit(decode_decision(log[at])))
    assert log[at] != LOG[at]
    return log


def changed(at: int, **fields: Any) -> list[bytes]:
    return edited(at, lambda decision: msgspec.structs.replace(decision, **fields))


def disagreement(log: list[bytes], **kwargs: Any) -> tuple[int, str]:
    report = audit(log, **kwargs)
    assert not report.ok
    found = report.first_disagreement
    assert found is not None
    assert found.expected != found.found
    assert report.records == found.partition_sequence
    return found.partition_sequence, found.what


def test_a_real_log_passes_and_is_counted() -> None:
    seen: list[int] = []
    report = audit(iter(LOG), expected_head=HEAD, genesis=WORLD.genesis, progress=seen.append)
    assert " ".join(code(decision) for decision in WORLD.decisions) == CODES
    assert report.ok, report.first_disagreement
    assert report.records == len(LOG) == 20
    assert (report.granted, report.refused, report.datasets) == (5, 5, 2)
    assert report.decided_again == len(LOG) - 2  # genesis and what was no JSON
    assert (report.sequence, report.head) == HEAD
    assert report.outcomes["repeated"] == 1
    assert report.reasons["exhausted"] == 2
    assert msgspec.json.decode(encode(report), type=type(report)) == report


@settings(max_examples=examples(60), deadline=None)
@given(worlds())
def test_an_audit_passes_every_log_that_was_really_written(
    history: tuple[World, list[bytes]],
) -> None:
    world, _ = history
    world.commit()
    head = (world.state.sequence, world.state.head)
    report = audit(world.log, expected_head=head, most_ids=world.most_ids)
    assert report.ok, report.first_disagreement


def test_progress_is_reported_every_thousand_records() -> None:
    world = World()
    world.open(filter="basic", epsilon="1")
    for _ in range(2500):
        world.send("requests", b"")
    seen: list[int] = []
    assert audit(world.log, progress=seen.append).ok
    assert seen == [1000, 2000]


def test_an_empty_log_is_no_log() -> None:
    assert disagreement([]) == (0, "genesis")


def test_a_dropped_record_breaks_the_sequence() -> None:
    def check_case(at: int) -> None:
        assert disagreement(LOG[:at] + LOG[at + 1 :]) == (at, "partition_sequence")

    check_each(check_case, range(1, len(LOG) - 1))


def test_only_the_chain_shows_a_record_that_would_be_decided_the_same() -> None:
    request = bytes(decode_decision(LOG[12]).request)
    another = msgspec.Raw(request.replace(b'"bob"', b'"eve"'))
    assert disagreement(changed(12, request=another)) == (13, "previous")
    assert audit(rechained(changed(12, request=another), 12)).ok
    # The last has no successor to name it: only its own link, or a head known from elsewhere.
    assert disagreement(changed(19, previous=hash_of(LOG[17]))) == (19, "previous")
    assert disagreement(changed(0, previous=hash_of(LOG[0]))) == (0, "previous")


def test_a_dropped_record_is_missed_even_in_a_new_chain() -> None:
    def check_case(at: int) -> None:
        # What no later record builds on leaves no trace but the head: see the head's own test.
        sequence, what = disagreement(rechained(LOG[:at] + LOG[at + 1 :], at))
        assert sequence >= at
        assert what not in {"partition_sequence", "previous"}

    check_each(check_case, [1, 2, 3, 4, 5, 11, 14, 15, 16, 17])


def test_records_cut_off_in_front_are_missed() -> None:
    assert disagreement(LOG[1:]) == (0, "partition_sequence")
    assert disagreement(rechained(LOG[1:], 0)) == (0, "genesis")


def test_swapped_records_are_noticed() -> None:
    log = list(LOG)
    log[3], log[4] = log[4], log[3]
    assert disagreement(log) == (3, "partition_sequence")
    assert disagreement(rechained(log, 3))[0] == 3


@pytest.mark.parametrize("at", [2, 4, 6, 8, 10, 19])
def test_an_audit_finds_a_duplicated_record(at: int) -> None:
    log = [*LOG[: at + 1], *LOG[at:]]
    assert disagreement(log) == (at + 1, "partition_sequence")
    assert disagreement(rechained(log, at + 1)) == (at + 1, "source.offset")


def test_a_truncated_log_is_found_only_by_its_expected_head() -> None:
    assert audit(LOG[:-1]).ok
    assert disagreement(LOG[:-1], expected_head=HEAD) == (len(LOG) - 1, "head")
    forged = rechained(changed(19, request=msgspec.Raw(bytes(_request(19)[:-1] + b" }"))), 19)
    assert audit(forged).ok  # white space: all it changes is the hash
    assert disagreement(forged, expected_head=HEAD) == (len(LOG), "head")


def test_a_log_of_another_application_is_noticed() -> None:
    other = msgspec.structs.replace(WORLD.genesis, application="other")
    assert disagreement(LOG, genesis=other) == (0, "genesis")
    assert disagreement(rechained(changed(0, genesis=None), 0)) == (0, "genesis")
    assert disagreement(rechained(changed(5, genesis=WORLD.genesis), 5)) == (5, "genesis")


def _request(at: int) -> bytes:
    return bytes(decode_decision(LOG[at]).request)


def _raw(at: int, old: bytes, new: bytes) -> msgspec.Raw:
    body = _request(at)
    assert old in body
    return msgspec.Raw(body.replace(old, new))


def _with(at: int, field: str, **items: object) -> dict[str, object]:
    value = getattr(decode_decision(LOG[at]), field)
    assert isinstance(value, dict)
    return {field: value | items}


def _left(at: int, **items: object) -> dict[str, object]:
    return _with(at, "left", **items)


FORGERIES: list[tuple[str, int, dict[str, Any], str]] = [
    ("a cheaper request", 2, {"request": _raw(2, b'"0.1"', b'"0.01"')}, "cost"),
    ("a dearer request", 12, {"request": _raw(12, b'"30"', b'"3"')}, "outcome"),
    ("another analyst", 2, {"request": _raw(2, b"ana", b"eva")}, "outcome"),
    ("a lower cost", 2, _with(2, "cost", rho="0.001"), "cost"),
    ("lower totals", 3, _with(3, "totals", rho="0.001"), "totals.rho"),
    ("lower totals of a refusal", 4, _with(4, "totals", rho="0.001"), "totals"),
    ("fewer mechanisms", 3, _with(3, "totals", mechanisms=2), "totals"),
    ("mechanisms of a refusal", 4, _with(4, "totals", mechanisms=1), "mechanisms"),
    ("more left", 3, _left(3, rho="1"), "left"),
    ("another odometer", 3, _with(3, "odometers", basic="0.5"), "odometers.basic"),
    ("an odometer less", 3, {"odometers": {"basic": "1.1"}}, "odometers"),
    ("a finite odometer", 2, _with(2, "odometers", stitched="1"), "odometers.stitched"),
    (
        "a refusal turned into a grant",
        4,
        {"outcome": Outcome.GRANTED, "reason": None},
        "mechanisms",
    ),
    (
        "a grant turned into a refusal",
        2,
        {"outcome": Outcome.REFUSED, "reason": Reason.CLOSED},
        "outcome",
    ),
    ("a refusal with a cost", 5, {"cost": {"rho": "0.1"}}, "cost"),
    ("another reason", 5, {"reason": Reason.EXHAUSTED}, "reason"),
    ("another offer", 4, {"fits": "pure:2"}, "fits"),
    ("no offer", 4, {"fits": None}, "fits"),
    ("another dataset sequence", 3, {"sequence": 4}, "sequence"),
    ("another generation", 3, {"generation": 2}, "generation"),
    ("a threshold hidden", 3, {"crossed": ()}, "crossed"),
    ("a threshold forged", 2, {"crossed": ("0.4",)}, "crossed"),
    ("a threshold of a repeat", 6, {"crossed": ("0.4",)}, "crossed"),
    ("a repeat that charges", 6, {"cost": {"rho": "0.1"}}, "cost"),
    ("a repeat of something else", 6, {"first": None}, "first"),
    ("a numbered repeat", 6, {"sequence": 6}, "sequence"),
    ("noise that charges", 8, {"cost": {"rho": "0.1"}}, "cost"),
    ("noise with totals", 8, {"totals": {"rho": "0"}, "dataset": "census"}, "totals"),
    ("noise that moves the floor", 8, {"floor": "2026-11-21T09:30:00.000Z"}, "floor"),
    ("a request left out", 3, {"request": NO_REQUEST}, "request"),
    ("another field at fault", 9, {"error": None}, "error.field"),
    ("a larger budget at opening", 1, _with(1, "budget", rho="1"), "budget"),
    ("another policy at opening", 1, {"policy": None}, "policy"),
    ("a larger budget by amendment", 11, _with(11, "budget", rho="1"), "budget"),
    ("a policy in a grant", 12, {"policy": decode_decision(LOG[1]).policy}, "policy"),
    ("an earlier time", 12, {"decided_at": "2026-11-21T09:00:00.000Z"}, "decided_at"),
    ("a later time", 12, {"decided_at": "2026-11-21T11:30:00.000Z"}, "outcome"),
    ("no time", 12, {"decided_at": "yesterday"}, "record"),
    ("a lower floor", 13, {"floor": "2026-11-21T08:00:00.000Z"}, "floor"),
    ("a higher floor", 13, {"floor": "2026-11-21T09:30:00.000Z"}, "floor"),
    ("no source", 3, {"source": None}, "source"),
    ("a budget broken", 15, _with(15, "totals", epsilon="1.5"), "totals.epsilon"),
    ("totals that are no numbers", 15, _with(15, "totals", epsilon="x"), "record"),
    ("a total that is a part of a unit less", 12, _with(12, "rounded_up", rho="5/9"), "rounded_up"),
    ("a total that is exact", 12, {"rounded_up": {"loss_time": "8/9"}}, "rounded_up"),
    ("a part that a unit has not", 12, _with(12, "rounded_up", rho="4/101"), "record"),
    ("a part of an infinite sum", 12, _with(12, "rounded_up", loss_epsilon="1/3"), "record"),
    ("a refusal that spends less than before", 4, {"rounded_up": {"rho": "1/3"}}, "rounded_up"),
    ("a repeat with a part of a unit", 6, {"rounded_up": {"rho": "1/3"}}, "rounded_up"),
    ("a grant after closing", 18, {"outcome": Outcome.GRANTED, "reason": None}, "outcome"),
]


def test_a_forged_record_is_named() -> None:
    def check_case(what: str, at: int, fields: dict[str, Any], field: str) -> None:
        forged = changed(at, **fields)
        assert disagreement(forged) == (at, field), what
        assert disagreement(rechained(forged, at)) == (at, field), what

    check_rows(check_case, FORGERIES)


def test_a_forged_policy_in_request_and_record_changes_the_budget() -> None:
    opening = decode_decision(LOG[1])
    assert opening.policy is not None
    forged = changed(
        1,
        request=_raw(1, b'"epsilon": "1"', b'"epsilon": "9"'),
        policy=msgspec.structs.replace(opening.policy, epsilon="9"),
    )
    assert disagreement(rechained(forged, 1)) == (1, "left")


def test_a_consistent_overspend_stops_at_the_budget() -> None:
    # A forger who refuses nothing: survey's second request, granted with sums that add up.
    grant = decode_decision(LOG[15])
    second = decode_decision(LOG[16])
    assert grant.totals is not None
    forged = changed(
        16,
        outcome=Outcome.GRANTED,
        reason=None,
        fits=None,
        asked=None,
        cost=grant.cost,
        totals=grant.totals | {"mechanisms": 2, "epsilon": "2"},
        left={"epsilon": "0", "delta": "0"},
        crossed=(),
        odometers=second.odometers,
    )
    assert disagreement(rechained(forged, 16)) == (16, "epsilon")


@pytest.mark.parametrize("rules", [0, RULES + 1])
def test_a_record_of_other_rules_is_not_believed(rules: int) -> None:
    # Of a grant that cost nothing the sums add up, and nothing but deciding it again can tell.
    totals = decode_decision(LOG[2]).totals
    assert totals is not None
    free = changed(3, rules=rules, cost={"rho": "0", "delta": "0"}, totals=totals)
    assert disagreement(rechained(free, 3)) == (3, "rules")


def test_bytes_that_are_not_as_a_decision_is_written_are_noticed() -> None:
    padded = [*LOG[:3], LOG[3][:-1] + b',"notes":"x"}', *LOG[4:]]
    assert disagreement(padded) == (3, "record")
    assert disagreement([*LOG[:3], b"", *LOG[4:]]) == (3, "record")
    assert disagreement([*LOG[:3], LOG[3][:-9], *LOG[4:]]) == (3, "record")


def test_an_audit_accepts_an_odometer_that_differs_only_in_its_last_digit() -> None:
    decision = decode_decision(LOG[12])
    assert decision.odometers is not None
    text = decision.odometers["one_sided_mixture"]
    nearby = f"{float(text) * (1 + 5e-10):.10g}"
    off = f"{float(text) * (1 + 5e-9):.10g}"
    assert text not in {nearby, off}
    assert audit(rechained(changed(12, **_with(12, "odometers", one_sided_mixture=nearby)), 12)).ok
    forged = changed(12, **_with(12, "odometers", one_sided_mixture=off))
    assert disagreement(forged) == (12, "odometers.one_sided_mixture")


def test_a_smaller_offer_that_fits_is_no_disagreement() -> None:
    # It is searched for in floats; another machine may find another last digit.
    assert audit(rechained(changed(4, fits="pure:0.001"), 4)).ok


def test_an_auditor_stops_at_the_first_disagreement() -> None:
    auditor = Auditor()
    taken = [auditor.take(value) for value in [*LOG[:3], LOG[4], *LOG[3:]]]
    assert taken == [True] * 3 + [False] * (len(taken) - 3)
    assert auditor.records == 3
    assert not auditor.report().ok
