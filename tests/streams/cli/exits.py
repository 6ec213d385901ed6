"""Leaves commands and calls by each exit, in this one process, and prints what they say: JSON.

A proxy stands before a real server. It lets a request reach the server, or not, and then ends the
command as its exit says. One process runs the whole table, since a signal, or a lost stream, must
not reach pytest.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TextIO
from urllib.parse import urlsplit

from streams.cli.printing.safe_streams import replace_streams
from streams.cli.root import command
from streams.client import Accountant, Owner
from streams.clock import SystemClock
from streams.settings import Settings
from streams.telemetry import logs
from tests.examples_of_records import CALLS as EXAMPLES_OF_CALLS
from tests.examples_of_records import COMMANDS as EXAMPLES_OF_COMMANDS
from tests.examples_of_records import Example
from tests.patience import PATIENCE_S
from tests.streams.gateway.asking import SCHEMA, data_settings
from tests.streams.gateway.local_server import LocalServer

STARTS = ()

PROBLEM = "application/problem+json"
STATUSES = (400, 403, 404, 409, 422, 429, 500, 503)
SIGNALS = ("SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM", "SIGUSR1", "SIGXCPU")
FEW = ("status 503", "full disk", "SIGTERM")
"""Of these every command leaves by one, where not all exits are tried."""
REPEATED = (*FEW, "status 503 before", "status 503 on the next read")
"""The exits after which the command is repeated with the id that it named."""
LATER = ("status 503 on the next read", "SIGTERM on the next read")
"""What happens after the decision was read, where something is asked after it."""
HELD = "held"
"""The response is held until the test lets it go on."""
LATER_OF = frozenset(("ask", "ask, a question", "ask --json, a question"))
EXITS = (
    *FEW,
    *(f"status {status}" for status in STATUSES if status != 503),
    *("problem 401", "problem 403", "problem 422", "problem 503"),
    *("garbage", "empty", "a page", "hung up", "closed pipe"),
    *(name for name in SIGNALS if name not in FEW),
    *("SIGINT before", "SIGTERM before", "status 503 before"),
)
OF_THE_CALL = (*(f"status {n}" for n in STATUSES), "problem 401", "garbage", "hung up")
OF_ASK = tuple(each for each in EXITS if each in FEW or each not in OF_THE_CALL)
"""The exits of `ask` by day. Its call leaves by the others, and a command has its call's errors."""
OWN = ("--by", "olga")
ASKING = ("--analyst", "ana")
POLICY = {"epsilon": "100", "delta": "1e-6"}


def _line(example: Example) -> tuple[str, ...]:
    """Return the command line of an example; it may close its dataset, unless it has a grant."""
    dataset = "census" if "GRANT" in example.words else "idle"
    if example.command.startswith(("approval", "more")):
        dataset = "plans"
    new = ("--new",) if example.kind == "open" else ()
    words = example.line(dataset, new="NEW", grant="GRANT")
    return *example.command.split(), *words, *new, *(OWN if example.is_owners else ())


COMMANDS: dict[str, tuple[str, ...]] = {
    "ask": ("ask", "census", "pure:0.001", *ASKING),
    "ask --json": ("ask", "census", "pure:0.001", *ASKING, "--json"),
    "ask, refused": ("ask", "census", "pure:90", *ASKING),
    "ask, a question": ("ask", "survey", "count", "--epsilon", "0.01", *ASKING),
    "ask --json, a question": ("ask", "survey", "count", "--epsilon", "0.01", *ASKING, "--json"),
    **{name: _line(example) for name, example in EXAMPLES_OF_COMMANDS.items() if name != "ask"},
}
"""The commands that send one request. GRANT is a reservation's first digits, or those of
a request that waits; NEW is a new name."""
MANY = {
    "ask-many": ("ask-many", "requests.jsonl"),
    "member sync": ("member", "sync", "census", "members.json", *OWN),
}


def _with_grant(ledger: Accountant, _: Table) -> object:
    with ledger.grant("census", "pure:0.001"):
        return None


def _in_session(ledger: Accountant, table: Table) -> object:
    named = {"until": "PT1H", "once": f"session {table.number}"}
    with ledger.reserve("census", "pure:0.0001", **named) as session:
        return session.run(lambda: 1)


