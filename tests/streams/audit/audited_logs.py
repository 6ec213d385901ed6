"""Logs to audit: one that is right, and some with a record that is wrong."""

from __future__ import annotations

from accountant.records import decode_decision, encode
from tests.accountant.replay.test_audit import rechained
from tests.accountant.replay.test_grant_run import WORLD, forged


def written(directory, log):
    (directory / "log.jsonl").write_bytes(b"".join(value + b"\n" for value in log))


def edited(log, field):
    log = list(log)
    log[12] = encode(forged(decode_decision(log[12]), field))
    return rechained(log, 12)


LOGS = {
    "right": WORLD.log,
    "wrong only to a decider": edited(WORLD.log, "crossed"),
    "wrong only to the chain": [*WORLD.log[:12], WORLD.log[12].replace(b"0.001", b"0.002")],
    "wrong sums": edited(WORLD.log, "totals"),
    "no decision": [*WORLD.log[:20], b"{}", *WORLD.log[20:]],
}
