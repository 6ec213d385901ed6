"""Questions to a ledger on Kafka: every reader knows the schema, also from the topic `state`."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from accountant.claims.text import parse_claim
from accountant.questions.noise import Noise
from accountant.questions.schema import Schema
from accountant.questions.statistics import CountQuestion
from accountant.records import decode_decision
from accountant.records.previews import PreviewRequest
from accountant.records.requests import Reserve
from streams.kafka.service.kafka_service import KafkaService
from streams.testing import LocalBroker
from tests.faults.ledger import Ledger, new_id, opening, working
from tests.patience import PATIENCE_S

SCHEMA: dict[str, Any] = {
    "source": {"kind": "parquet", "name": "census"},
    "columns": [{"type": "number", "name": "age", "lower": "0", "upper": "120"}],
    "neighbours": "add_remove",
}


def question(where: str) -> bytes:
    head = {"version": 1, "type": "request", "request_id": new_id(), "analyst": "ana"}
    asked = {"question": {"ask": "count", "where": where}, "noise": {"epsilon": "0.25"}}
    return json.dumps(head | {"dataset": "ds"} | asked).encode()


_SESSION = Noise(epsilon="0.125", law="laplace_reduction")


def _curator() -> bytes:
    body = {"version": 1, "type": "member", "request_id": new_id(), "dataset": "ds"}
    return json.dumps(body | {"by": "owner", "member": "cur", "roles": ["curator"]}).encode()


async def test_questions_are_decided_before_and_after_a_restart(
    broker: LocalBroker, application: str
) -> None:
    async with Ledger(broker.bootstrap, application, partitions=1) as ledger:
        record = json.loads(opening("ds", filter="basic", epsilon="1")) | {"schema": SCHEMA}
        for number in range(2):
            async with working(ledger):
                if number == 0:
                    await ledger.send(json.dumps(record).encode(), topic="admin")
                service = await KafkaService.start(ledger.deployment)
                try:
                    answer = await service.submit("requests", question("age > 65"), wait=PATIENCE_S)
                    wrong = await service.submit("requests", question("wages > 1"), wait=PATIENCE_S)
                    view = await service.dataset("ds")
                    asked = PreviewRequest(question=CountQuestion(), noise=Noise(epsilon="0.125"))
                    shown = await service.preview("ds", asked)
                    asked = PreviewRequest(
                        question=CountQuestion(), noise=_SESSION, reserve=Reserve("PT1H")
                    )
                    session = await service.preview("ds", asked)
                    if number == 0:
                        await service.submit("admin", _curator(), wait=PATIENCE_S)
                finally:
                    await service.close()
            assert answer.decision is not None
            assert wrong.decision is not None
            granted, refused = map(decode_decision, (answer.decision, wrong.decision))
            assert granted.derived is not None
            assert granted.derived.claim == parse_claim("pure:0.25")
            assert (granted.granted, refused.reason) == (True, "question_not_allowed")
            assert view is not None
            assert view.schema == msgspec.convert(SCHEMA, Schema)
            assert shown is not None
            assert shown.granted
            assert session is not None
            assert session.granted is (number == 1), "the curator was added in between"