def _submit(ledger: Accountant, _: Table) -> object:
    fields = {"version": 1, "type": "request", "request_id": ledger.new_request_id()}
    fields |= {"analyst": "ana", "dataset": "census", "unit": "person"}
    fields |= {"claim": {"type": "pure", "epsilon": "0.001"}, "neighbours": "add_remove"}
    return ledger.submit(json.dumps({**fields, "purpose": ""}).encode())


def olga(ledger: Accountant) -> Owner:
    return ledger.as_owner("olga", reason="why", **SHORT)


ONE = ("census", "pure:0.001")
SHORT: dict[str, Any] = {"wait": 0.2}
CALLS: dict[str, Callable[[Accountant, Table], object]] = {
    "ask": lambda ledger, _: ledger.ask(*ONE, **SHORT),
    "ask_many": lambda ledger, _: ledger.ask_many(
        [{"dataset": "census", "claim": "pure:0.001"}] * 3, **SHORT
    ),
    "submit": _submit,
    "grant": _with_grant,
    "release": lambda ledger, table: ledger.release(
        *ONE, lambda: 1, purpose=f"{table.number}", **SHORT
    ),
    "reserve": _in_session,
    **{
        name: lambda ledger, _, example=example: example.send(olga(ledger), "census")
        for name, example in EXAMPLES_OF_CALLS.items()
    },
    "open": lambda ledger, table: olga(ledger).open(f"n-{table.number}", POLICY, new=True),
    "answer": lambda ledger, table: ledger.answer(
        "survey", "count", epsilon="0.01", purpose=f"{table.number}", **SHORT
    ),
    "count": lambda ledger, table: ledger.count(
        "survey", epsilon="0.01", purpose=f"{table.number}", **SHORT
    ),
}
"""The calls that send a request."""
OWN_CALLS = CALLS.keys() - EXAMPLES_OF_CALLS.keys()
"""Those that are interrupted by day, too: the owner's others send as `open` does."""


