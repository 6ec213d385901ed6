"""The OpenAPI document's route, and the body of each operation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Final, cast

from litestar import Request
from litestar.handlers import HTTPRouteHandler
from litestar.openapi import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin
from litestar.openapi.spec import OpenAPIMediaType, Operation, RequestBody, Schema

from accountant.records import encode
from streams.gateway.contract.fields import lines_of, reference
from streams.gateway.contract.responses import described
from streams.http.problems import JSON, NDJSON

_LINES: Final = "one MechanismRequest a line, each as JSON on one line"


@dataclass
class _Submission(Operation):
    takes: ClassVar[str]

    def __post_init__(self) -> None:
        schema = cast(Schema, reference(self.takes))
        content = {JSON: OpenAPIMediaType(schema=schema)}
        self.request_body = RequestBody(content=content, required=True)


def submission_of(component: str) -> type[Operation]:
    """Return the operation whose body is a component."""

    class RecordOperation(_Submission):
        takes = component

    return RecordOperation


@dataclass
class BatchOperation(Operation):
    """POST /requests/batch."""

    def __post_init__(self) -> None:
        schema = lines_of("MechanismRequest", _LINES) | {"minLength": 1}
        content = {NDJSON: OpenAPIMediaType(schema=cast(Schema, schema))}
        self.request_body = RequestBody(content=content, required=True)


class _Document(JsonRenderPlugin):
    """Serves the document, rendered once."""

    _made: bytes | None = None

    def __init__(self, *, path: str, authenticates: bool) -> None:
        super().__init__(path=path)
        self._authenticates = authenticates

    def render(self, request: Request[Any, Any, Any], openapi_schema: dict[str, Any]) -> bytes:
        if self._made is None:
            self._made = encode(described(openapi_schema, authenticates=self._authenticates))
        return self._made


def _operation_id(handler: HTTPRouteHandler, _method: object, _path: object) -> str:
    """Return the handler's name, which generated clients use for their functions."""
    return handler.handler_name


def openapi_config(version: str, *, authenticates: bool) -> OpenAPIConfig:
    """Return the configuration of the document at /schema/openapi.json."""
    # Only the document: pages that render it would load scripts from other sites.
    return OpenAPIConfig(
        title="Streaming privacy accountant",
        version=version,
        description="Decides differentially private requests, each exactly once.",
        path="/schema",
        render_plugins=[_Document(path="/openapi.json", authenticates=authenticates)],
        operation_id_creator=_operation_id,
        use_handler_docstrings=True,
    )
