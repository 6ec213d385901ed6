"""The broker with TLS, users and an authorizer: one a session, for the few tests that need it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from streams.testing import LocalBroker
from tests.brokers.fixtures import session_broker
from tests.kafka.secured_ledger import USERS, SecuredLedger


@pytest.fixture(scope="session")
def secured_broker(request: pytest.FixtureRequest) -> Iterator[LocalBroker]:
    with session_broker(request.config, users=USERS) as running:
        yield running


@pytest.fixture
def secured(secured_broker: LocalBroker, application: str) -> SecuredLedger:
    """A ledger of the test's own on that broker."""
    ledger = SecuredLedger(secured_broker, application)
    ledger.set_up()
    return ledger
