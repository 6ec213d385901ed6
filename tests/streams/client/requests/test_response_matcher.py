"""The client compares a decision with its request: another's decision starts nothing."""

from __future__ import annotations

import asyncio
import contextlib
import http.server
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from accountant.records import NO_REQUEST, Decision, Source, decode_decision, encode
from accountant.records.http_bodies import served_decision
from accountant.records.inputs import CheckedInput
from accountant.records.outcomes import Outcome, Reason
from streams.client import (
    Accountant,
    AsyncAccountant,
    AsyncOwner,
    NotGranted,
    ResultMissing,
    Unanswered,
)
from streams.client.http.service import HttpService
from streams.embedded.service import EmbeddedService
from streams.service.ledger_service import Submission
from streams.settings import Settings
from tests.every_case import every_case
from tests.streams.clock import TestClock
from tests.streams.gateway.records import new_id, opening

Change = Callable[[dict[str, Any]], dict[str, Any]]
Answered = Callable[[Decision], Decision]

CALLS: Final[dict[str, Callable[[Any, str], Any]]] = {
    "ask": lambda led, i: led.ask("census", "pure:0.01", analyst="ana", request_id=i),
    "release": lambda led, i: led.release("census", "pure:0.01", _ran, analyst="ana", request_id=i),
    "submit": lambda led, i: led.submit(_body(i)),
    "open": lambda led, i: led.as_owner("owner", request_id=i).open(
        "new", _ONE, as_given=True, new=True
    ),
    "amend": lambda led, i: led.as_owner("owner", request_id=i).amend("census", horizon="P9D"),
    "pause": lambda led, i: led.as_owner("owner", request_id=i).pause("census"),
    "resume": lambda led, i: led.as_owner("owner", request_id=i).resume("census"),
    "set_member": lambda led, i: led.as_owner("owner", request_id=i).set_member(
        "census", "ana", roles=["analyst"]
    ),
    "remove_member": lambda led, i: led.as_owner("owner", request_id=i).remove_member(
        "census", "eve"
    ),
    "set_limit": lambda led, i: led.as_owner("owner", request_id=i).set_limit(
        "census", "analyst", "ana", part="0.5"
    ),
    # The last: it ends what the others need.
    "close": lambda led, i: led.as_owner("owner", request_id=i).close("census"),
}
REQUESTS: Final = {"ask", "release", "submit"}
_ONE: Final = {"filter": "basic", "epsilon": "1"}
runs: Final[list[int]] = []


def _ran() -> int:
    runs.append(1)
    return 7


def _body(request_id: str) -> bytes:
    claim = {"type": "pure", "epsilon": "0.01"}
    fields = {"version": 1, "type": "request", "request_id": request_id, "analyst": "ana"}
    rest = {"dataset": "census", "claim": claim, "unit": "person", "neighbours": "add_remove"}
    return b"\n " + encode({**fields, **rest}) + b" \r\n"


def _same(body: dict[str, Any]) -> dict[str, Any]:
    return body


def _other(**fields: Any) -> Change:
    return lambda body: {**body, **fields}


def _other_id(body: dict[str, Any]) -> dict[str, Any]:
    return {**body, "request_id": new_id(TestClock())}


CHANGES: Final[dict[str, Change]] = {
    "request_id": _other_id,
    "dataset": _other(dataset="other"),
    "analyst": _other(analyst="bob"),
    "via": _other(via="engine"),
    "claim": _other(claim={"type": "pure", "epsilon": "0.001"}),
    "purpose": _other(purpose="another"),
    "by": _other(by="olga"),
    "reason": _other(reason="another"),
}
OF_REQUESTS: Final = {"analyst", "via", "claim", "purpose"}
OF_BOTH: Final = {"request_id", "dataset"}


class MixedUp(EmbeddedService):
    """A ledger that answers with its decision on another body, or with half of a decision."""

    change: Change = staticmethod(_same)
    answer: Answered = staticmethod(lambda decision: decision)
    silent = False
    replayed: bytes | None = None

    def _changed(self, body: bytes) -> bytes:
        return encode(self.change(json.loads(body))) if self.change is not _same else body

    def decide_sync(
        self, source: Source, body: bytes, wait: float, *, checked: CheckedInput | None = None
    ) -> Decision | None:
        answer = self.submit_sync(source, body, wait).decision
        return None if answer is None else decode_decision(answer)

    def submit_sync(self, source: Source, body: bytes, wait: float) -> Submission:
        value = super().submit_sync(source, self._changed(body), 9).decision
        assert value is not None
        value = self.replayed or encode(self.answer(decode_decision(value)))
        return Submission(decision=None if self.silent else value, partition=0)

    async def submit(
        self, source: Source, body: bytes, *, wait: float, new: bool = False
    ) -> Submission:
        return await asyncio.to_thread(self.submit_sync, source, body, wait)


