from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

from accountant.views.datasets import decode_dataset_view
from tests.streams.clock import TestClock
from tests.streams.gateway.local_server import LocalServer
from tests.streams.gateway.records import new_id, request

OPENS = ("README.md", "SECURITY.md", "docs/**")

ROOT: Final = Path(__file__).parents[3]


def test_datasets_are_listed_by_name_and_shown_singly(server: LocalServer) -> None:
    server.open("adult", filter="zcdp_tight", delta="1e-6")
    server.ask()
    listed = server.http.get("/datasets").json()
    assert [view["dataset"] for view in listed] == ["adult", "census"]
    view = decode_dataset_view(server.http.get("/datasets/census").content)
    assert view.left["epsilon"] == "0.9"
    assert view.outcomes == {"opened": 1, "granted": 1}
    assert 0.1 <= view.spent_ratio < 0.11


def test_an_unknown_dataset_gets_404_with_its_name(server: LocalServer) -> None:
    for path in ("/datasets/nowhere", "/datasets/nowhere/usage"):
        response = server.http.get(path)
        assert response.status_code == 404
        assert response.json()["value"] == "nowhere"


def test_usage_is_summed_by_analyst(server: LocalServer) -> None:
    server.ask()
    server.ask(analyst="ben")
    server.ask(analyst="ben", claim={"type": "pure", "epsilon": "2"})
    usage = server.http.get("/datasets/census/usage").json()
    assert [(view["analyst"], view["granted"], view["refused"]) for view in usage] == [
        ("ana", 1, 0),
        ("ben", 1, 1),
    ]
    assert usage[1]["spent"] == "0.1"


def test_an_unknown_request_id_gets_404_with_the_command_to_search(
    server: LocalServer, clock: TestClock
) -> None:
    request_id = new_id(clock)
    path = f"/datasets/census/requests/{request_id}"
    response = server.http.get(path, params={"analyst": "ana"})
    assert response.status_code == 404
    message = response.json()["message"]
    assert f"accountant log export --id {request_id}" in message
    assert "not decided yet; or it was invalid, expired or overloaded" in message
    assert "send the same bytes again" in message
    assert server.http.get(path).status_code == 400
    assert server.http.get("/datasets/census/requests/x?analyst=ana").status_code == 404


def test_a_decision_is_found_only_under_the_analyst_of_its_request(
    server: LocalServer, clock: TestClock
) -> None:
    asked = request(clock)
    server.post("/requests", asked)
    path = f"/datasets/census/requests/{asked['request_id']}"
    assert server.http.get(path, params={"analyst": "ana"}).status_code == 200
    assert server.http.get(path, params={"analyst": "ben"}).status_code == 404


