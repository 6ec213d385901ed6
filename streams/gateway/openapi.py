"""The OpenAPI document: bodies described by the wire types themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final, cast

import msgspec
from litestar import Litestar
from litestar.openapi import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin
from litestar.openapi.spec import (
    OpenAPIMediaType,
    OpenAPIResponse,
    Operation,
    RequestBody,
    Schema,
)

from accountant.advice.preview import Preview
from accountant.records import Amend, Close, Decision, MechanismRequest, Open
from accountant.records.previews import PreviewRequest
from accountant.views.datasets import DatasetView
from accountant.views.usage import UsageView
from streams.gateway.problems import JSON, Problem

_TYPES: Final = (
    *(MechanismRequest, Open, Amend, Close, PreviewRequest),
    *(Decision, Preview, DatasetView, UsageView, Problem),
)
_REFERENCES, _COMPONENTS = msgspec.json.schema_components(
    [type_ for type_ in _TYPES if type_ is not Decision and type_ is not Problem],
    ref_template="#/components/schemas/{name}",
)


def _body(name: str) -> RequestBody:
    schema = cast(Schema, {"$ref": f"#/components/schemas/{name}"})
    return RequestBody(content={JSON: OpenAPIMediaType(schema=schema)}, required=True)


_RESPONSES: Final = {
    "200": "the decision: granted, refused, repeated, expired, opened, amended or closed",
    "202": "not decided in time: look at Location, or send the same bytes again",
    "400": "the body is not JSON; nothing was appended",
    "409": "the id was used for another body; the decision says for what outcome",
    "413": "the body is too long",
    "415": "the body is not declared as plain JSON",
    "422": "a field breaks its rule",
    "503": "nothing can be decided now: retry with the same bytes after Retry-After seconds",
}


@dataclass
class _Submission(Operation):
    takes: ClassVar[str]

    def __post_init__(self) -> None:
        self.request_body = _body(self.takes)
        self.responses = {
            status: OpenAPIResponse(description=what) for status, what in _RESPONSES.items()
        }


class RequestOperation(_Submission):
    """POST /requests."""

    takes = "MechanismRequest"


class OpenOperation(_Submission):
    """POST /datasets."""

    takes = "Open"


class AmendOperation(_Submission):
    """POST /datasets/{dataset}/amend."""

    takes = "Amend"


class CloseOperation(_Submission):
    """POST /datasets/{dataset}/close."""

    takes = "Close"


@dataclass
class PreviewOperation(Operation):
    """POST /datasets/{dataset}/preview."""

    def __post_init__(self) -> None:
        self.request_body = _body("PreviewRequest")
        whys = {status: _RESPONSES[status] for status in ("413", "415", "422")}
        whys |= {
            "400": "the body is not JSON",
            "404": "the dataset was never opened",
            "503": "nothing can be read now: retry after Retry-After seconds",
        }
        self.responses = {
            status: OpenAPIResponse(description=what) for status, what in whys.items()
        }
        told = cast(Schema, {"$ref": "#/components/schemas/Preview"})
        self.responses["200"] = OpenAPIResponse(
            description="what the request would be told", content={JSON: OpenAPIMediaType(told)}
        )


def openapi_config(version: str) -> OpenAPIConfig:
    """Return the configuration of the document at /schema/openapi.json."""
    # Pages that render it load scripts from elsewhere, so there is only the document.
    return OpenAPIConfig(
        title="Streaming privacy accountant",
        version=version,
        description="Decides differentially private requests, each exactly once.",
        path="/schema",
        render_plugins=[JsonRenderPlugin(path="/openapi.json")],
    )


def describe_bodies(app: Litestar) -> None:
    """Add the wire types to the document, which is otherwise made from the handlers."""
    components = app.openapi_schema.components
    components.schemas.update(cast(dict[str, Schema], _COMPONENTS))
