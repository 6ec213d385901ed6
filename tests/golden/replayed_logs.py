"""The inputs of the golden logs, decided again.

The first line of each file says what the log is `about`. Each other line is an input with the
clock that decided it, or what a command writes. `{decision:N}` in an input is the hash of decision
N of the log.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path
from typing import Any, Final

from accountant.partition import hash_of
from accountant.partition.decide import decide, decide_internal_error
from accountant.partition.operate import accept_rollback, change_key, reset_clock, seal_log
from accountant.records.encoded_decision import EncodedDecision
from accountant.records.inputs import Input
from accountant.records.operator_records import KeyChange, Rollback
from accountant.replay.audit import Auditor
from accountant.replay.sealed_log import next_seal
from tests.accountant.world import World

OPENS = ("tests/golden/*",)

HERE: Final = Path(__file__).parent
DECIDED: Final = HERE / "decided.json"
MAX_IDS: Final = {"ids": 200}
"""The most ids that the partition remembers, where that is not its default."""
TRANSACTION: Final = {"ids": 25}
"""The inputs of a transaction, where they are not 10."""
LOGS: Final = sorted(path.stem for path in HERE.glob("*.jsonl"))
_EVERY: Final = 10


def played(name: str) -> World:
    """Return the partition that has decided the inputs of a golden log."""
    world = World(batch=TRANSACTION.get(name, 10), most_ids=MAX_IDS.get(name))
    first, *lines = (HERE / f"{name}.jsonl").read_text().splitlines()
    assert json.loads(first).keys() == {"about"}, f"{name}.jsonl does not say what it is about"
    for text in lines:
        line = json.loads(text)
        if "source" in line:
            source, clock = line["source"], line["clock"]
            body = _with_hashes(world, _body_of(line))
            record = Input(source, world.draft.next[source], b"key", body, clock)
            how = decide_internal_error if line.get("internal_error") else decide
            world.took(how(world.draft, record, clock))
        else:
            world.commit()
            world.took(_operated(world, line))
            world.commit()
    world.commit()
    return world


def hashes(world: World) -> dict[str, object]:
    """Return what is kept of a log and its rows: the chain covers every byte of the log."""
    heads = [hash_of(value) for value in world.log]
    rows = hashlib.sha256()
    for key, value in world.rows():
        rows.update(key + b"\0" + value + b"\n")
    return {"head": heads[-1], "rows_sha256": rows.hexdigest(), "every_10th": heads[::_EVERY]}


def _body_of(line: dict[str, Any]) -> bytes | None:
    value = line["value"]
    if isinstance(value, dict):
        return base64.b64decode(value["base64"])
    return None if value is None else value.encode()


def _with_hashes(world: World, body: bytes | None) -> bytes | None:
    if body is None or b"{decision:" not in body:
        return body

    def hash_at(found: re.Match[bytes]) -> bytes:
        return hash_of(world.log[int(found[1])]).encode()

    return re.sub(rb"\{decision:(\d+)\}", hash_at, body)


def _operated(world: World, line: dict[str, Any]) -> EncodedDecision:
    draft, note = world.draft, line["note"]
    if "reset" in line:
        return reset_clock(draft, line["reset"], note)
    if "rollback" in line:
        return accept_rollback(draft, line["at"], note, Rollback(**line["rollback"]))
    if "key_change" in line:
        return change_key(draft, line["at"], note, KeyChange(**line["key_change"]))
    auditor = Auditor(most_ids=world.most_ids)
    assert all(map(auditor.take, world.log))
    assert auditor.partition is not None
    before = line["archived"], hash_of(world.log[line["archived"]])
    return seal_log(
        draft,
        line["seal"],
        note,
        next_seal(auditor.partition, auditor.counted, auditor.first, before),
    )