@contextlib.contextmanager
def http_stub(ledger: MixedUp) -> Iterator[str]:
    """Run an HTTP server whose ledger mixes up responses."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            source: Source = "requests" if self.path == "/requests" else "admin"
            decision = ledger.submit_sync(source, body, 9).decision
            self._send(200 if decision else 202, served_decision(decision) if decision else b"{}")

        def do_GET(self) -> None:
            path, _, analyst = self.path.partition("?analyst=")
            _, _, dataset, *rest = path.split("/")
            found = ledger.find_sync(dataset, analyst, rest[1]) if rest else None
            if found is None:
                problem = {"error": "unknown_dataset", "field": "dataset", "value": dataset}
                self._send(404, json.dumps(problem).encode())
            else:
                self._send(200, served_decision(found))

        def _send(self, status: int, content: bytes) -> None:
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def ledger(file: Path, clock: TestClock) -> Iterator[MixedUp]:
    runs.clear()
    made = MixedUp.open(file, Settings(), clock=clock)
    for name in ("census", "other"):
        made.submit_sync("admin", encode(opening(clock, name)), 9)
    yield made
    asyncio.run(made.close())


class Awaited:
    """An `AsyncAccountant`, or an `AsyncOwner`, whose calls wait."""

    def __init__(self, client: AsyncAccountant | AsyncOwner, runner: asyncio.Runner) -> None:
        self._client = client
        self._runner = runner

    def as_owner(self, by: str, **how: Any) -> Awaited:
        assert isinstance(self._client, AsyncAccountant)
        return Awaited(self._client.as_owner(by, **how), self._runner)

    def __getattr__(self, name: str) -> Any:
        async def call(*args: Any, **how: Any) -> Any:
            return await getattr(self._client, name)(*args, **how)

        return lambda *args, **how: self._runner.run(call(*args, **how))


@pytest.fixture(params=["http", "http, awaited", "in process", "service"])
def client(
    request: pytest.FixtureRequest,
    ledger: MixedUp,
    clock: TestClock,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Any]:
    """Return a client of each transport; `service` is an attached service, as on Kafka."""
    monkeypatch.setenv("ACCOUNTANT_ANSWERS", str(tmp_path / "private" / "answers.db"))
    absent = f"sqlite:///{tmp_path / 'absent.db'}"
    if request.param == "in process":
        with Accountant(absent, clock=clock) as made:
            made._connection.attach(ledger)
            yield made
    elif request.param == "service":
        with asyncio.Runner() as runner:
            made_async = AsyncAccountant(absent, clock=clock)
            made_async._connection.attach(ledger)
            yield Awaited(made_async, runner)
    elif request.param == "http":
        with http_stub(ledger) as url, Accountant(url, clock=clock) as made:
            yield made
    else:
        with http_stub(ledger) as url, asyncio.Runner() as runner:
            made_async = AsyncAccountant(url, clock=clock)
            made_async._connection.attach(HttpService(url))
            yield Awaited(made_async, runner)
            runner.run(_closed(made_async))


async def _closed(client: AsyncAccountant) -> None:
    await client.disconnect()


def _changes(kind: str) -> list[str]:
    mine = OF_REQUESTS if kind in REQUESTS else CHANGES.keys() - OF_REQUESTS - OF_BOTH
    return [name for name in CHANGES if name in mine | OF_BOTH]


@every_case("kind", CALLS)
def test_a_decision_on_another_request_is_rejected(
    client: Any, ledger: MixedUp, clock: TestClock, kind: str
) -> None:
    runs.clear()  # by the case before
    for name in _changes(kind):
        ledger.change = CHANGES[name]
        with pytest.raises(Unanswered, match=f"with another {name}:|another dataset"):
            CALLS[kind](client, new_id(clock))
    assert runs == []
    ledger.change = _same
    CALLS[kind](client, new_id(clock))  # the same call is answered by its own decision


@every_case("kind", CALLS)
def test_without_its_request_only_a_refusal_is_accepted(
    client: Any, ledger: MixedUp, clock: TestClock, kind: str
) -> None:
    def bare(decision: Decision) -> Decision:
        return msgspec.structs.replace(decision, request=NO_REQUEST)

    ledger.answer = bare
    with pytest.raises(Unanswered, match="without its request"):
        CALLS[kind](client, sent := new_id(clock))
    with pytest.raises(Unanswered, match="without its request"):
        CALLS[kind](client, sent)  # `repeated`
    ledger.answer = lambda decision: msgspec.structs.replace(
        bare(decision), outcome=Outcome.INVALID, reason=Reason.INTERNAL_ERROR, dataset=None
    )
    if kind == "release":
        with pytest.raises(NotGranted, match="internal_error"):
            CALLS[kind](client, new_id(clock))
    else:
        assert CALLS[kind](client, new_id(clock)).outcome == "invalid"
    assert runs == []


@every_case("kind", CALLS)
def test_a_decision_that_names_another_dataset_is_rejected(
    client: Any, ledger: MixedUp, clock: TestClock, kind: str
) -> None:
    ledger.answer = lambda decision: msgspec.structs.replace(decision, dataset="other")
    with pytest.raises(Unanswered, match="another dataset"):
        CALLS[kind](client, new_id(clock))
    assert runs == []


def test_a_grant_that_is_returned_twice_is_used_once(
    client: Any, ledger: MixedUp, clock: TestClock
) -> None:
    sent = new_id(clock)
    CALLS["ask"](client, sent)
    ledger.replayed = ledger.find_sync("census", "ana", sent)
    with pytest.raises(Unanswered, match="already used"):
        client.ask("census", "pure:0.01", analyst="ana", request_id=sent)
    with pytest.raises(Unanswered, match="already used"):
        client.release("census", "pure:0.01", _ran, analyst="ana", request_id=sent)
    assert runs == []


def test_a_second_grant_of_a_request_does_not_run_again_with_the_same_store(
    tmp_path: Path, clock: TestClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A ledger that was put back grants an id again: its mechanism has run."""
    monkeypatch.setenv("ACCOUNTANT_ANSWERS", str(tmp_path / "private" / "answers.db"))
    runs.clear()
    sent = new_id(clock)
    for name in ("first.db", "second.db"):
        with Accountant(f"sqlite:///{tmp_path / name}", clock=clock) as client:
            client.as_owner(f"owner-of-{name}").open("census", _ONE, as_given=True)
            if name == "first.db":
                assert CALLS["release"](client, sent) == 7
            else:
                with pytest.raises(ResultMissing, match="another decision"):
                    CALLS["release"](client, sent)
    assert runs == [1]


