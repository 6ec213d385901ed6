"""The oracle detects each forgery of a log, and names it."""

from __future__ import annotations

import json
import zlib
from typing import Any

import pytest

from tests.every_case import every_case
from tests.faults import oracle
from tests.faults.forgery import (
    PARTITION,
    Decision,
    Forger,
    Plant,
    SoundLog,
    changed,
    dropped,
    hash_of,
    sound,
    without,
)
from tests.faults.oracle import Disagreement

pytestmark = pytest.mark.faults


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> SoundLog:
    return sound(tmp_path_factory.mktemp("sound") / "ledger.db")


def grant(forger: Forger, name: str) -> None:
    """Turn a decision into a grant that charges the requested cost."""
    decision, like = forger[name], forger["after crossing"]
    for field in ("reason", "asked", "fits", "first", "error", "crossed"):
        decision.pop(field, None)
    filled = {field: like[field] for field in ("generation", "sequence", "totals", "left")}
    cost = dict.fromkeys(like["cost"], "0.001")
    decision.update({**filled, **decision, "outcome": "granted", "cost": cost})


def refuse(forger: Forger, name: str, reason: str) -> None:
    decision = forger[name]
    decision.pop("cost", None)
    decision.update(outcome="refused", reason=reason)


def less(amount: str, digits: int = 40) -> str:
    """Return an amount that is one unit of its last digit smaller."""
    whole, _, part = amount.partition(".")
    scaled = int(whole + part.ljust(digits, "0")) - 1
    text = f"{scaled:0{digits + 1}d}"
    return f"{text[:-digits]}.{text[-digits:]}".rstrip("0")


def set_in(name: str, field: str, **changed: Any) -> Plant:
    """Change a few members of an object of one decision."""
    return lambda forger: forger[name].update({field: {**forger[name][field], **changed}})


def one_less(name: str, field: str, member: str) -> Plant:
    def plant(forger: Forger) -> None:
        amount = forger[name][field][member]
        digits = len(amount.partition(".")[2]) if field == "cost" and member == "rho" else 40
        set_in(name, field, **{member: less(amount, digits)})(forger)

    return plant


def one_unit_more(name: str, field: str, member: str) -> Plant:
    """Add 1e-40: no undercharge, and no number that the documents allow."""

    def plant(forger: Forger) -> None:
        amount = forger[name][field][member]
        longer = f"{amount}{'0' * (39 - len(amount.partition('.')[2]))}1"
        set_in(name, field, **{member: longer})(forger)

    return plant


def granted(name: str) -> Plant:
    return lambda forger: grant(forger, name)


def refused(name: str, reason: str) -> Plant:
    return lambda forger: refuse(forger, name, reason)


def swapped(one: str, other: str) -> Plant:
    def plant(forger: Forger) -> None:
        all_of = forger.decisions
        i, j = all_of.index(forger[one]), all_of.index(forger[other])
        all_of[i], all_of[j] = all_of[j], all_of[i]

    return plant


def as_repeat_of(name: str, first: str) -> Plant:
    """Answer as if the id was still remembered."""

    def plant(forger: Forger) -> None:
        of = forger[first]
        named = {field: of[field] for field in ("partition_sequence", "decided_at", "outcome")}
        forger[name].update(outcome="repeated", first={**named, "hash": "sha256:", "cost": {}})

    return plant


def forgets(forger: Forger) -> None:
    """Set a grant's totals and remaining amounts to those before it."""
    for field in ("totals", "left"):
        forger["after crossing"][field] = forger["crossing"][field]


def row_of(forger: Forger, key: bytes) -> Decision:
    found: Decision = json.loads(forger.rows[key])
    return found


def in_row(key: bytes, **fields: Any) -> Plant:
    def plant(forger: Forger) -> None:
        forger.rows[key] = json.dumps({**row_of(forger, key), **fields}).encode()

    return plant


