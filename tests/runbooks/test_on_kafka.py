"""The runbooks' blocks as printed, on Kafka with SASL, TLS, ACLs and tokens.

They are not in tests/kafka: there each worker would set up the whole stack for its part of them.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from streams.testing import LocalBroker
from tests.kafka.secured_ledger import SecuredLedger
from tests.runbooks.expected import check
from tests.runbooks.page import RUN, Block
from tests.runbooks.stack import Stack, on_kafka

pytestmark = pytest.mark.kafka

HERE = [each for each in RUN if not each.needs_prometheus]


@pytest.fixture(scope="module")
def stack(secured_broker: LocalBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    ledger = SecuredLedger(secured_broker, "on-call")
    ledger.set_up()
    with on_kafka(tmp_path_factory.mktemp("runbooks"), ledger, HERE) as made:
        yield made


@pytest.mark.parametrize("block", HERE, ids=lambda each: each.name)
def test_a_block_of_the_runbooks_works_as_printed(stack: Stack, block: Block) -> None:
    check(block, stack.run(block))