def test_a_lookup_response_is_compared_with_the_requested_id(
    client: Any, ledger: MixedUp, clock: TestClock
) -> None:
    sent = new_id(clock)
    client.ask("census", "pure:0.01", analyst="ana", request_id=sent)
    assert client.decision("census", "ana", sent).granted
    whose = {
        "dataset": ("other", "ana", new_id(clock)),
        "analyst": ("census", "bob", new_id(clock)),
        "id": ("census", "ana", new_id(clock)),
    }
    for dataset, analyst, request_id in whose.values():
        client.ask(dataset, "pure:0.01", analyst=analyst, request_id=request_id)
        found = ledger.find_sync(dataset, analyst, request_id)
        with _finding(ledger, found), pytest.raises(Unanswered, match="another request"):
            client.decision("census", "ana", sent)
    client.as_owner("owner", request_id=sent).amend("census", horizon="P9D")
    assert client.decision("census", "owner", sent).outcome == "amended"


def test_a_lookup_after_a_timeout_is_compared_with_the_body(
    client: Any, ledger: MixedUp, clock: TestClock
) -> None:
    sent = new_id(clock)
    client.ask("census", "pure:0.001", analyst="ana", request_id=sent)
    ledger.silent = True
    with pytest.raises(Unanswered):  # 202: it will be a conflict
        client.ask("census", "pure:0.01", analyst="ana", request_id=sent, wait=0.5)
    with pytest.raises(Unanswered, match="used for another request"):
        client.decision("census", "ana", sent)


def test_the_first_decision_of_an_own_repeat_matches_its_hash(
    client: Any, ledger: MixedUp, clock: TestClock
) -> None:
    def twice(body: dict[str, Any]) -> dict[str, Any]:
        EmbeddedService.submit_sync(ledger, "requests", encode(body), 9)  # its answer is lost
        return body

    ledger.change = twice
    assert client.ask("census", "pure:0.01", analyst="ana").granted
    other = new_id(clock)
    ledger.change = _same
    client.ask("census", "pure:0.001", analyst="bob", request_id=other)
    ledger.change = twice
    with _finding(ledger, ledger.find_sync("census", "bob", other)):
        with pytest.raises(Unanswered, match="another decision than the repeated one"):
            client.ask("census", "pure:0.01", analyst="ana")
        with pytest.raises(Unanswered, match="another decision than the repeated one"):
            client.release("census", "pure:0.01", _ran, analyst="ana")
    assert runs == []


@contextlib.contextmanager
def _finding(ledger: MixedUp, value: bytes | None) -> Iterator[None]:
    """Have every lookup find one decision."""
    assert value is not None
    ledger.find_sync = lambda *_: value  # type: ignore[method-assign]
    try:
        yield
    finally:
        del ledger.find_sync