def spends_less_in_its_row(forger: Forger) -> None:
    row = row_of(forger, b"ds")
    in_row(b"ds", totals={**row["totals"], "epsilon": "0"})(forger)


def in_both(name: str, **totals: str) -> Plant:
    """Change some totals of a decision and of its cost."""

    def plant(forger: Forger) -> None:
        set_in(name, "totals", **totals)(forger)
        set_in(name, "cost", **dict.fromkeys(totals, "0"))(forger)

    return plant


def in_row_of_totals(key: bytes, **totals: str) -> Plant:
    return lambda forger: in_row(key, totals={**row_of(forger, key)["totals"], **totals})(forger)


def carried_out(name: str, like: str) -> Plant:
    """Carry an owner's record out, as another one was."""

    def plant(forger: Forger) -> None:
        decision = forger[name]
        del decision["reason"]
        body = decision["request"]
        member = {"member": body["member"], "roles": body["roles"]}
        decision.update(outcome=forger[like]["outcome"], member=member)

    return plant


def member_key(name: str) -> bytes:
    return f'{{"dataset":"circle","member":"{name}"}}'.encode()


def in_row_of(name: str, **fields: Any) -> Plant:
    """Change a member's row, or make one: written as rows are."""

    def plant(forger: Forger) -> None:
        like = row_of(forger, member_key("ana"))
        row = row_of(forger, member_key(name)) if member_key(name) in forger.rows else like
        text = json.dumps({**row, **fields}, separators=(",", ":"))
        forger.rows[member_key(name)] = text.encode()

    return plant


def sums_datasets_alone(forger: Forger) -> None:
    datasets = [value for key, value in forger.rows.items() if not key.startswith(b"{")]
    total = sum(map(zlib.crc32, datasets)) % 2**64
    in_row(PARTITION, checksum=f"{total:016x}")(forger)


def forgets_what_is_beside(forger: Forger) -> None:
    del forger["open both"]["policy"]["beside"]


def another_asked(forger: Forger) -> None:
    body = forger.inputs["requests"][0].value or b""
    forger.says(forger["grant"], body.replace(b'"ana"', b'"eve"'))


def a_letter_lost(forger: Forger) -> None:
    forger.letters.clear()


def a_letter_of_another(forger: Forger) -> None:
    forger.letters[0] = forger.letters[0]._replace(value=b"other")


def ends_early(forger: Forger) -> None:
    del forger.decisions[-1]


def first_of_another(forger: Forger) -> None:
    other = hash_of(b"another")
    set_in("repeat", "first", hash=other)(forger)


