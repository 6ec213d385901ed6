"""Fills the disk of a result store after a mechanism ran, and prints what became of it: JSON.

The disk is full in this process alone: no file may grow beyond a limit. The ledger's file is on it,
too, so each mechanism fills it, and the test makes room again.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import apsw

from streams.client import Accountant, AsyncAccountant, ResultStore

STARTS = ()

POLICY = {"filter": "basic", "epsilon": "1"}
LONG = "x" * 200_000
NOTHING = 1
"""A limit under which nothing is written, and so not even the mark of a result."""


def fill(limit: int) -> None:
    """Let no file of this process grow beyond a size."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))


def make_room() -> None:
    fill(resource.RLIM_INFINITY)


class Filling:
    """A mechanism that fills the disk when it runs."""

    def __init__(self, limit: int) -> None:
        self.runs = 0
        self._limit = limit

    def __call__(self) -> str:
        self.runs += 1
        fill(self._limit)
        return f"{self.runs} {LONG}"


class Failing(Filling):
    def __call__(self) -> str:
        super().__call__()
        if self.runs == 1:
            raise ZeroDivisionError
        make_room()
        return "2"


class Cases:
    """A ledger and its store in a directory; each method is one case."""

    def __init__(self, directory: Path) -> None:
        self.store = directory / "answers.db"
        self.url = f"sqlite:///{directory}/ledger.db"
        self.ledger = Accountant(self.url, analyst="ana")
        self.ledger.as_owner("owner").open("census", POLICY, as_given=True)
        self.ledger.release("census", "pure:0.001", lambda: 1, store=self.store)

    @property
    def room(self) -> int:
        """A limit under which the mark of a result is written, and a long result is not."""
        return self.store.stat().st_size

    def read(self, column: str, request_id: str) -> list[str]:
        """Return what the store has of a request, of the last one for ""."""
        with closing(apsw.Connection(str(self.store), flags=apsw.SQLITE_OPEN_READONLY)) as db:
            rows = db.execute(
                f"SELECT {column} FROM answers a JOIN requests r ON a.request = r.request"
                " WHERE r.request_id = ? OR ? = '' ORDER BY r.since DESC LIMIT 1",
                (request_id, request_id),
            ).fetchall()
        return [str(value) for (value,) in rows]

    def attempts(
        self, attempt: Callable[[], Any], request_id: str, mechanism: Filling
    ) -> dict[str, Any]:
        """Try on the full disk, read the store on it, and try twice after room was made."""
        done: dict[str, Any] = {"id": request_id}
        for name in ("full", "room", "again"):
            with watched(done, name):
                done[name] = attempt()[:2].strip()
            make_room()
            # None where a bug has lost the result: its own test says so.
            done[f"{name}: state"] = ", ".join(self.read("a.state", request_id)) or None
            if name == "full":
                request = ", ".join(self.read("r.request", request_id))
                with watched(done, "read"):
                    fill(NOTHING)
                    found = ResultStore(self.store).get_result(request) if request else None
                    done["read"] = None if found is None else len(found.answer) > len(LONG)
                make_room()
        return done | {"runs": mechanism.runs}

    def cost(self) -> str:
        return str(self.ledger.dataset("census").totals["epsilon"])

    def released(self, limit: int, kind: type[Filling] = Filling) -> dict[str, Any]:
        mechanism, request_id = kind(limit), self.ledger.new_request_id()
        given = {"store": self.store, "request_id": request_id, "wait": 0.2}
        return self.attempts(
            lambda: self.ledger.release("census", "pure:0.001", mechanism, **given),
            request_id,
            mechanism,
        )

    def awaited(self, limit: int) -> dict[str, Any]:
        mechanism, request_id = Filling(limit), self.ledger.new_request_id()

        async def attempt() -> str:
            given = {"store": self.store, "request_id": request_id, "wait": 0.2}
            async with AsyncAccountant(self.url, analyst="ana") as ledger:
                return await ledger.release("census", "pure:0.001", mechanism, **given)

        return self.attempts(lambda: asyncio.run(attempt()), request_id, mechanism)

    def named(self, limit: int) -> dict[str, Any]:
        mechanism = Filling(limit)
        given = {"store": self.store, "once": "name", "wait": 0.2}
        return self.attempts(
            lambda: self.ledger.release("census", "pure:0.001", mechanism, **given), "", mechanism
        )

    def still_full(self) -> dict[str, Any]:
        """Release twice under a name on a disk that takes not even a mark, and then with room."""
        done, mechanism = dict[str, Any](), Filling(NOTHING)
        for name in ("full", "still full", "room"):
            with watched(done, name):
                given = {"store": self.store, "once": "still full", "wait": 0.2}
                result = self.ledger.release("census", "pure:0.001", mechanism, **given)
                done[name] = result[:2].strip()
            if name == "still full":
                make_room()
        return done | {"runs": mechanism.runs}

    def left(self) -> dict[str, Any]:
        """Leave a session while the disk of its ledger and its store is full; then run it again."""
        done: dict[str, Any] = {}
        before, mechanism = Decimal(self.cost()), Filling(self.room)
        given = {"until": "PT1H", "once": "left", "store": self.store, "wait": 0.2}
        for name in ("full", "again"):
            with watched(done, name):
                with self.ledger.reserve("census", "pure:0.002", **given) as session:
                    found = session.run(mechanism)
                done[name] = found[:2].strip()
            make_room()
            self.ledger.close()  # a ledger whose disk was full is started again
            self.ledger = Accountant(self.url, analyst="ana")
        charged = Decimal(self.cost()) - before
        return done | {"runs": mechanism.runs, "charged": str(charged)}

    def session(self, claim: str, levels: list[str]) -> dict[str, Any]:
        """Run a session whose answer is not stored, leave it, and run it again by its name."""
        done: dict[str, Any] = {}
        before, mechanism = Decimal(self.cost()), Filling(self.room)
        for name in ("full", "again"):
            with watched(done, name):
                given = {"until": "PT1H", "once": claim, "store": self.store}
                with self.ledger.reserve("census", claim, **given) as session:
                    try:
                        if levels:
                            coarse, fine = levels
                            session.run(
                                lambda: lambda level: "0" if level == "4000" else mechanism()
                            )
                            done[name] = session.show(coarse)
                            done[name] = session.show(fine)[:2].strip()
                        else:
                            done[name] = session.run(mechanism)[:2].strip()
                    finally:
                        make_room()
        charged = Decimal(self.cost()) - before
        return done | {"runs": mechanism.runs, "charged": str(charged)}


