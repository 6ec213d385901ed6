"""What the versions of rules 4 and 5 wrote is read as it was; see `test_written_before`.

`inputs_of_rules_4.jsonl` begins under rules 3, which know of no members, and goes on under rules 4:
owners, roles, teams and their ends on datasets of seven filters. `inputs_of_rules_5.jsonl` begins
under rules 4, with members that count, a limit that does not and a clock that is set back, and goes
on under rules 5: limits by part and by budgets of their own, defaults, paces over days and over a
clock that is set back, shares that go along when somebody changes teams.

`ledger_of_rules_4.sqlite` was made by the program of rules 3 from the beginning of the former, and
that of rules 4 went on with it; `ledger_of_rules_5.sqlite` is the same file, with which that of
rules 5 went on. What needs 10,000 members or 1,000 limits is tested elsewhere.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import apsw
import pytest

from accountant.partition.decide import decide
from accountant.partition.operate import reset_clock
from accountant.records import Decision, decode_decision
from accountant.records.inputs import Input
from accountant.records.outcomes import Outcome, Reason
from accountant.replay.audit import audit
from accountant.replay.refold import Refold, state_rows
from accountant.times import from_iso
from streams.embedded import ledger_file
from streams.embedded.ledger_file import numbered_decisions
from streams.embedded.service import EmbeddedService
from streams.settings import Settings
from streams.testing import ManualClock
from tests.accountant.world import World

HERE: Final = Path(__file__).parent
NEW: Final = {
    4: {
        *(Outcome.MEMBER_SET, Outcome.MEMBER_REMOVED),
        *(Reason.NOT_PERMITTED, Reason.UNKNOWN_MEMBER, Reason.LAST_OWNER),
    },
    5: {
        *(Outcome.LIMIT_SET, Outcome.LIMIT_REMOVED),
        *(Reason.UNKNOWN_LIMIT, Reason.LIMIT_NOT_POSSIBLE, Reason.OVER_RESERVED),
        Reason.HAS_LIMITS,
    },
}
"""The outcomes and reasons that each of these rules has brought, but for those of very many."""
LEVELS: Final = {
    ("dataset", "reserved"),
    *((scope, "pace") for scope in ("dataset", "team", "each", "analyst")),
    *((scope, "limit") for scope in ("team", "each", "analyst")),
}


def lines_of(rules: int) -> list[dict[str, Any]]:
    text = (HERE / f"inputs_of_rules_{rules}.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


class Played:
    """A set of inputs decided once more, and what was decided then."""

    def __init__(self, rules: int) -> None:
        self.rules = rules
        self.then = json.loads((HERE / f"decided_by_rules_{rules}.json").read_text())
        self.world = world = World(batch=self.then["batch"], rules=rules - 1)
        for line in lines_of(rules):
            if "rules" in line:
                world.commit()
                world.rules = line["rules"]
                world.commit()
            elif "reset" in line:
                world.commit()
                world.took(reset_clock(world.draft, line["reset"], line["note"]))
                world.commit()
            else:
                source, clock, value = line["source"], line["clock"], line["value"].encode()
                record = Input(source, world.draft.next[source], b"key", value, clock)
                world.took(decide(world.draft, record, clock))
        world.commit()


@pytest.fixture(scope="module", params=[4, 5])
def played(request: pytest.FixtureRequest) -> Played:
    return Played(request.param)


@pytest.fixture(scope="module")
def limited() -> Played:
    return Played(5)


def test_the_same_inputs_give_the_same_bytes(played: Played) -> None:
    heads = [hashlib.sha256(value).hexdigest() for value in played.world.log]
    assert heads[::10] == played.then["every_10th"]
    assert f"sha256:{heads[-1]}" == played.then["head"]
    found = hashlib.sha256()
    for key, value in played.world.rows():
        found.update(key + b"\0" + value + b"\n")
    assert found.hexdigest() == played.then["rows_sha256"]


def test_the_log_refolds_and_audits(played: Played) -> None:
    world = played.world
    assert audit(world.log, genesis=world.genesis).ok
    assert state_rows(world.refolded()) == world.rows()


def test_state_and_the_end_of_the_log_refold(played: Played) -> None:
    world = played.world
    refold = Refold(world.genesis)
    for key, value in world.rows():
        refold.take_row(key, value)
    start = refold.start
    assert start is not None
    first = next(n for n, each in enumerate(world.decisions) if from_iso(each.decided_at) >= start)
    for value in world.log[first:]:
        refold.take_decision(value)
    assert state_rows(refold.finish()) == world.rows()


def test_all_that_the_rules_brought_is_among_them_and_nothing_newer(played: Played) -> None:
    decisions = played.world.decisions
    told = {each for d in decisions for each in (d.outcome, d.reason)}
    assert NEW[played.rules] <= told
    assert {d.rules for d in decisions} == {played.rules - 1, played.rules}
    newer = [new for rules, new in NEW.items() if rules > played.rules]
    assert not told & set().union(*newer)


def test_older_rules_take_a_record_of_newer_ones_for_none(played: Played) -> None:
    kind = {4: "member", 5: "limit"}[played.rules]
    tried = [
        decision
        for decision in played.world.decisions
        if decision.rules < played.rules and f'"type": "{kind}"'.encode() in bytes(decision.request)
    ]
    assert tried
    assert {decision.outcome for decision in tried} == {Outcome.INVALID}


def test_each_level_has_refused_for_each_of_its_reasons(limited: Played) -> None:
    refused = [d for d in limited.world.decisions if d.level is not None]
    out_of_room = {(d.level.scope, d.level.what) for d in refused if d.reason is Reason.EXHAUSTED}
    assert out_of_room == LEVELS
    assert any(d.reason is Reason.CLAIM_NOT_ACCEPTED for d in refused)
    moved = [level for d in limited.world.decisions for level in d.levels]
    assert {level.scope for level in moved} == {"dataset", "team", "each", "analyst"}
    assert any(level.crossed for level in moved)
    for told in ("rounded_up", "paced_rounded_up", "used_rounded_up", "used"):
        assert any(getattr(level, told) for level in moved), told


FILES: Final = {4: "ledger_of_rules_4.sqlite", 5: "ledger_of_rules_5.sqlite"}


@pytest.fixture(params=FILES)
def rules(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture
def file(rules: int, tmp_path: Path) -> Path:
    copy = tmp_path / "ledger.db"
    shutil.copy(HERE / FILES[rules], copy)
    return copy


def log_of(file: Path) -> list[bytes]:
    with ledger_file.reader(file) as db:
        return [value for _, value in numbered_decisions(db, first=0)]


@pytest.fixture
def service(file: Path) -> Iterator[EmbeddedService]:
    last = decode_decision(log_of(file)[-1])
    clock = ManualClock(from_iso(last.decided_at))
    opened = EmbeddedService.open(file, Settings(checkpoints="off"), clock=clock)
    yield opened
    opened.close_sync()


def test_a_file_that_each_program_went_on_with_audits_and_refolds_to_its_rows(
    file: Path, rules: int
) -> None:
    log = log_of(file)
    assert {decode_decision(value).rules for value in log} == {*range(3, rules + 1)}
    assert audit(log).ok
    genesis = decode_decision(log[0]).genesis
    assert genesis is not None
    refold = Refold(genesis)
    for value in log:
        refold.take_decision(value)
    with ledger_file.reader(file) as db:
        written = [
            (bytes(key), bytes(row)) for key, row in db.execute("SELECT key, value FROM state")
        ]
    assert sorted(written) == sorted(state_rows(refold.finish()))


def test_a_file_opens_repeats_what_it_decided_and_goes_on(
    service: EmbeddedService, file: Path, rules: int
) -> None:
    assert service.readiness().ready

    def asked(body: bytes) -> Decision:
        answer = service.submit_sync("requests", body, 5)
        assert answer.decision is not None
        return decode_decision(answer.decision)

    granted = [
        decision
        for value in log_of(file)
        if (decision := decode_decision(value)).outcome is Outcome.GRANTED
    ]
    again = asked(bytes(granted[-1].request))
    assert again.outcome is Outcome.REPEATED
    assert again.first is not None
    assert again.first.partition_sequence == granted[-1].partition_sequence
    # Who is a member of `census` and who is not, as the program of rules 4 was told.
    world = World()
    world.now = from_iso(again.decided_at)
    for analyst, outcome in (("ben", Outcome.GRANTED), ("eve", Outcome.REFUSED)):
        decision = asked(world.request("pure:0.0001", analyst=analyst))
        assert decision.outcome is outcome, decision
    if rules == 5:
        refused = asked(world.request("pure:0.2", dataset="team", analyst="ana"))
        assert refused.level is not None
        assert (refused.level.scope, refused.level.what) == ("dataset", "pace")


def test_a_file_without_its_rows_is_refolded(file: Path) -> None:
    with apsw.Connection(str(file)) as db:
        db.execute("DELETE FROM state")
    last = decode_decision(log_of(file)[-1])
    clock = ManualClock(from_iso(last.decided_at))
    service = EmbeddedService.open(file, Settings(checkpoints="off"), clock=clock)
    try:
        view = service.views.datasets()["census"]
        assert view.policy.access == "members"
        assert view.totals["mechanisms"] > 0
    finally:
        service.close_sync()
