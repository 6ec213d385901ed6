"""Plain grants that are audited in runs give the report of an audit one by one."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accountant.amounts import format_units, parse_units
from accountant.records import Decision, decode_decision, encode
from accountant.records.outcomes import Outcome
from accountant.replay.audit import Auditor, AuditReport
from accountant.replay.grant_run import MAX_RUN, GrantRun
from accountant.replay.state_comparison import first_difference
from accountant.views.tallies import DecisionTally
from tests.accountant.histories import worlds
from tests.accountant.replay.test_audit import LOG, rechained
from tests.accountant.world import World
from tests.every_case import check_each
from tests.nightly import examples


def of_grants(count: int) -> World:
    """Return a world of plain grants on two datasets, with one refusal in their midst."""
    world = World(batch=500)
    world.open(epsilon="1", delta="1e-6", alert_at=["0.001", "0.002"])
    world.open("survey", filter="basic", epsilon="1", delta="0")
    for i in range(count):
        world.now += 7
        world.ask("pure:0.001", dataset=("census", "survey")[i % 2])
        if i == count // 2:
            world.ask("pure:3")
    world.commit()
    return world


WORLD = of_grants(20)


def report(
    log: list[bytes], most_ids: int | None, *, in_runs: bool
) -> tuple[AuditReport, DecisionTally]:
    auditor = Auditor(in_runs=in_runs, most_ids=most_ids)
    for value in log:
        if not auditor.take(value):
            break
    return auditor.report(), auditor.counted


def check_same(log: list[bytes], most_ids: int | None = None) -> AuditReport:
    found = report(log, most_ids, in_runs=True)
    assert found == report(log, most_ids, in_runs=False)
    return found[0]


@given(worlds())
@settings(max_examples=examples(30))
def test_a_written_log_gives_the_same_report_usage_and_rows(
    played: tuple[World, list[bytes]],
) -> None:
    world, _ = played
    assert check_same(world.log, world.most_ids).ok
    auditor = Auditor(most_ids=world.most_ids)
    for value in world.log:
        assert auditor.take(value)
    assert auditor.partition is not None
    assert first_difference(auditor.partition, dict(world.rows())) is None


def test_more_grants_than_a_run_takes_give_the_same_report() -> None:
    world = of_grants(2 * MAX_RUN + 10)
    assert check_same(world.log).granted == 2 * MAX_RUN + 10


def other_text(text: str) -> str:
    return text[:-1] + ("1" if text[-1] != "1" else "2")


def forged(decision: Decision, field: str) -> Decision:
    value = getattr(decision, field)
    if isinstance(value, dict):
        name = list(value)[-1] if value else "basic"
        value = {**value, name: other_text(str(value.get(name, "0")))}
    elif field == "crossed":
        value = (*value, "0.9")
    elif field == "request":
        value = msgspec.Raw(bytes(value).replace(b"0.001", b"0.002"))
    elif field == "source":
        value = msgspec.structs.replace(value, offset=value.offset - 1)
    elif isinstance(value, int):
        value += 1
    elif field in {"decided_at", "floor"}:
        value = value[:-2] + other_text(value[-2]) + "Z"
    else:
        value = "survey" if value == "census" else "census"
    return msgspec.structs.replace(decision, **{field: value})


FIELDS = (
    *(
        "decided_at",
        "floor",
        "rules",
        "dataset",
        "generation",
        "sequence",
        "cost",
        "totals",
        "left",
    ),
    *("odometers", "crossed", "request", "source", "fits"),
)


def test_a_forged_grant_gives_the_same_report() -> None:
    def check_case(at: int, field: str) -> None:
        log = list(WORLD.log)
        log[at] = encode(forged(decode_decision(log[at]), field))
        assert not check_same(log).ok
        assert not check_same(rechained(log, at)).ok

    check_each(check_case, [5, 12, 22], FIELDS)


def test_a_grant_too_large_for_a_float_gives_the_same_report() -> None:
    decision = decode_decision(WORLD.log[5])
    assert decision.cost is not None
    assert decision.totals is not None
    before, cost = parse_units(str(decision.totals["loss_time"])), 10**400
    before -= parse_units(decision.cost["loss_time"])
    grant = msgspec.structs.replace(
        decision,
        cost={**decision.cost, "loss_time": format_units(cost)},
        totals={**decision.totals, "loss_time": format_units(before + cost)},
    )
    log = rechained([*WORLD.log[:5], encode(grant), *WORLD.log[6:]], 5)
    wrong = check_same(log).first_disagreement
    assert wrong is not None
    assert (wrong.partition_sequence, wrong.what) == (5, "record")


@given(st.integers(1, len(LOG) - 1), st.integers(0, 2000), st.binary(min_size=1, max_size=1))
def test_a_changed_byte_gives_the_same_report(at: int, place: int, byte: bytes) -> None:
    value = LOG[at]
    place %= len(value)
    log = [*LOG[:at], value[:place] + byte + value[place + 1 :], *LOG[at + 1 :]]
    check_same(log)


def run_before(at: int, *, decides: bool = True) -> GrantRun:
    auditor = Auditor(in_runs=False)
    for value in WORLD.log[:at]:
        assert auditor.take(value)
    assert auditor.partition is not None
    return GrantRun(auditor.partition, gapless=False, decides=decides)


@pytest.mark.parametrize("field", ["cost", "totals", "left", "odometers"])
def test_the_sums_doubt_a_wrong_amount_before_anything_is_decided(field: str) -> None:
    run = run_before(5)
    assert not run.take(encode(forged(decode_decision(WORLD.log[5]), field)))
    assert run.take(WORLD.log[5])
    assert run.end(DecisionTally())


@pytest.mark.parametrize("field", ["crossed", "decided_at", "floor"])
def test_deciding_again_finds_what_no_sum_shows(field: str) -> None:
    decision = decode_decision(WORLD.log[5])
    assert decision.outcome is Outcome.GRANTED
    run = run_before(5)
    assert run.take(encode(forged(decision, field)))
    assert not run.end(DecisionTally())


@pytest.mark.parametrize("decides", [True, False])
def test_the_records_of_a_run_must_be_a_chain(decides: bool) -> None:
    decision = decode_decision(WORLD.log[6])
    run = run_before(5, decides=decides)
    assert run.take(WORLD.log[5])
    assert run.take(encode(forged(decision, "previous")))
    assert not run.end(DecisionTally())
    run = run_before(5, decides=decides)
    assert run.take(WORLD.log[5])
    assert run.take(WORLD.log[6])
    assert run.end(DecisionTally())
