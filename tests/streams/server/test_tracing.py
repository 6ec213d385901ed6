"""OpenTelemetry: the spans of a real server, at a collector on this machine."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry import baggage, context
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import set_span_in_context

from streams.client import AsyncAccountant
from tests.patience import PATIENCE_S
from tests.streams.collector import Collector
from tests.streams.server.logged_server import LoggedServer, asking
from tests.streams.waiting import eventually

STARTS = ()

TRACE_ID, PARENT_ID = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with Collector() as made:
        yield made


@pytest.fixture(scope="module")
def server(
    collector: Collector, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LoggedServer]:
    settings = {**collector.settings(), "OTEL_RESOURCE_ATTRIBUTES": "service.name=budget"}
    with LoggedServer(tmp_path_factory.mktemp("traced"), settings) as made:
        made.open()
        yield made


def test_a_request_has_a_span_within_the_clients_trace(
    server: LoggedServer, collector: Collector
) -> None:
    response = server.post(
        "ana",
        "/requests",
        {**asking(), "purpose": "SECRET-BODY"},
        traceparent=f"00-{TRACE_ID}-{PARENT_ID}-01",
        X_Request_Id="span-1",
        Cookie="SECRET-COOKIE",
    )
    assert response.json()["outcome"] == "granted"
    eventually(lambda: any(each["trace"] == TRACE_ID for each in collector.spans()))
    (span,) = [each for each in collector.spans() if each["trace"] == TRACE_ID]
    assert (span["service"], span["name"]) == ("budget", "POST /requests")
    assert (span["parent"], span["failed"]) == (PARENT_ID, False)
    # The next hop belongs to the server's span.
    assert response.headers["traceparent"] == f"00-{TRACE_ID}-{span['span']}-01"
    assert span["attributes"] == {
        "http.request.method": "POST",
        "http.route": "/requests",
        "http.response.status_code": 200,
        "accountant.http_request_id": "span-1",
    }
    assert server.line_of("span-1")["trace_id"] == TRACE_ID


def test_a_span_names_no_person_dataset_token_or_body(
    server: LoggedServer, collector: Collector
) -> None:
    for path in ("/datasets/census/budgets/ana", "/datasets/census?a=SECRET-QUERY", "/nowhere"):
        headers = {**server.auth("ana"), "X-Request-Id": "span-last"}
        server.http.get(path, headers=headers)
        server.http.get(path)
    server.exchanged(b"SECRET-METHOD / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    eventually(lambda: "_OTHER" in {each["name"] for each in collector.spans()})
    sent = b"".join(collector.raw)
    assert b"/datasets/{dataset}/budgets/{analyst}" in sent
    tokens = [token.encode() for token in server.tokens.values()]
    for text in (b"census", b"ana", b"SECRET", b"/nowhere", b"0.01", *tokens):
        assert text not in sent.replace(b"{analyst}", b"")


def test_a_request_without_a_trace_begins_one(server: LoggedServer, collector: Collector) -> None:
    response = server.http.get("/me")
    _, trace_id, span_id, _ = response.headers["traceparent"].split("-")
    eventually(lambda: any(each["span"] == span_id for each in collector.spans()))
    (span,) = [each for each in collector.spans() if each["span"] == span_id]
    assert (span["trace"], span["parent"]) == (trace_id, "")
    assert span["attributes"]["http.response.status_code"] == 401


def test_a_trace_that_is_not_sampled_sends_no_span(
    server: LoggedServer, collector: Collector
) -> None:
    other = "5" * 32
    sent = server.http.get("/me", headers={"traceparent": f"00-{other}-{PARENT_ID}-00"})
    assert sent.headers["traceparent"].startswith(f"00-{other}-")
    assert sent.headers["traceparent"].endswith("-00")
    after = server.http.get("/me").headers["traceparent"].split("-")[2]
    eventually(lambda: any(each["span"] == after for each in collector.spans()))
    assert not [each for each in collector.spans() if each["trace"] == other]


async def test_the_client_passes_on_the_trace_of_its_program_and_no_baggage(
    server: LoggedServer, collector: Collector
) -> None:
    span = TracerProvider(shutdown_on_exit=False).get_tracer("program").start_span("work")
    token = context.attach(set_span_in_context(span, baggage.set_baggage("a", "SECRET-BAGGAGE")))
    try:
        async with AsyncAccountant(server.address, token=server.tokens["ana"]) as client:
            assert (await client.ask("census", "pure:0.01")).granted
    finally:
        context.detach(token)
    trace_id = f"{span.get_span_context().trace_id:032x}"
    eventually(lambda: any(each["trace"] == trace_id for each in collector.spans()))
    assert "SECRET-BAGGAGE" not in server.log.read_text()
    assert not [each for each in collector.raw if b"SECRET-BAGGAGE" in each]


async def test_the_client_sends_no_trace_outside_of_a_span(
    server: LoggedServer, collector: Collector
) -> None:
    count = len(server.lines())
    async with AsyncAccountant(server.address, token=server.tokens["ana"]) as client:
        assert (await client.ask("census", "pure:0.01")).granted
    eventually(lambda: any(each["path"] == "/requests" for each in server.lines()[count:]))
    trace_ids = [each["trace_id"] for each in server.lines()[count:]]
    eventually(lambda: {each["trace"] for each in collector.spans()} >= set(trace_ids))
    spans = [each for each in collector.spans() if each["trace"] in trace_ids]
    assert {each["parent"] for each in spans} == {""}


def test_a_collector_that_is_away_delays_no_request_and_no_stop(tmp_path: Path) -> None:
    settings = {
        "ACCOUNTANT_OPENTELEMETRY": "true",
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1",
    }
    with LoggedServer(tmp_path, settings) as server:
        server.open()
        assert server.post("ana", "/requests", asking()).json()["outcome"] == "granted"
        assert server._process is not None
        server._process.terminate()
        assert server._process.wait(PATIENCE_S) == 0


_IMPORTS = """
import sys
import streams.client, streams.serve, streams.worker.app
from streams.settings import Settings
from streams.telemetry.tracing import start_tracing
assert start_tracing(Settings()) is None
assert not [name for name in sys.modules if name.startswith("opentelemetry")]
"""


def test_nothing_of_opentelemetry_is_imported_while_it_is_off() -> None:
    done = subprocess.run([sys.executable, "-c", _IMPORTS], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
