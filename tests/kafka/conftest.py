"""The broker with TLS, users and an authorizer: one a session, for the few tests that need it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.brokers.fixtures import session_broker

if TYPE_CHECKING:
    from streams.testing import LocalBroker
    from tests.kafka.secured_ledger import SecuredLedger


@pytest.fixture(scope="session")
def secured_broker(request: pytest.FixtureRequest) -> Iterator[LocalBroker]:
    from tests.kafka.secured_ledger import USERS

    with session_broker(request.config, users=USERS) as running:
        yield running


@pytest.fixture
def secured(secured_broker: LocalBroker, application: str) -> SecuredLedger:
    """A ledger of the test's own on that broker."""
    from tests.kafka.secured_ledger import SecuredLedger

    ledger = SecuredLedger(secured_broker, application)
    ledger.set_up()
    return ledger
