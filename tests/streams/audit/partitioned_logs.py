"""Logs of several partitions to audit side by side, some of them with a record that is wrong."""

from __future__ import annotations

from functools import partial
from itertools import chain

from accountant.partition.key_hash import home_of
from streams.audit.partition_processes import partition_processes
from streams.log.exported_log import ExportedLog
from tests.accountant.world import World
from tests.streams.audit.audited_logs import edited

PARTITIONS = 3
NAMES = [next(f"d{i}" for i in range(99) if home_of(f"d{i}", "name", 3) == n) for n in range(3)]


def of_partition(number):
    world = World(partitions=PARTITIONS, partition=number)
    world.open(NAMES[number], epsilon="1", delta="1e-6")
    for _ in range(20 + number):
        world.now += 7
        world.ask("pure:0.001", dataset=NAMES[number])
    return world.log


LOGS = [of_partition(number) for number in range(PARTITIONS)]


DAMAGED = {
    "wrong only to a decider": lambda log: edited(log, "crossed"),
    "wrong sums": lambda log: edited(log, "totals"),
    "wrong chain": lambda log: [*log[:12], log[12].replace(b"0.001", b"0.002"), *log[13:]],
    "no decision": lambda log: [*log[:9], b"{}", *log[9:]],
    "a decision less": lambda log: [*log[:9], *log[10:]],
    "no genesis": lambda log: log[1:],
}


def whole(damaged=(), how=""):
    parts = [DAMAGED[how](log) if n in damaged else log for n, log in enumerate(LOGS)]
    return list(chain.from_iterable(parts))


def processes(path, jobs=PARTITIONS):
    made = partition_processes(ExportedLog(path), partial(ExportedLog, path), jobs, least=0)
    assert made is not None
    return made
