"""Names with every permitted separator, on Kafka: keys, rows, alerts and lookups."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Final

from streams.kafka.service.kafka_service import KafkaService
from streams.testing import LocalBroker
from tests.faults import oracle
from tests.faults.ledger import Ledger, request
from tests.kafka.test_alerts import all_published, process
from tests.patience import PATIENCE_S

NAMES: Final = ["a", *[f"a{each}a" for each in "._-@:"], "a:a:a", "a:a@a", "ana@example.org"]
BASIC: Final = {"filter": "basic", "epsilon": "1"}


async def wait_for_decision(
    service: KafkaService, dataset: str, analyst: str, request_id: str
) -> bytes:
    """Return a decision once the service, which lags a moment, has it."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            value = await service.find(dataset, analyst, request_id)
            if value is not None:
                return value
            await asyncio.sleep(0.05)


async def test_similar_names_are_distinct_and_survive_a_restart(
    broker: LocalBroker, application: str, tmp_path: Path
) -> None:
    bodies = [
        request(dataset, analyst=analyst, epsilon="0.06") for dataset in NAMES for analyst in NAMES
    ]
    async with Ledger(broker.bootstrap, application) as ledger:
        with process(ledger, tmp_path, "w1"):
            await ledger.open(*NAMES, **BASIC)
            await ledger.settle()
            service = await KafkaService.start(ledger.deployment)
            try:
                await ledger.send_all(bodies)
                published = await all_published(ledger, least=len(NAMES))
                for body in bodies:
                    asked = json.loads(body)
                    ids = (asked["dataset"], asked["analyst"], asked["request_id"])
                    decision = json.loads(await wait_for_decision(service, *ids))
                    assert decision["outcome"] == "granted"
                    assert decision["request"] == asked
                for name in NAMES:
                    usage = await service.usage(name)
                    assert [used.analyst for used in usage] == sorted(NAMES)
                    assert {used.spent for used in usage} == {"0.06"}
            finally:
                await service.close()
        assert sorted(published) == sorted(f"{name}/1/0.5" for name in NAMES)
        with process(ledger, tmp_path, "w1"):  # which refolds from rows by key, and from the log
            await ledger.send_all(bodies)
            await ledger.settle()
        outcomes = [
            json.loads(record.value or b"")["outcome"]
            for partition in oracle.read(ledger.bootstrap, ledger.topic("decisions"), 4)
            for record in partition
        ]
    assert outcomes.count("granted") == outcomes.count("repeated") == len(bodies)