def routes_named_by_pages() -> dict[tuple[str, str], str]:
    """Return each route that a page names, with its parameters, and the page."""
    found: dict[tuple[str, str], str] = {}
    for page in [ROOT / "README.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        text = page.read_text(encoding="utf-8")
        for method, path in re.findall(r"`(GET|POST|PUT|PATCH|DELETE) (/[^`\s]*)`", text):
            found.setdefault((method.lower(), path), page.name)
        # `curl` sends a body by POST.
        for call in re.findall(r"^ *curl (?:[^\n]*\\\n)*[^\n]*$", text, re.MULTILINE):
            method = "post" if re.search(r" (?:-d|--data\S*) ", f"{call} ") else "get"
            (path,) = re.findall(r"(?:http://127\.0\.0\.1:8000|\$ACCOUNTANT_URL)(/[^\s\"]*)", call)
            found.setdefault((method, path), page.name)
    return found


def is_described(document: dict[str, Any], method: str, path: str) -> bool:
    """Tell whether the OpenAPI document has a route, with the parameters of its query."""
    path, _, query = path.partition("?")
    operation = document["paths"].get(path, {}).get(method)
    if operation is None:
        return False
    known = {each["name"] for each in operation.get("parameters", []) if each["in"] == "query"}
    return {each.partition("=")[0] for each in query.split("&") if each} <= known


def test_the_openapi_document_names_every_route_and_body(server: LocalServer) -> None:
    document = server.http.get("/schema/openapi.json").json()
    named = routes_named_by_pages()
    assert len(named) > 25
    assert {("get", "/healthz"), ("post", "/requests"), ("post", "/requests/batch")} <= set(named)
    wrong = [
        f"{page}: {method} {path}"
        for (method, path), page in named.items()
        if not is_described(document, method, path)
    ]
    assert not wrong, "\n".join(wrong)
    assert not is_described(document, "get", "/requests")
    assert not is_described(document, "get", "/events?nothing=true")
    assert {
        "/requests",
        "/datasets",
        "/datasets/{dataset}",
        "/datasets/{dataset}/close",
        "/datasets/{dataset}/requests/{request_id}",
        "/events",
        "/healthz",
        "/readyz",
        "/metrics",
    } <= set(document["paths"])
    asked = document["paths"]["/requests"]["post"]["requestBody"]["content"]["application/json"]
    name = asked["schema"]["$ref"].rpartition("/")[2]
    assert "claim" in document["components"]["schemas"][name]["properties"]
    for path, body in (
        ("/datasets", "Open"),
        ("/datasets/{dataset}/amend", "Amend"),
        ("/datasets/{dataset}/close", "Close"),
        ("/datasets/{dataset}/pause", "Pause"),
        ("/datasets/{dataset}/resume", "Resume"),
    ):
        content = document["paths"][path]["post"]["requestBody"]["content"]
        assert content["application/json"]["schema"]["$ref"].rpartition("/")[2] == body
        assert body in document["components"]["schemas"]
    assert {"200", "202", "400", "409", "413", "422", "503"} <= set(
        document["paths"]["/requests"]["post"]["responses"]
    )


def test_a_missing_or_mistyped_query_parameter_is_named(
    server: LocalServer, clock: TestClock
) -> None:
    missing = server.http.get(f"/datasets/census/requests/{new_id(clock)}")
    wrong = server.http.get("/events?crossed=maybe")
    for response, name in (missing, "analyst"), (wrong, "crossed"):
        assert (response.status_code, response.json()["error"]) == (400, "invalid_query")
        assert name in response.json()["message"]
    assert wrong.json()["field"] == "crossed"
    assert "bool" in wrong.json()["rule"]


def test_every_route_of_the_document_refuses_an_unknown_query_parameter(
    shared_server: LocalServer,
) -> None:
    paths = shared_server.http.get("/schema/openapi.json").json()["paths"]
    own = {"/healthz", "/healthz/metrics", "/readyz", "/metrics"}
    routes = [(each, path) for path, item in paths.items() for each in item if path not in own]
    more = [("get", "/datasets/{dataset}/questions"), ("post", "/datasets/{dataset}/questions/end")]
    assert own < set(paths)
    for method, path in [*routes, *more]:
        named = path.replace("{dataset}", "census").replace("{request_id}", "none")
        body = {"content": b"{}", "headers": {"Content-Type": "application/json"}}
        sent = {} if method == "get" else body
        answer = shared_server.http.request(method, f"{named}?nwe=true&nwe=1", **sent)
        assert answer.status_code == 400, (method, path)
        problem = answer.json()
        assert problem["error"] == "invalid_query", (method, path)
        assert problem["field"] == "nwe"
        known = [
            each["name"]
            for each in paths.get(path, {}).get(method, {}).get("parameters", [])
            if each["in"] == "query"
        ]
        assert all(name in problem["rule"] for name in known), (method, path)
        assert ("did you mean new?" in problem["message"]) == ("new" in known), (method, path)


def test_probes_and_scrapers_may_send_parameters_of_their_own(shared_server: LocalServer) -> None:
    for path in ("/healthz", "/readyz", "/healthz/metrics", "/metrics"):
        assert shared_server.http.get(f"{path}?verbose").status_code == 200, path


def test_an_unknown_path_or_method_gets_an_error(server: LocalServer) -> None:
    assert server.http.get("/nothing").json()["error"] == "http_error"
    assert server.http.delete("/datasets").status_code == 405


def test_a_misspelt_dataset_gets_a_suggestion(server: LocalServer) -> None:
    one = f"requests/{new_id(server.clock)}?analyst=ana"
    paths = ("", "/usage", "/limits", f"/{one}")
    for path in (*(f"/datasets/cencus{path}" for path in paths), "/events?dataset=cencus"):
        answer = server.http.get(path)
        assert answer.status_code == 404
        assert answer.json()["message"].endswith("was never opened; did you mean census?")
    assert "did you mean" not in server.http.get("/datasets/xyzzy").json()["message"]
    # A dataset that exists has no such request: the id is wrong, not the name.
    missing = server.http.get(f"/datasets/census/{one}")
    assert (missing.status_code, missing.json()["error"]) == (404, "not_found")
    assert "of ana is remembered" in missing.json()["message"]
    assert "name the sender by ?analyst=NAME" in missing.json()["message"]