class Proxy:
    """Forwards every call to a server, but for what an exit does to the one that it is for.

    Attributes:
        exit: the name of the exit; "" forwards everything.
        is_held, goes_on: a response is held; it may go on.
        posted: the bodies that were sent to be recorded.
    """

    def __init__(self, upstream: str) -> None:
        self.exit = ""
        self.posted: list[bytes] = []
        self.is_held, self.goes_on = threading.Event(), threading.Event()
        self._was_posted = False
        proxy, server = self, urlsplit(upstream).netloc

        class Handler(BaseHTTPRequestHandler):
            def _forward(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                records = self.command == "POST" and not self.path.endswith("/preview")
                if records:
                    proxy.posted += body.split(b"\n")
                found: tuple[int, str, bytes] | None = (503, "text/plain", b"")
                place = None
                if not (records and proxy.exit.endswith(" before")):
                    connection = HTTPConnection(server, timeout=PATIENCE_S)
                    given = {"content-type": self.headers.get("content-type", "")}
                    connection.request(self.command, self.path, body, given)
                    answer = connection.getresponse()
                    found = answer.status, answer.getheader("content-type", ""), answer.read()
                    place = answer.getheader("content-location")
                    connection.close()
                if records or (proxy.exit in LATER and proxy._was_posted):
                    found = proxy._leave(found, records=records)
                if found is None:
                    self.close_connection = True
                    return
                status, kind, content = found
                self.send_response(status)
                self.send_header("content-type", kind)
                if place is not None:
                    self.send_header("content-location", place)
                if status != 204:
                    self.send_header("content-length", str(len(content)))
                self.end_headers()
                with suppress(OSError):  # the client was interrupted
                    self.wfile.write(content)

            do_GET = do_POST = _forward  # noqa: N815 - the names that http.server calls

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def leave_by(self, exit_: str) -> None:
        """Use an exit for the next command."""
        self.exit, self._was_posted = exit_, False
        self.posted.clear()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _leave(
        self, found: tuple[int, str, bytes], *, records: bool
    ) -> tuple[int, str, bytes] | None:
        """Return what becomes of a response, after a signal if the exit is one."""
        if self.exit == HELD:
            self.is_held.set()
            assert self.goes_on.wait(PATIENCE_S)
            return found
        kind, _, rest = self.exit.partition(" ")
        self._was_posted = True
        if records and self.exit in LATER:
            return found
        if kind.startswith("SIG"):
            os.kill(os.getpid(), getattr(signal, kind))
            time.sleep(0.2)  # the main thread is interrupted before the response arrives
            return found
        if kind == "status":
            return int(rest.split()[0]), "text/html", b"<h1>no</h1>"
        if kind == "problem":
            problem = {"status": int(rest), "error": "invalid_field", "message": "no"}
            named = {"field": "claim", "rule": "must fit", "value": ""} if rest == "422" else {}
            return int(rest), PROBLEM, json.dumps(problem | named).encode()
        return {
            "garbage": (200, "application/json", found[2][:-20]),
            "empty": (200, "application/json", b""),
            "a page": (200, "text/html", b"<html>ok</html>"),
            "hung up": None,
        }.get(self.exit, found)


class Table:
    """A server with some datasets, and a proxy before it; each run is one command."""

    def __init__(self, directory: Path) -> None:
        os.chdir(directory)
        for name in [name for name in os.environ if name.startswith("ACCOUNTANT_")]:
            del os.environ[name]
        os.environ["ACCOUNTANT_ANSWERS"] = str(directory / "answers.db")
        settings = Settings(port=0, **data_settings(directory))
        self.server = LocalServer(directory / "ledger.db", SystemClock(), settings)
        self.proxy = Proxy(self.server.url)
        self.direct = Accountant(self.server.url, analyst="ana")
        self._number = 0
        for name in ("census", "idle", "survey"):
            schema = SCHEMA if name == "survey" else None
            policy = {**POLICY, "access": "anyone"}
            self.direct.as_owner("olga").open(name, policy, schema=schema, new=True)
        waits = {"epsilon": "100", "filter": "basic", "access": "anyone", "approve_above": "1e-6"}
        self.direct.as_owner("olga").open("plans", waits, new=True)
        self.direct.as_owner("olga").set_limit("census", "analyst", "ana", part="0.9")

    def close(self) -> None:
        self.direct.close()
        self.proxy.close()
        self.server.close()

    def arguments(self, command_: tuple[str, ...]) -> list[str]:
        """Return a command line with a new reservation, and a new name."""
        self._number += 1
        words = {"NEW": f"new-{self._number}-{self._number:b}"}
        if command_[0] == "approval":
            words["GRANT"] = self.direct.ask("plans", "pure:0.001").hash[7:23]
        elif command_[:2] == ("more", "decline"):
            person = self.direct.as_owner(f"person-{self._number}", reason="why")
            asked = person.ask_for_more("plans", "access", role="auditor")
            words[command_[3]] = str(asked.sequence)
        elif "GRANT" in command_:
            words["GRANT"] = self._reserved()
            if command_[1] == "settle":
                body = {"version": 1, "type": "begin", "request_id": self.direct.new_request_id()}
                body |= {"analyst": "ana", "dataset": "census", "grant": words["GRANT"]}
                self.direct.submit(json.dumps(body, separators=(",", ":")).encode())
            words["GRANT"] = words["GRANT"][7:23]
        return [words.get(word, word) for word in command_]

    def _reserved(self) -> str:
        session = self.direct.reserve(
            "census", "pure:0.0001", until="PT1H", store=f"{self._number}.db"
        )
        session.__enter__()
        return session.grant  # it stays open

    def run(self, arguments: list[str], exit_: str) -> dict[str, Any]:
        """Run a command as a process would, and return its code and output."""
        self.proxy.leave_by(exit_)
        kept = sys.stdout, sys.stderr
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            with _lost(exit_) as lost:
                sys.stdout, sys.stderr = lost or out, err
                replace_streams()
                try:
                    words = [*arguments, "--url", self.proxy.url, "--wait", "0.3"]
                    command()(words, prog_name="accountant")
                    code: Any = 0
                except SystemExit as end:
                    code = end.code
                except BaseException as error:
                    code = repr(error)
                finally:
                    sys.stdout.flush()
                    sys.stderr.flush()
                    sys.stdout, sys.stderr = kept
            out.seek(0)
            err.seek(0)
            return {"code": code, "out": out.read(), "err": err.read()}

    def commands(self, *, every: bool) -> Iterator[dict[str, Any]]:
        """Yield what each command says at each exit, and what it says when it is repeated."""
        for place, (name, words) in enumerate(COMMANDS.items()):
            by_day = OF_ASK if name == "ask" else (FEW[place % len(FEW)],)
            exits = EXITS if every else by_day
            for exit_ in (*exits, *LATER) if name in LATER_OF else exits:
                arguments = self.arguments(words)
                first = self.run(arguments, exit_)
                case = {"command": name, "exit": exit_, "sent": self.sent, **first}
                if case["sent"] and exit_ in REPEATED:
                    case["again"] = self.run([*arguments, "--id", case["sent"][0]], "")
                yield case

    def batches(self) -> Iterator[dict[str, Any]]:
        """Yield what a command of many requests says at each exit."""
        for name, words in MANY.items():
            for exit_ in (*FEW, "garbage", "closed pipe"):
                self._number += 1
                ids = [self.direct.new_request_id() for _ in range(3)]
                lines = [
                    {
                        "dataset": "census",
                        "claim": "pure:0.001",
                        "analyst": "ana",
                        "request_id": id_,
                    }
                    for id_ in ids
                ]
                Path("requests.jsonl").write_text("\n".join(map(json.dumps, lines)))
                members = [{"member": "olga", "roles": ["owner"]}]
                members.append({"member": f"m{self._number}", "roles": ["auditor"]})
                Path("members.json").write_text(json.dumps(members))
                done = self.run(list(words), exit_)
                yield {"command": name, "exit": exit_, "sent": self.sent, **done}

    def calls(self, *, every: bool) -> Iterator[dict[str, Any]]:
        """Yield what the error of each call says at each exit."""
        exits = [each for each in EXITS if not each.startswith(("SIG", "full", "closed"))]
        with Accountant(self.proxy.url, analyst="ana") as ledger:
            ledger.cost("census", "pure:0.001")
            for place, (name, call) in enumerate(CALLS.items()):
                few = ["problem 401" if place % 2 else "status 503"]
                shown = OF_THE_CALL if name == "ask" else few
                shown = exits if every else shown
                later = LATER if name in {"count", "answer"} else ()
                interrupted = ("SIGINT",) if every or name in OWN_CALLS else ()
                for exit_ in (*shown, *interrupted, *later):
                    self._number += 1
                    kind = exit_.replace("SIGTERM", "SIGINT")
                    self.proxy.leave_by(kind)
                    found: Any = None
                    try:
                        found = call(ledger, self)
                    except BaseException as error:
                        found = error
                    yield {"call": name, "exit": kind, **_named(found), "sent": self.sent}

    @property
    def sent(self) -> list[str]:
        """The ids that the last command or call has sent."""
        return sorted({json.loads(body)["request_id"] for body in self.proxy.posted})

    @property
    def number(self) -> int:
        """A number that no other case has."""
        return self._number


def _named(found: Any) -> dict[str, Any]:
    """Return what an error, or each error of a batch, names."""
    errors = found if isinstance(found, list) else [found]
    ids: list[str] = []
    for error in errors:
        ids += getattr(error, "request_ids", None) or [getattr(error, "request_id", None)]
    notes = [note for each in errors for note in getattr(each, "__notes__", ())]
    return {"kinds": [type(each).__name__ for each in errors], "ids": ids, "notes": notes}


@contextmanager
def _lost(exit_: str) -> Iterator[TextIO | None]:
    """Give the stream of an exit that loses output."""
    if exit_ == "full disk":
        yield os.fdopen(os.open("/dev/full", os.O_WRONLY), "w")
    elif exit_ == "closed pipe":
        reader, writer = os.pipe()
        os.close(reader)
        yield os.fdopen(writer, "w")
    else:
        yield None


def main() -> None:
    """Print a line for each case in the directory of the first argument.

    With `every` as the second one, each command leaves by each exit.
    """
    every = "every" in sys.argv[2:]
    # Once is enough: each time takes a fifth of a command.
    logs.configure_command()
    logs.configure_command = lambda: None
    table = Table(Path(sys.argv[1]))
    try:
        cases = (*table.commands(every=every), *table.batches(), *table.calls(every=every))
        for case in cases:
            print(json.dumps(case))
    finally:
        table.close()


if __name__ == "__main__":
    main()
