"""The oracle of the fault tests catches the faults that it is for."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable
from typing import Any

from streams.testing import LocalBroker
from tests.faults import oracle
from tests.faults.ledger import Ledger, request, working
from tests.faults.oracle import Evidence, Record
from tests.faults.oracle.texts import millis

Decisions = list[dict[str, Any]]


async def test_planted_faults_are_caught(broker: LocalBroker, application: str) -> None:
    async with Ledger(broker.bootstrap, application, partitions=1) as ledger:
        async with working(ledger):
            await ledger.open("ds", epsilon="0.02", filter="basic")
            await ledger.send_all(request("ds", epsilon="0.01") for _ in range(4))
            await ledger.send(b"{", key=b"ds", partition=0)
            await ledger.judged()
        prefix = ledger.deployment.topics.prefix
        sound = await asyncio.to_thread(oracle.gathered, broker.bootstrap, prefix, 1)
    assert oracle.judge_evidence(rewritten(sound, lambda decisions: None)).inputs == 6
    planted = {name: rewritten(sound, plant) for name, plant in PLANTS.items()}
    for name, wrong in {**planted, **wrong_surroundings(sound)}.items():
        assert is_caught(wrong), name


def is_caught(evidence: Evidence) -> bool:
    try:
        oracle.judge_evidence(evidence)
    except AssertionError:
        return True
    return False


def rewritten(sound: Evidence, plant: Callable[[Decisions], object]) -> Evidence:
    """Change the decisions, rebuild a correct chain, and make the rows of state agree."""
    decisions: Decisions = [json.loads(record.value or b"") for record in sound.decisions[0]]
    keys = {
        id(each): record.key for each, record in zip(decisions, sound.decisions[0], strict=True)
    }
    plant(decisions)
    head, records = "sha256:" + "0" * 64, []
    for number, decision in enumerate(decisions):
        decision.update(partition_sequence=number, previous=head)
        # As the ledger writes it; the requests of tests are written by `json.dumps` as it is.
        text = json.dumps({**decision, "request": "@"}, separators=(",", ":"))
        request = json.dumps(decision["request"]) if "request" in decision else None
        text = text.replace('"@"', request) if request else text.replace(',"request":"@"', "")
        value = text.encode()
        head = f"sha256:{hashlib.sha256(value).hexdigest()}"
        key = keys.get(id(decision), decision.get("dataset", "").encode())
        records.append(Record(number, key, value, millis(decision["decided_at"])))
    row = json.loads(last_row(sound))
    row.update(head=head, partition_sequence=len(decisions) - 1)
    new_row = Record(10**9, ROW, json.dumps(row).encode())
    return sound._replace(decisions=[records], state=[[*sound.state[0], new_row]])


ROW = b'{"partition":0}'


def last_row(evidence: Evidence) -> bytes:
    return [record.value or b"" for record in evidence.state[0] if record.key == ROW][-1]


def granted(decisions: Decisions) -> Decisions:
    return [decision for decision in decisions if decision["outcome"] == "granted"]


def spend_more_than_said(decisions: Decisions) -> None:
    granted(decisions)[0]["cost"]["epsilon"] = "0.02"


def forget_a_charge(decisions: Decisions) -> None:
    second = granted(decisions)[1]
    second["totals"] = granted(decisions)[0]["totals"]


def charge_too_little(decisions: Decisions) -> None:
    for number, decision in enumerate(granted(decisions), 1):
        decision["cost"]["epsilon"] = "0.001"
        decision["totals"]["epsilon"] = f"0.00{number}"


def overspend(decisions: Decisions) -> None:
    refused = next(decision for decision in decisions if decision["outcome"] == "refused")
    refused.update(outcome="granted", cost=granted(decisions)[0]["cost"])
    refused["totals"] = {**refused["totals"], "epsilon": "0.03", "mechanisms": 3}


def decide_twice(decisions: Decisions) -> None:
    decisions.append(dict(decisions[-1]))


def charge_an_id_twice(decisions: Decisions) -> None:
    first, second = granted(decisions)
    second["request"] = first["request"]


def lose_one(decisions: Decisions) -> None:
    del decisions[-1]


def swap_two(decisions: Decisions) -> None:
    decisions[2], decisions[3] = decisions[3], decisions[2]


def leave_a_gap(decisions: Decisions) -> None:
    granted(decisions)[1]["sequence"] += 1


def begin_twice(decisions: Decisions) -> None:
    decisions.insert(1, dict(decisions[0]))


PLANTS = {
    plant.__name__: plant
    for plant in (
        spend_more_than_said,
        forget_a_charge,
        charge_too_little,
        overspend,
        decide_twice,
        charge_an_id_twice,
        lose_one,
        swap_two,
        leave_a_gap,
        begin_twice,
    )
}


def behind_by_one(row: Record) -> Record:
    snapshot = json.loads(row.value or b"")
    snapshot["sequence"] -= 1
    return row._replace(value=json.dumps(snapshot).encode())


def wrong_surroundings(sound: Evidence) -> dict[str, Evidence]:
    """Return sound decisions with wrong inputs, state or dead letters, or a broken chain."""
    decided, rows = sound.decisions[0], sound.state[0]
    behind = [row for row in rows if row.key != ROW]
    (letter,) = sound.dead[0]
    flipped = decided[2]._replace(value=(decided[2].value or b"") + b" ")
    return {
        "an input undecided": sound._replace(
            inputs={
                **sound.inputs,
                "requests": [[*sound.inputs["requests"][0], Record(9, None, b"")]],
            }
        ),
        "an input made up": sound._replace(inputs={**sound.inputs, "requests": [[]]}),
        "no partition row": sound._replace(state=[behind]),
        "no snapshot": sound._replace(state=[[row for row in rows if row.key == ROW]]),
        "a snapshot behind": sound._replace(state=[[*rows, behind_by_one(behind[-1])]]),
        "a dead letter lost": sound._replace(dead=[[]]),
        "a dead letter of other bytes": sound._replace(dead=[[letter._replace(value=b"?")]]),
        "a dead letter without its hash": sound._replace(dead=[[letter._replace(headers={})]]),
        "another key": sound._replace(decisions=[[*decided[:2], decided[2]._replace(key=b"-")]]),
        "another time": sound._replace(
            decisions=[[*decided[:2], decided[2]._replace(timestamp=1)]]
        ),
        "a byte more": sound._replace(decisions=[[*decided[:2], flipped, *decided[3:]]]),
        "the head cut off": sound._replace(decisions=[decided[:-1]]),
    }
