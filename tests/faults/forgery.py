"""A sound log that uses every rule, and a forger that edits it and rebuilds the chain."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from tests.faults.fed_ledger import FedLedger
from tests.faults.oracle import Contents, InputAsSent
from tests.faults.oracle.texts import at_text
from tests.streams.bodies import request_id

Decision = dict[str, Any]
WINDOW = 3_600_000
SKEW = 300_000
_NOTHING = "sha256:" + "0" * 64
_BASIC = {"filter": "basic", "odometers": [{"type": "basic"}]}


class SoundLog(NamedTuple):
    """A ledger's inputs and its log.

    Attributes:
        places: the number of each decision of the history, by its name.
    """

    inputs: dict[str, list[InputAsSent]]
    found: Contents
    places: dict[str, int]


class History:
    """Sends one input after another, each under a name."""

    def __init__(self, ledger: FedLedger) -> None:
        self.ledger = ledger
        self.places: dict[str, int] = {}
        self.bodies: dict[str, bytes] = {}

    def send(self, name: str, source: str, body: Decision | bytes, later: int = 1000) -> None:
        value = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.bodies[name] = value
        decision = json.loads(self.ledger.send(source, value, later))
        self.places[name] = decision["partition_sequence"]

    def owner(self, name: str, kind: str, dataset: str, /, **fields: Any) -> None:
        head = {"version": 1, "type": kind, "request_id": self._id(name)}
        self.send(name, "admin", {**head, "dataset": dataset, "by": "owner", **fields})

    def ask(
        self,
        name: str,
        dataset: str,
        epsilon: str,
        *,
        issued: int = 0,
        later: int = 1000,
        **more: str,
    ) -> None:
        self.claim(name, dataset, {"type": "pure", "epsilon": epsilon}, issued, later, **more)

    def claim(
        self,
        name: str,
        dataset: str,
        claim: Decision,
        issued: int = 0,
        later: int = 1000,
        **more: Any,
    ) -> None:
        body = {
            "version": 1,
            "type": "request",
            "request_id": self._id(name, issued + later),
            "analyst": "ana",
            "dataset": dataset,
            "claim": claim,
            "unit": "person",
            "neighbours": "add_remove",
        }
        self.send(name, "requests", body | more, later)

    def again(self, name: str, of: str, later: int = 1000, **changed: str) -> None:
        body = {**json.loads(self.bodies[of]), **changed}
        self.send(name, "requests", body if changed else self.bodies[of], later)

    def _id(self, name: str, off: int = 0) -> str:
        return request_id(self.ledger.clock.now() + off, len(self.places) + 1)


def sound(file: Path) -> SoundLog:
    """Return a history with at least one decision of every kind that a forger may be after."""
    with FedLedger(file) as ledger:
        log = History(ledger)
        log.owner("open", "open", "ds", policy={**_BASIC, "epsilon": "0.05",
                                                 "alert_at": ["0.5", "1"]})  # fmt: skip
        log.owner("open capped", "open", "capped", policy={
            "epsilon": "1", "delta": "1e-6", "most_per_request": "0.1"})  # fmt: skip
        log.owner("open lowered", "open", "lowered", policy={**_BASIC, "epsilon": "2"})
        lower = {**_BASIC, "epsilon": "1"}
        log.owner("lower", "amend", "lowered", policy=lower, follows=1)
        log.ask("grant", "ds", "0.02")
        log.again("repeat", "grant")
        log.again("conflict", "grant", purpose="another")
        log.ask("crossing", "ds", "0.01")
        log.ask("after crossing", "ds", "0.001")
        log.ask("tanh", "capped", "0.05")
        log.ask("above cap", "capped", "0.9")
        log.ask("exhausted", "ds", "0.04")
        log.send("dead", "requests", b"{")
        log.owner("out of date", "amend", "ds", alert_at=["0.9"], follows=2)
        log.ask("old", "ds", "0.001", issued=-WINDOW)
        log.ask("ahead", "ds", "0.001", issued=SKEW + 1)
        log.ask("unknown", "nowhere", "0.001")
        log.ask("within the lowered", "lowered", "0.6")
        log.ask("beyond the lowered", "lowered", "0.6")
        log.owner("open thirds", "open", "thirds", policy={**_BASIC, "epsilon": "1"})
        third = {"type": "laplace", "scale": "3", "sensitivity": "1"}
        for name in ("a third", "two thirds", "the whole", "one third too many"):
            log.claim(name, "thirds", third)
        _beside(log)
        _members(log)
        log.owner("close", "close", "lowered")
        log.ask("closed", "lowered", "0.001")
        log.ask("aged", "ds", "0.001")
        issued = ledger.clock.now()
        log.ask("later", "ds", "0.001", later=WINDOW - 1000)
        log.again("last repeat", "aged", issued + WINDOW - 1 - ledger.clock.now())
        log.again("first expired", "aged", later=1)
        log.ask("after its end", "circle", "0.001")
        log.ask("last", "ds", "0.001")
        return SoundLog(ledger.inputs, ledger.found(), log.places)


def _beside(log: History) -> None:
    """Use two datasets with basic composition and another filter, until each has one half left."""
    policy = {"epsilon": "1", "delta": "1e-6", "beside": "basic"}
    for name in ("both", "noisy"):
        log.owner(f"open {name}", "open", name, policy=policy)
    log.ask("admitted by the filter", "both", "0.05")
    log.ask("offers to end the filter", "both", "1.5")
    log.ask("ends the filter", "both", "0.4")
    log.ask("admitted by basic alone", "both", "0.05")
    noise = {"type": "gaussian", "sigma": "100", "sensitivity": "1"}
    log.claim("noise after the end", "both", noise)
    log.claim("noise", "noisy", noise)
    log.ask("refused by the filter", "noisy", "0.4")


def _members(log: History) -> None:
    """Open a dataset to its members; add and remove some, and ask as members and as strangers."""
    policy = {**_BASIC, "epsilon": "1", "access": "members", "population": "city"}
    log.owner("open circle", "open", "circle", policy=policy, owners=["owner", "olga"])
    ends = at_text(log.ledger.clock.now() + WINDOW // 2)
    for name, roles, more in (
        ("ana", ["analyst"], {"team": "blue", "until": ends}),
        ("engine-1", ["engine"], {}),
        ("ben", ["auditor", "analyst"], {"as": "administrator", "by": "admin"}),
    ):
        log.owner(f"enrol {name}", "member", "circle", member=name, roles=roles, **more)
    log.ask("by a member", "circle", "0.01")
    log.ask("through an engine", "circle", "0.01", via="engine-1")
    log.ask("by a stranger", "circle", "0.01", analyst="eve")
    log.ask("through a stranger", "circle", "0.01", via="eve")
    log.owner("remove engine-1", "member", "circle", member="engine-1", roles=[])
    log.ask("through a former engine", "circle", "0.01", via="engine-1")
    log.owner("remove nobody", "member", "circle", member="eve", roles=[])
    log.owner("enrol by a stranger", "member", "circle", by="eve", member="eve", roles=["owner"])
    log.owner("remove an owner", "member", "circle", member="olga", roles=[])
    log.owner("remove the last", "member", "circle", member="owner", roles=["analyst"])
    log.owner("close by a stranger", "close", "circle", by="eve")


class Forger:
    """Changes a sound log, and makes chain, numbers and the partition's row fit again."""

    def __init__(self, of: SoundLog) -> None:
        self._sound = of
        self.decisions: list[Decision] = []
        self._requests: dict[int, bytes] = {}
        for value in of.found.decisions:
            decision = json.loads(value)
            if "request" in decision:
                self._requests[id(decision)] = _raw_request(value)
            self.decisions.append(decision)
        self._named = {name: self.decisions[place] for name, place in of.places.items()}
        self.rows = dict(of.found.rows)
        self.letters = list(of.found.letters)
        self.inputs = of.inputs

    def __getitem__(self, name: str) -> Decision:
        return self._named[name]

    def says(self, decision: Decision, request: bytes) -> None:
        """Have a decision repeat another input."""
        decision["request"] = json.loads(request)
        self._requests[id(decision)] = request

    def double(self, name: str) -> None:
        """Insert a copy of a decision after itself."""
        twin = dict(self[name])
        self._requests[id(twin)] = self._requests[id(self[name])]
        self.decisions.insert(self.decisions.index(self[name]) + 1, twin)

    def found(self) -> Contents:
        """Return the forged file: its chain has no flaw."""
        head, heads, values = _NOTHING, {}, []
        for number, decision in enumerate(self.decisions):
            was = self._sound.found.decisions
            old = [hash_of(value) for value in was]
            decision.update(partition_sequence=number, previous=head)
            first = decision.get("first")
            if first is not None and first["hash"] in heads:
                decision["first"] = {**first, "hash": heads[first["hash"]]}
            value = self._encoded(decision)
            head = hash_of(value)
            original = self._place_of(decision)
            if original is not None:
                heads[old[original]] = head
            values.append(value)
        row = json.loads(self.rows[PARTITION])
        row.update(head=head, partition_sequence=len(values) - 1)
        self.rows[PARTITION] = json.dumps(row).encode()
        return Contents(values, self.rows, self.letters)

    def _place_of(self, decision: Decision) -> int | None:
        names = [name for name, each in self._named.items() if each is decision]
        return self._sound.places[names[0]] if names else None

    def _encoded(self, decision: Decision) -> bytes:
        """Return a decision's bytes, its request as it came."""
        request = self._requests.get(id(decision))
        if request is None or "request" not in decision:
            return json.dumps(decision, separators=(",", ":")).encode()
        text = json.dumps({**decision, "request": "@"}, separators=(",", ":"))
        return text.encode().replace(b'"request":"@"', b'"request":' + request)


PARTITION = b'{"partition":0}'
Plant = Callable[[Forger], object]


def changed(name: str, **fields: Any) -> Plant:
    return lambda forger: forger[name].update(fields)


def without(name: str, field: str) -> Plant:
    return lambda forger: forger[name].pop(field)


def dropped(name: str) -> Plant:
    return lambda forger: forger.decisions.remove(forger[name])


def hash_of(value: bytes) -> str:
    return f"sha256:{hashlib.sha256(value).hexdigest()}"


def _raw_request(value: bytes) -> bytes:
    text = value.decode()
    start = text.index('"request":') + len('"request":')
    return text[start : json.JSONDecoder().raw_decode(text, start)[1]].encode()
