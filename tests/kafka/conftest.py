"""The broker with TLS, users and an authorizer: one a session, for the few tests that need it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from streams.testing import LocalBroker
from tests.conftest import unlimited
from tests.kafka.secured_ledger import USERS, SecuredLedger


@pytest.fixture(scope="session")
def secured_broker() -> Iterator[LocalBroker]:
    with ExitStack() as stack:
        with unlimited():
            running = stack.enter_context(LocalBroker(users=USERS, short_lived=True))
        yield running


@pytest.fixture
def secured(secured_broker: LocalBroker, application: str) -> SecuredLedger:
    """A ledger of the test's own on that broker."""
    ledger = SecuredLedger(secured_broker, application)
    ledger.set_up()
    return ledger
