"""The OpenAPI document of a server with authentication."""

from __future__ import annotations

import jsonschema_rs

from streams.gateway.contract.responses import PROBES
from tests.streams.auth.token_server import TokenServer
from tests.streams.gateway.local_server import LocalServer


def test_the_openapi_document_marks_operations_that_need_a_token(token_server: TokenServer) -> None:
    document = token_server.get("/schema/openapi.json", token_server.administrator).json()
    (scheme,) = document["components"]["securitySchemes"].values()
    assert (scheme["type"], scheme["scheme"]) == ("http", "bearer")
    for path, item in document["paths"].items():
        for operation in item.values():
            needs_token = operation["operationId"] not in PROBES
            result = {"401", "403", "503"} <= set(operation["responses"])
            assert result == needs_token, path
            assert operation["security"] == (
                [{"bearer": []}] if needs_token else [{}, {"bearer": []}]
            )


def test_responses_with_authentication_match_the_openapi_document(
    token_server: TokenServer,
) -> None:
    document = token_server.get("/schema/openapi.json", token_server.administrator).json()
    schema = {"$ref": "#/components/schemas/Problem", "components": document["components"]}
    problem = jsonschema_rs.validator_for(schema, validate_formats=True)
    answer = token_server.get("/datasets", None)
    assert answer.headers["content-type"] == "application/problem+json"
    assert problem.is_valid(answer.json())
    me = {"$ref": "#/components/schemas/Me", "components": document["components"]}
    shown = token_server.get("/me", token_server.administrator).json()
    assert jsonschema_rs.validator_for(me, validate_formats=True).is_valid(shown)


def test_without_authentication_the_openapi_document_has_no_security_scheme(
    shared_server: LocalServer,
) -> None:
    document = shared_server.http.get("/schema/openapi.json").json()
    assert "securitySchemes" not in document["components"]
    assert "security" not in document
    for item in document["paths"].values():
        for operation in item.values():
            assert "401" not in operation["responses"]