@contextmanager
def watched(done: dict[str, Any], name: str) -> Iterator[None]:
    """Note the warnings and the error of an attempt."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            yield
        except Exception as error:
            done[name] = f"{type(error).__name__}: {error}"
            done[f"{name}: notes"] = getattr(error, "__notes__", [])
    done[f"{name}: warnings"] = [str(each.message) for each in caught]


CASES: dict[str, Callable[[Cases], dict[str, Any]]] = {
    "long": lambda cases: cases.released(cases.room),
    "long, awaited": lambda cases: cases.awaited(cases.room),
    "long, named": lambda cases: cases.named(cases.room),
    "nothing": lambda cases: cases.released(NOTHING),
    "nothing, awaited": lambda cases: cases.awaited(NOTHING),
    "still full": lambda cases: cases.still_full(),
    "failed": lambda cases: cases.released(NOTHING, Failing),
    "session": lambda cases: cases.session("pure:0.002", []),
    "session that is left": lambda cases: cases.left(),
    "session of levels": lambda cases: cases.session(
        "ex_post:epsilon=0.001,sensitivity=1,first=4000,least=1000", ["4000", "2000"]
    ),
}


def main() -> None:
    """Print what became of each case; each has a ledger of its own, which a full disk may end.

    The ledgers are in the directory of the first argument.
    """
    directory, found = Path(sys.argv[1]), {}
    for number, (name, case) in enumerate(CASES.items()):
        own = directory / str(number)
        own.mkdir()
        found[name] = case(Cases(own))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
