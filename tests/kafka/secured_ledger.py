"""A ledger on a broker with authentication, where each user has the rights of its role."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from streams.errors import Refused
from streams.kafka.deployment import Deployment, deployment_of
from streams.kafka.log.topics import create
from streams.kafka.operate.acls.bindings import add
from streams.kafka.operate.acls.roles import ROLES
from streams.settings import Settings, load
from streams.testing import LocalBroker
from streams.testing.broker_security import SUPER_USER
from tests.forks import commands
from tests.patience import PATIENCE_S

STARTS = ("streams.cli",)

USERS = (*ROLES, "analyst")  # each user has the name of its role; analysts have none
PARTITIONS = 2


class SecuredLedger:
    """One ledger on such a broker; `set_up` creates its ACLs and topics.

    Args:
        prefix: of its topics, and what its application is called.
    """

    def __init__(self, broker: LocalBroker, prefix: str) -> None:
        self.broker = broker
        self._prefix = prefix
        self.url = f"kafka://{broker.bootstrap}"

    def set_up(self) -> None:
        """Apply the rules that are shipped, then make the topics as an operator."""
        where = self.deployment(SUPER_USER)
        rules = [each for role in ROLES for each in ROLES[role].bindings(f"User:{role}", where)]
        asyncio.run(add(where.cluster, rules))
        until = time.monotonic() + PATIENCE_S
        while True:
            try:
                asyncio.run(create(self.deployment("operator")))
            except Refused:
                # A busy broker has written the rules, and does not know them yet.
                if time.monotonic() > until:
                    raise
                time.sleep(0.1)
            else:
                return

    def variables(self, user: str) -> dict[str, str]:
        """Return the variables with which a process is a user."""
        return {
            "ACCOUNTANT_URL": self.url,
            "ACCOUNTANT_APPLICATION": self._prefix,
            "ACCOUNTANT_TOPIC_PREFIX": f"{self._prefix}.",
            "ACCOUNTANT_PARTITIONS": str(PARTITIONS),
            **self.broker.security.environment(user),
        }

    def environment(self, user: str, **more: str) -> dict[str, str]:
        """Return the environment of a process; an empty variable is left out."""
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("ACCOUNTANT_")}
        every = {**inherited, "COLUMNS": "120", **self.variables(user), **more}
        return {name: value for name, value in every.items() if value}

    def run(self, user: str, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
        """Run a command as a user, and wait for its end."""
        return commands.run(*words, env=self.environment(user, **more), text=True)

    @contextmanager
    def running(self, user: str, log: Path, *words: str, **more: str) -> Iterator[None]:
        """Run a command as a user for the length of a block, its output in a file."""
        environment = self.environment(user, **more)
        with log.open("wb") as out:
            process = commands.start(*words, env=environment, stdout=out, stderr=subprocess.STDOUT)
        try:
            yield
            process.terminate()
            assert process.wait(PATIENCE_S) == 0, log.read_text()
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()

    def settings(self, user: str, **more: object) -> Settings:
        """Return the settings with which this process is a user."""
        settings = {
            name.removeprefix("ACCOUNTANT_").lower(): value
            for name, value in self.variables(user).items()
        }
        return load(**{**settings, **more})

    def deployment(self, user: str, **more: object) -> Deployment:
        """Return the ledger as a user reaches it."""
        return deployment_of(self.settings(user, **more))

    def foreign(self, user: str, **more: Any) -> dict[str, Any]:
        """Return the configuration of another client, librdkafka, that is a user."""
        return {
            "bootstrap.servers": self.broker.bootstrap,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": user,
            "sasl.password": self.broker.security.passwords[user],
            "ssl.ca.location": str(self.broker.security.ca),
            "log_level": 0,
            **more,
        }
