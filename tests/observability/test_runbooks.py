"""Every block of docs/runbooks.md, as printed: on Kafka with SASL, TLS and tokens, and watched.

tests/runbooks and tests/kafka run those that need no Prometheus in every test run.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from streams.testing import LocalBroker
from tests.kafka.secured_ledger import SecuredLedger
from tests.observability.programs import Programs, Watch, until
from tests.runbooks.expected import check
from tests.runbooks.page import RUN, Block
from tests.runbooks.stack import Stack, on_kafka


@pytest.fixture(scope="module")
def watched(
    programs: Programs, secured_broker: LocalBroker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stack]:
    """A worker and a gateway, with a Prometheus that has the metrics token."""
    home = tmp_path_factory.mktemp("runbooks")
    (home / "watch").mkdir()
    ledger = SecuredLedger(secured_broker, "runbooks")
    ledger.set_up()
    with on_kafka(home, ledger, RUN) as stack:
        jobs: dict[str, str | list[str]] = {
            "accountant-worker": stack.worker.removeprefix("https://"),
            "accountant-gateway": stack.server.removeprefix("https://"),
        }
        secrets = {
            "metrics_token": home / "metrics.token",
            "ca": Path(stack.values["SSL_CERT_FILE"]),
        }
        with Watch(programs, home / "watch", jobs, interval=5, **secrets) as watch:
            recorded = "count(dataset:privacy_filter_burn:ratio5m)"
            until("every dataset recorded", lambda: watch.value(recorded) == len(RUN))
            values = {"PROMETHEUS": watch.prometheus, "ALERTMANAGER": watch.alertmanager}
            stack.values.update(values)
            yield stack


@pytest.mark.parametrize("block", RUN, ids=lambda each: each.name)
def test_a_block_of_the_runbooks_works_as_printed(
    watched: Stack, programs: Programs, block: Block
) -> None:
    path = os.pathsep.join([str(programs.where), watched.environment(block)["PATH"]])
    check(block, watched.run(block, PATH=path))
