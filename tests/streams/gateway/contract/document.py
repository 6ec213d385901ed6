"""The OpenAPI document of a server, and validators of its schemas."""

from __future__ import annotations

from typing import Any

import jsonschema_rs

from tests.streams.gateway.local_server import LocalServer


def document(server: LocalServer) -> dict[str, Any]:
    found: dict[str, Any] = server.http.get("/schema/openapi.json").json()
    return found


def schema_of(whole: dict[str, Any], schema: dict[str, Any]) -> jsonschema_rs.Validator:
    return jsonschema_rs.validator_for(
        {**schema, "components": whole["components"]}, validate_formats=True
    )