FORGED: dict[str, tuple[Plant, str, str]] = {
    # name: the forgery, the field that reveals it, the predicted value of the field
    "an exhausted request is granted": (granted("exhausted"), "outcome", "refused exhausted"),
    "a grant shown as refused": (refused("grant", "exhausted"), "outcome", "granted"),
    "a repeat is charged once more": (granted("repeat"), "outcome", "repeated"),
    "a conflict is granted": (granted("conflict"), "outcome", "conflict"),
    "an expired id is granted": (granted("old"), "outcome", "expired"),
    "an id from the future is granted": (granted("ahead"), "outcome", "invalid issued_in_future"),
    "an id is forgotten early": (granted("last repeat"), "outcome", "repeated"),
    "an id is expired early": (changed("last repeat", outcome="expired"), "outcome", "repeated"),
    "an id is known too long": (as_repeat_of("first expired", "aged"), "outcome", "expired"),
    "a forgotten id is charged again": (granted("first expired"), "outcome", "expired"),
    "the cap is ignored": (granted("above cap"), "outcome", "refused above_cap"),
    "a closed dataset grants": (granted("closed"), "outcome", "refused closed"),
    "the lowered budget is not the one": (
        granted("beyond the lowered"), "outcome", "refused exhausted"),
    "`follows` is ignored": (changed("out of date", outcome="amended"), "outcome",
                             "refused out_of_date"),
    "another reason": (refused("unknown", "closed"), "reason", "unknown_dataset"),
    "a cost short by one unit": (one_less("grant", "cost", "epsilon"), "cost", "0.02"),
    "a cost rounded inward": (one_less("tanh", "cost", "rho"), "cost", "within"),
    "a cost longer than it is kept": (
        one_unit_more("tanh", "cost", "rho"), "cost", "within"),
    "a charge forgotten": (forgets, "totals", "0.031"),
    "totals one unit short": (one_less("crossing", "totals", "epsilon"), "totals", "0.03"),
    "more left than there is": (set_in("grant", "left", epsilon="0.04"), "left", "0.03"),
    "a reading rounded down": (set_in("grant", "odometers", basic="0.0199"), "odometers", "0.02"),
    "a crossing missing": (without("crossing", "crossed"), "crossed", "0.5"),
    "a crossing twice": (changed("after crossing", crossed=["0.5"]), "crossed", "None"),
    "another price for a refusal": (
        set_in("exhausted", "asked", epsilon="0.01"), "asked", "0.04"),
    "an offer that does not fit": (changed("exhausted", fits="pure:0.02"), "fits", "largest"),
    "an offer smaller than it may be": (changed("exhausted", fits="pure:0.018"), "fits", "largest"),
    "no offer though one fits": (without("exhausted", "fits"), "fits", "largest"),
    "the first of another decision": (first_of_another, "first", "hash"),
    "a larger budget": (set_in("open", "budget", epsilon="0.06"), "budget", "0.05"),
    "a default changed": (set_in("open", "policy", unit="household"), "policy", "person"),
    "an amendment with the old budget": (set_in("lower", "budget", epsilon="2"), "budget", "1"),
    "a gap in a dataset": (changed("crossing", sequence=9), "sequence", "3"),
    "the floor not raised": (
        changed("later", floor="1970-01-01T00:00:00.000Z"), "floor", "2026-"),
    "the floor raised too far": (
        changed("grant", floor="2026-09-21T14:00:00.000Z"), "floor", "2026-"),
    "a clock that goes back": (
        changed("grant", decided_at="2026-09-21T14:00:00.000Z"), "clock", "2026-"),
    "a decision dropped": (dropped("repeat"), "inputs", "1"),
    "two decisions swapped": (swapped("crossing", "tanh"), "inputs", "3"),
    "a decision twice": (lambda forger: forger.double("grant"), "inputs", "1"),
    "the last decision cut off": (ends_early, "inputs", "0 of requests undecided"),
    "a request of somebody else": (another_asked, "request", "ana"),
    "a field made up": (changed("grant", note="by hand"), "note", "None"),
    "an error of another field": (
        changed("dead", error={"field": "", "rule": ""}), "error", "one of"),
    "other rules": (changed("grant", rules=3), "rules", "1"),
    "a dead letter lost": (a_letter_lost, "dead_letters", "undecodable"),
    "a dead letter of other bytes": (a_letter_of_another, "dead_letters", "undecodable"),
    "a row with less spent": (spends_less_in_its_row, "state", "0.0"),
    "a row that is still open": (in_row(b"lowered", closed=False), "state", "True"),
    "a row that has crossed less": (in_row(b"ds", crossed=0), "state", "1"),
    "a row of the partition with a lower floor": (in_row(PARTITION, floor=0), "state", "1790"),
    "a row of the partition that is behind": (
        in_row(PARTITION, next={"requests": 1, "admin": 1}), "state", "requests"),
    "a third that is rounded up twice": (refused("the whole", "exhausted"), "outcome", "granted"),
    "four thirds in one": (granted("one third too many"), "outcome", "refused exhausted"),
    "a third rounded up by less": (
        set_in("a third", "rounded_up", epsilon="1/3"), "rounded_up", "2/3"),
    "a third that says nothing of it": (without("two thirds", "rounded_up"), "rounded_up", "1/3"),
    "a cost that is not what the total grows by": (
        set_in("two thirds", "cost", epsilon="0.3333333333333333333333333333333333333334"),
        "cost", "within"),
    "a row without the mark": (in_row(b"thirds", version=1), "state", "2"),
    "a filter that has ended and does not say so": (
        set_in("ends the filter", "totals", filter_ended="0"), "totals", "'filter_ended': '1'"),
    "a filter that has ended goes on": (
        in_both("admitted by basic alone", filter_ended="0"), "totals", "'filter_ended': '1'"),
    "a filter that has not ended is said to have": (
        set_in("admitted by the filter", "totals", filter_ended="1"), "totals",
        "'filter_ended': '0'"),
    "an end that is missing": (without("ends the filter", "ends"), "ends", "zcdp_tight"),
    "an end that occurs twice": (
        changed("admitted by basic alone", ends="zcdp_tight"), "ends", "None"),
    "an offer that does not tell of the end": (
        without("offers to end the filter", "ends"), "ends", "zcdp_tight"),
    "a filter charged for what basic composition admitted": (
        set_in("ends the filter", "cost", rho="0.07"), "cost", "'rho': '0 to 0'"),
    "a filter not charged for what it admitted": (
        set_in("admitted by the filter", "cost", rho="0"), "cost", "'rho': '0.0012"),
    "basic composition not charged for what the filter admitted": (
        set_in("admitted by the filter", "cost", epsilon="0"), "cost", "'epsilon': '0.05"),
    "a claim without an epsilon that is not counted": (
        set_in("noise", "totals", without_epsilon="0"), "totals", "'without_epsilon': '1'"),
    "basic composition goes on beside noise": (
        granted("refused by the filter"), "outcome", "refused exhausted"),
    "a filter is revived": (granted("noise after the end"), "outcome", "refused exhausted"),
    "a filter that has ended has something left": (
        set_in("ends the filter", "left", rho="0.01"), "left", "'rho': '0'"),
    "a row whose filter goes on": (
        in_row_of_totals(b"both", filter_ended="0"), "state", "'filter_ended': '1'"),
    "a policy that keeps nothing beside its filter": (
        forgets_what_is_beside, "policy", "basic"),
    "a row lost": (lambda forger: forger.rows.pop(b"ds"), "state", "'ds'"),
    "a stranger's request is granted": (
        granted("by a stranger"), "outcome", "refused not_permitted"),
    "a member's request is not": (refused("by a member", "not_permitted"), "outcome", "granted"),
    "a request through a stranger is granted": (
        granted("through a stranger"), "outcome", "refused not_permitted"),
    "a request through a former engine is granted": (
        granted("through a former engine"), "outcome", "refused not_permitted"),
    "a membership goes on behind its end": (
        granted("after its end"), "outcome", "refused not_permitted"),
    "what is not permitted has a price": (
        changed("by a stranger", asked={"epsilon": "0.01", "delta": "0"}), "asked", "None"),
    "another reason than that it is not permitted": (
        refused("close by a stranger", "closed"), "reason", "not_permitted"),
    "owners changed": (changed("open circle", owners=["owner"]), "owners", "olga"),
    "owners in another order": (
        changed("open circle", owners=["olga", "owner"]), "owners", "['owner', 'olga']"),
    "owners left out": (without("open circle", "owners"), "owners", "olga"),
    "an owner who is not named": (changed("open", owners=["owner", "eve"]), "owners", "['owner']"),
    "a member without a role": (
        set_in("enrol ana", "member", roles=[]), "member", "['analyst']"),
    "a member with one role more": (
        set_in("enrol ana", "member", roles=["analyst", "engine"]), "member", "['analyst']"),
    "roles in the record's order": (
        set_in("enrol ben", "member", roles=["auditor", "analyst"]), "member",
        "['analyst', 'auditor']"),
    "an `until` changed": (
        set_in("enrol ana", "member", until="2027-09-21T15:00:00.000Z"), "member", "2026-"),
    "a team changed": (set_in("enrol ana", "member", team="red"), "member", "blue"),
    "a decision on a member without a name": (
        without("enrol ana", "member"), "member", "'ana'"),
    "an administrator's record without its mark": (
        without("enrol ben", "administrator"), "administrator", "True"),
    "an owner's record shown as an administrator's": (
        changed("enrol ana", administrator=True), "administrator", "None"),
    "a removal dropped": (dropped("remove engine-1"), "outcome", "granted"),  # of what follows it
    "a removal not carried out": (
        refused("remove engine-1", "unknown_member"), "outcome", "member_removed"),
    "a stranger's record is carried out": (
        carried_out("enrol by a stranger", "enrol ana"), "outcome", "refused not_permitted"),
    "somebody is removed who was no member": (
        carried_out("remove nobody", "remove engine-1"), "outcome", "refused unknown_member"),
    "the last owner leaves": (
        carried_out("remove the last", "enrol ana"), "outcome", "refused last_owner"),
    "a member's row lost": (
        lambda forger: forger.rows.pop(member_key("ana")), "state", '"member":"ana"'),
    "a removed member's row": (
        in_row_of("engine-1", member="engine-1", roles=["engine"]), "state", '"member":"ben"'),
    "a member's row with one role more": (
        in_row_of("ana", roles=["owner", "analyst"]), "state", '"roles":["analyst"]'),
    "a member's row that ends later": (
        in_row_of("ana", until=1_900_000_000_000), "state", '"until":179'),
    "a member's row of another decision": (in_row_of("ana", sequence=9), "state", '"sequence":2'),
    "a row of the partition with fewer members": (
        in_row(PARTITION, members=1), "state", "9"),
    "a row of a dataset with fewer members": (
        in_row(b"circle", members=1), "state", "3"),
    "a row of a dataset with one owner more": (in_row(b"circle", owners=2), "state", "1"),
    "a row that was first granted of later": (
        in_row(b"circle", granted_at=1_900_000_000_000), "state", "179"),
    "a checksum without the rows of members": (sums_datasets_alone, "state", "00000"),
}  # fmt: skip


