"""Commands on a ledger on Kafka, each in a process of its own."""

from __future__ import annotations

import subprocess

from tests.faults.ledger import Ledger
from tests.forks import commands
from tests.streams.cli.conftest import environment

STARTS = ("streams.cli",)


def command(ledger: Ledger, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run `accountant` on a ledger."""
    deployment = ledger.deployment
    env = environment(
        ACCOUNTANT_URL=f"kafka://{deployment.bootstrap}",
        ACCOUNTANT_APPLICATION=deployment.application,
        ACCOUNTANT_TOPIC_PREFIX=deployment.topics.prefix,
        ACCOUNTANT_PARTITIONS=str(deployment.partitions),
        ACCOUNTANT_PLACEMENT=deployment.placement,
        **more,
    )
    return commands.run(*words, env=env, text=True)
