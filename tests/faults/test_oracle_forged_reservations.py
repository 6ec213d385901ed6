"""The judge and the audit both detect each forgery of reservations in a log and in its rows."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

import pytest

from accountant.replay.audit import audit
from accountant.replay.state_comparison import StateRows
from tests.every_case import every_case
from tests.faults import oracle
from tests.faults.fed_ledger import FedLedger
from tests.faults.forged_rows import with_right_checksum
from tests.faults.forgery import (
    PARTITION,
    Decision,
    Forger,
    History,
    Plant,
    SoundLog,
    changed,
    dropped,
    without,
)
from tests.faults.oracle import Disagreement

pytestmark = pytest.mark.faults

HOUR = 3_600_000
BASIC = {"filter": "basic", "epsilon": "1", "odometers": [{"type": "basic"}]}
SESSION = {
    "type": "ex_post", "epsilon": "0.1", "sensitivity": "1", "first": "100", "least": "10",
}  # fmt: skip
"""At most 0.1; shown at scale 40 it costs 0.025."""
GAUSSIAN = {"type": "gaussian", "sigma": "30", "sensitivity": "1"}


class Reserving(History):
    """A history of reservations, each under a name, as are its steps."""

    def reserve(self, name: str, dataset: str, claim: Decision, **more: Any) -> None:
        self.claim(name, dataset, claim, **{"reserve": {"until": "PT1H"}, **more})

    def step(self, name: str, kind: str, of: str, dataset: str = "ds", **more: Any) -> None:
        head = {"version": 1, "type": kind, "request_id": self._id(name), "analyst": "ana"}
        body = {**head, "dataset": dataset, "grant": self.grants[of], **more}
        self.send(name, "requests", body)

    def send(self, name: str, source: str, body: Decision | bytes, later: int = 1000) -> None:
        super().send(name, source, body, later)
        self.grants[name] = f"sha256:{hashlib.sha256(self.ledger.answers[-1]).hexdigest()}"

    def __init__(self, ledger: FedLedger) -> None:
        super().__init__(ledger)
        self.grants: dict[str, str] = {}


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> SoundLog:
    """Return a history in which reservations end in every way, at a limit and under gdp_residue."""
    with FedLedger(tmp_path_factory.mktemp("reserved") / "ledger.db") as ledger:
        log = Reserving(ledger)
        log.owner("open", "open", "ds", policy={**BASIC, "alert_at": ["0.5", "1"]})
        log.owner("enrol", "member", "ds", member="ana", roles=["analyst"], team="blue")
        log.owner("limit", "limit", "ds", scope="team", name="blue", part="0.9")
        log.reserve("void it", "ds", SESSION)
        log.step("voided", "void", "void it")
        log.reserve("settle it", "ds", SESSION, purpose="a count")
        log.step("not begun", "settle", "settle it")
        log.step("begun", "begin", "settle it")
        log.step("void after begin", "void", "settle it")
        log.step("begun twice", "begin", "settle it")
        log.step("of another", "settle", "settle it", analyst="eve")
        log.step("settled", "settle", "settle it", shown="40")
        log.step("settled twice", "settle", "settle it", shown="40")
        log.reserve("settle in full", "ds", {"type": "pure", "epsilon": "0.1"})
        log.step("begun in full", "begin", "settle in full")
        log.step("settled in full", "settle", "settle in full")
        log.reserve("lapses", "ds", SESSION, reserve={"until": "PT1M"})
        log.ask("meanwhile", "ds", "0.01", later=61_000)
        log.step("begun late", "begin", "lapses")
        log.ask("drops it", "ds", "0.01", later=60_000)
        log.step("voided late", "void", "lapses")
        log.reserve("break it", "ds", SESSION)
        log.step("begun to break", "begin", "break it")
        log.step("broken", "settle", "break it", shown="5")
        log.ask("suspended", "ds", "0.01")
        claim = {"type": "pure", "epsilon": "0.1"}
        log.owner("resolved", "resolve", "ds", grant=log.grants["break it"], claim=claim)
        log.owner("open residue", "open", "residue", policy={
            "filter": "gdp_residue", "epsilon": "1", "delta": "1e-6"})  # fmt: skip
        pure = {"type": "pure", "epsilon": "0.1"}
        log.reserve("priced again", "residue", pure)
        log.step("begun and priced again", "begin", "priced again", "residue")
        log.reserve("a Gaussian", "residue", GAUSSIAN)
        log.step("a Gaussian voided", "void", "a Gaussian", "residue")
        log.reserve("fills", "residue", pure)
        twice = {"type": "repeat", "claim": pure, "times": 2}
        log.reserve("charged by state", "residue", twice)
        log.claim("after it", "residue", {"type": "gaussian", "sigma": "900", "sensitivity": "1"})
        log.step("stays charged", "void", "charged by state", "residue")
        log.reserve("open begun", "ds", SESSION)
        log.step("begun and open", "begin", "open begun")
        log.reserve("open", "ds", SESSION)
        return SoundLog(ledger.inputs, ledger.found(), log.places)


def inside(name: str, *path: str, **fields: Any) -> Plant:
    """Change members of an object within a decision."""

    def plant(forger: Forger) -> None:
        found: Any = forger[name]
        for part in path:
            found = found[part]
        found.update(fields)

    return plant


def carried_out(name: str, outcome: str) -> Plant:
    """Turn a refusal into what was refused."""

    def plant(forger: Forger) -> None:
        del forger[name]["reason"]
        forger[name].update(outcome=outcome)

    return plant


def refused(name: str, reason: str) -> Plant:
    return changed(name, outcome="refused", reason=reason)


def in_reservation(sequence: int, dataset: str, change: Callable[[Decision], object]) -> Plant:
    """Change the row of a reservation; the rows have the right checksum."""

    def plant(forger: Forger) -> None:
        (key,) = [
            key
            for key, value in forger.rows.items()
            if b'"grant"' in key and _is_row(value, dataset, sequence)
        ]
        row = json.loads(forger.rows[key])
        change(row)
        value = json.dumps(row, separators=(",", ":"), ensure_ascii=False).encode()
        assert value != forger.rows[key]
        forger.rows = with_right_checksum({**forger.rows, key: value})

    return plant


def _is_row(value: bytes, dataset: str, sequence: int) -> bool:
    row = json.loads(value)
    return (row["dataset"], row["sequence"]) == (dataset, sequence)


def of_last(change: Callable[[Decision], object]) -> Plant:
    """Change the row of the reservation that nothing was done with."""

    def plant(forger: Forger) -> None:
        in_reservation(forger["open"]["sequence"], "ds", change)(forger)

    return plant


def of_begun(change: Callable[[Decision], object]) -> Plant:
    """Change the row of the reservation that has begun."""

    def plant(forger: Forger) -> None:
        in_reservation(forger["open begun"]["sequence"], "ds", change)(forger)

    return plant


def loses_row(forger: Forger) -> None:
    """Drop the row of an open reservation, and count one fewer."""
    key = next(key for key in forger.rows if b'"grant"' in key)
    rows = {each: value for each, value in forger.rows.items() if each != key}
    own = json.loads(rows[PARTITION])
    own["reservations"] -= 1
    rows[PARTITION] = json.dumps(own, separators=(",", ":")).encode()
    forger.rows = with_right_checksum(rows)


def in_row(key: bytes, *path: str, **fields: Any) -> Plant:
    def plant(forger: Forger) -> None:
        row = found = json.loads(forger.rows[key])
        for part in path:
            found = found[part]
        found.update(fields)
        value = json.dumps(row, separators=(",", ":"), ensure_ascii=False).encode()
        forger.rows = with_right_checksum({**forger.rows, key: value})

    return plant


FORGED: dict[str, tuple[Plant, str, str]] = {
    "a refund too large": (
        inside("settled", "totals", epsilon="0"), "totals", "'0.025'"),
    "a refund that is said to be larger": (
        inside("settled", "reservation", "returned", epsilon="0.1"), "reservation", "'0.075'"),
    "a refund that is not said": (
        lambda forger: forger["settled"]["reservation"].pop("returned"), "reservation", "0.075"),
    "a refund at a limit too large": (
        lambda forger: forger["settled"]["levels"][0]["totals"].update(epsilon="0"),
        "levels", "'0.025'"),
    "a void that returns too little": (
        inside("voided", "totals", epsilon="0.05"), "totals", "'epsilon': '0'"),
    "a settlement in full that returns something": (
        inside("settled in full", "reservation", returned={"epsilon": "0.05"}),
        "reservation", "analyst"),
    "a settlement that showed another level": (
        inside("settled", "reservation", shown="50"), "reservation", "'40'"),
    "a void after begin": (
        carried_out("void after begin", "voided"), "outcome", "refused already_begun"),
    "a second begin": (carried_out("begun twice", "begun"), "outcome", "refused already_begun"),
    "a settlement before begin": (
        carried_out("not begun", "settled"), "outcome", "refused not_begun"),
    "a second settlement": (
        carried_out("settled twice", "settled"), "outcome", "refused not_open"),
    "a settlement by another": (
        carried_out("of another", "settled"), "outcome", "refused not_permitted"),
    "a settlement below the least level": (
        carried_out("broken", "settled"), "outcome", "refused beyond_maximum"),
    "a begin after the deadline": (
        carried_out("begun late", "begun"), "outcome", "refused lapsed"),
    "a void after the end": (
        carried_out("voided late", "voided"), "outcome", "refused not_open"),
    "a begin dropped": (dropped("begun"), "inputs", "4"),
    "a begin refused": (refused("begun", "lapsed"), "outcome", "begun"),
    "a void refused": (refused("voided", "lapsed"), "outcome", "voided"),
    "a deadline moved": (
        inside("open", "reservation", until="2027-01-01T00:00:00.000Z"), "reservation", "2026-"),
    "another analyst's reservation": (
        inside("open", "reservation", analyst="eve"), "reservation", "'ana'"),
    "a reservation that is a grant": (
        changed("open", outcome="granted"), "outcome", "reserved"),
    "a grant that is a reservation": (
        changed("meanwhile", outcome="reserved"), "outcome", "granted"),
    "a reservation for less": (inside("open", "cost", epsilon="0.05"), "cost", "0.1 to 0.1"),
    "a row dropped early": (
        inside("meanwhile", "held", count=0), "held", "'count': 1"),
    "a row dropped late": (
        changed("drops it", held={"count": 1, "totals": {"epsilon": "0.1", "delta": "0",
                                                         "loss_epsilon": "0.1"}}), "held", "None"),
    "held amounts lowered": (
        inside("open", "held", "totals", epsilon="0.1"), "held", "'0.2'"),
    "a broken reservation that is not said": (
        lambda forger: forger["broken"]["reservation"].pop("stage"), "reservation", "'broken'"),
    "a suspension that is not counted": (
        lambda forger: forger["broken"]["held"].pop("broken"), "held", "'broken': 1"),
    "a reading while it is suspended": (
        changed("suspended", odometers={"basic": "0.3"}), "odometers", "inf"),
    "a grant while it is suspended": (
        carried_out("suspended", "granted"), "outcome", "refused suspended"),
    "a guarantee that holds": (without("resolved", "guarantee"), "guarantee", "if_bounded"),
    "a better guarantee": (changed("resolved", guarantee="explained"), "guarantee", "if_bounded"),
    "what was released is not charged": (
        without("resolved", "cost"), "cost", "0.1 to 0.1"),
    "a price that stays a Gaussian's": (
        without("begun and priced again", "reservation"), "reservation", "'mu_squared'"),
    "a price too low": (
        inside("begun and priced again", "totals", mu_squared="0.009"), "reservation", "0.00535"),
    "a Gaussian that stays charged": (
        inside("a Gaussian voided", "totals", mu_squared="0.0114"), "totals", "0.01034"),
    "a cost that returns to another state": (
        inside("stays charged", "reservation", returned={"mu_squared": "0.001"}),
        "reservation", "analyst"),
    "a row whose deadline was moved": (
        of_last(lambda row: row.update(deadline=row["deadline"] + HOUR)), "state", '"deadline"'),
    "a row that has not begun": (
        of_begun(lambda row: row.update(stage="reserved")), "state", '"begun"'),
    "a row that has begun": (
        of_last(lambda row: row.update(stage="begun")), "state", '"reserved"'),
    "a row of another analyst": (
        of_last(lambda row: row.update(analyst="eve")), "state", '"ana"'),
    "a row of another claim": (
        of_last(lambda row: row["claim"].update(least="5")), "state", '"least":"10"'),
    "a row that was charged more": (
        of_last(lambda row: row["totals"].update(epsilon="0.9")), "state", '"epsilon":"0.1"'),
    "a row whose limit was charged more": (
        of_last(lambda row: row["levels"][0]["counted"].update(epsilon="0.9")),
        "state", '"counted":{"epsilon":"0.1"'),
    "a row lost": (loses_row, "state", '"grant"'),
    "a dataset that holds less": (
        in_row(b"ds", "held", count=1), "state", "'count': 2"),
    "a dataset whose guarantee holds": (
        in_row(b"ds", guarantee=""), "state", "if_bounded"),
}  # fmt: skip


def test_the_sound_log_is_as_predicted(sound: SoundLog) -> None:
    partition = oracle.judge_file(sound.found, sound.inputs)
    decided = [json.loads(value) for value in sound.found.decisions]
    found = {name: decided[place] for name, place in sound.places.items()}
    codes = {name: each.get("reason", each["outcome"]) for name, each in found.items()}
    assert codes["void after begin"] == "already_begun"
    assert (codes["begun late"], codes["voided late"]) == ("lapsed", "not_open")
    assert (codes["broken"], codes["resolved"]) == ("beyond_maximum", "resolved")
    assert "returned" in found["begun and priced again"]["reservation"]
    assert codes["stays charged"] == "voided"
    assert "mu_squared" not in found["stays charged"]["reservation"].get("returned", {})
    assert len(partition.datasets["ds"].reservations.open) == 2
    assert audit(sound.found.decisions, state=rows_of(sound.found.rows)).ok


@every_case("name", FORGED)
def test_each_forgery_is_detected_and_named(sound: SoundLog, name: str) -> None:
    plant, about, predicted = FORGED[name]
    forger = Forger(sound)
    plant(forger)
    found = forger.found()
    with pytest.raises(Disagreement) as noticed:
        oracle.judge_file(found, sound.inputs)
    assert noticed.value.about == about, noticed.value
    assert predicted in str(noticed.value.predicted), noticed.value
    report = audit(found.decisions, state=rows_of(found.rows))
    assert not report.ok


def rows_of(rows: Any) -> StateRows:
    return StateRows(dict(rows), None)