def test_the_oracle_accepts_the_sound_log_and_an_unchanged_rewrite_of_it(history: SoundLog) -> None:
    partition = oracle.judge_file(history.found, history.inputs)
    assert len(partition.decisions) == len(history.places)
    forger = Forger(history)
    assert forger.found().decisions == history.found.decisions
    oracle.judge_file(forger.found(), history.inputs)


@every_case("name", FORGED)
def test_each_forgery_of_a_log_is_detected_and_named(history: SoundLog, name: str) -> None:
    plant, about, predicted = FORGED[name]
    forger = Forger(history)
    plant(forger)
    with pytest.raises(Disagreement) as noticed:
        oracle.judge_file(forger.found(), history.inputs)
    assert noticed.value.about == about, noticed.value
    assert predicted in str(noticed.value.predicted), noticed.value


def test_bytes_that_were_changed_break_the_chain(history: SoundLog) -> None:
    values = list(history.found.decisions)
    values[3] += b" "
    with pytest.raises(Disagreement) as noticed:
        oracle.judge_file(history.found._replace(decisions=values), history.inputs)
    assert noticed.value.about == "chain"


def test_an_answer_that_differs_from_the_record_is_detected(history: SoundLog) -> None:
    values, places = history.found.decisions, history.places
    record = values[places["repeat"]]
    decision = json.loads(record)
    served = {**decision, "granted": False, "hash": hash_of(record)}
    served["first"] = {**decision["first"], "granted": True}
    oracle.check_answer(200, json.dumps(served).encode(), record)
    for status, wrong in [
        (409, served),
        (200, {**served, "granted": True}),
        (200, {**served, "hash": hash_of(b"")}),
        (200, {**served, "outcome": "granted"}),
        (200, {**served, "first": decision["first"]}),
        (200, decision),
    ]:
        with pytest.raises(Disagreement, match="answer"):
            oracle.check_answer(status, json.dumps(wrong).encode(), record)
