"""A curator needs each of its rights: without any one of them it does not start."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from streams.kafka.operate.acls.bindings import Binding
from streams.kafka.operate.acls.roles import ANSWER_IDS, ANSWER_MARKS, ROLES
from streams.testing.broker_security import SUPER_USER
from tests.forks import commands
from tests.kafka.installed_curator import InstalledCurator
from tests.kafka.secured_ledger import SecuredLedger
from tests.nightly import rounds
from tests.patience import PATIENCE_S

# These two, which no other test takes away, by day as well.
FIRST: Final = (ANSWER_IDS, ANSWER_MARKS)


def test_a_curator_without_one_of_its_rights_does_not_start(
    secured: SecuredLedger, tmp_path: Path
) -> None:
    rules = ROLES["curator"].bindings("User:curator", secured.deployment(SUPER_USER))
    in_order = sorted(rules, key=lambda rule: not rule.name.endswith(FIRST))
    tried = in_order[: rounds(2, 7)]
    with secured.running("worker", tmp_path / "worker.log", "worker", ACCOUNTANT_METRICS_PORT="0"):
        for number, rule in enumerate(tried):
            with without(secured, rule):
                code, log = started(secured, tmp_path / str(number))
            assert code == 4, (rule, log)
            assert "accountant topics acls" in log.splitlines()[-1]
            assert f"missing topics: {rule.name}." in log or "the broker denies" in log


def started(secured: SecuredLedger, directory: Path) -> tuple[int | None, str]:
    """Start a curator; return its exit code, None if it runs questions, and what it printed."""
    installed = InstalledCurator(secured, directory)
    environment = secured.environment("curator", **installed.variables)
    log = directory / "curator.log"
    with log.open("wb") as out:
        process = commands.start(
            *installed.words, env=environment, stdout=out, stderr=subprocess.STDOUT
        )
    deadline = time.monotonic() + PATIENCE_S
    try:
        while process.poll() is None and "worker_listens" not in log.read_text():
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)
        return process.poll(), log.read_text()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


@contextmanager
def without(secured: SecuredLedger, rule: Binding) -> Iterator[None]:
    """Take a right away for the length of a block."""
    admin = AdminClient(secured.foreign(SUPER_USER))
    pattern = "PREFIXED" if rule.prefixed else "LITERAL"
    what = (
        ResourceType[rule.kind.name],
        rule.name,
        ResourcePatternType[pattern],
        rule.principal,
        rule.host,
        AclOperation[rule.operation.name],
        AclPermissionType.ALLOW,
    )
    (deleted,) = admin.delete_acls([AclBindingFilter(*what)]).values()
    assert len(deleted.result(PATIENCE_S)) == 1
    try:
        yield
    finally:
        (created,) = admin.create_acls([AclBinding(*what)]).values()
        created.result(PATIENCE_S)
