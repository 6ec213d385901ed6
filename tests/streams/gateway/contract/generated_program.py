"""A program of somebody who has the document and no other client: open, ask, list.

The package `server_client` is generated from the document, and is on the path.
"""

from __future__ import annotations

import json
import sys
from uuid import UUID

from server_client import Client
from server_client.api.datasets import list_datasets, open_dataset, show_dataset, show_usage
from server_client.api.requests import preview_request, submit_request
from server_client.models import (
    CountQuestion,
    CountQuestionAsk,
    DataSource,
    DataSourceKind,
    Decision,
    MechanismRequest,
    MechanismRequestNeighbours,
    MechanismRequestType,
    MechanismRequestVersion,
    Noise,
    NumberColumn,
    NumberColumnType,
    Open,
    OpenType,
    OpenVersion,
    Policy,
    PolicyFilter,
    PreviewRequest,
    PreviewRequestNeighbours,
    Problem,
    Pure,
    PureType,
    Schema,
    SchemaNeighbours,
)

url, opening_id, first_id, second_id, question_id = sys.argv[1:]
client = Client(base_url=url, raise_on_unexpected_status=True)


def ask(request_id: str, epsilon: str) -> Decision | Problem:
    body = MechanismRequest(
        type_=MechanismRequestType.REQUEST,
        version=MechanismRequestVersion.VALUE_1,
        request_id=UUID(request_id),
        analyst="ana",
        dataset="census",
        claim=Pure(type_=PureType.PURE, epsilon=epsilon),
        unit="person",
        neighbours=MechanismRequestNeighbours.ADD_REMOVE,
    )
    return submit_request.sync(client=client, body=body)


def count(request_id: str, where: str, epsilon: str) -> Decision | Problem:
    body = MechanismRequest(
        type_=MechanismRequestType.REQUEST,
        version=MechanismRequestVersion.VALUE_1,
        request_id=UUID(request_id),
        analyst="ana",
        dataset="census",
        question=CountQuestion(ask=CountQuestionAsk.COUNT, where=where),
        noise=Noise(epsilon=epsilon),
    )
    return submit_request.sync(client=client, body=body)


opened = open_dataset.sync(
    client=client,
    body=Open(
        type_=OpenType.OPEN,
        version=OpenVersion.VALUE_1,
        request_id=UUID(opening_id),
        dataset="census",
        by="owner",
        policy=Policy(filter_=PolicyFilter.BASIC, epsilon="1"),
        schema=Schema(
            source=DataSource(kind=DataSourceKind.CSV, name="people"),
            columns=[
                NumberColumn(type_=NumberColumnType.NUMBER, name="age", lower="0", upper="120")
            ],
            neighbours=SchemaNeighbours.ADD_REMOVE,
        ),
    ),
)
preview = preview_request.sync(
    "census",
    client=client,
    body=PreviewRequest(
        claim=Pure(type_=PureType.PURE, epsilon="0.4"),
        unit="person",
        neighbours=PreviewRequestNeighbours.ADD_REMOVE,
    ),
)
granted, repeated = ask(first_id, "0.4"), ask(first_id, "0.4")
counted = count(question_id, "age > 65", "0.1")
refused = ask(second_id, "0.7")
broken = ask(second_id, "-1")
(listed,) = list_datasets.sync(client=client)
(usage,) = show_usage.sync("census", client=client)
unknown = show_dataset.sync("nowhere", client=client)
print(
    json.dumps(
        {
            "opened": opened.outcome,
            "previewed": preview.granted,
            "granted": granted.granted,
            "cost": granted.cost.to_dict(),
            "repeated": [repeated.granted, repeated.first.granted],
            "counted": [counted.granted, counted.derived.to_dict()],
            "refused": [refused.granted, refused.reason, refused.fits],
            "broken": [type(broken).__name__, broken.field, broken.status],
            "listed": [listed.dataset, listed.left.to_dict()],
            "usage": [usage.analyst, usage.spent],
            "unknown": [type(unknown).__name__, unknown.title],
        }
    )
)
