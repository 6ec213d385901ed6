"""A dataset with one reservation, brought to any state by records alone."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Final

from accountant.records import Decision
from tests.accountant.world import World, code
from tests.faults.oracle.texts import at_text

HOUR: Final = 3_600_000
NOISE_REDUCTION: Final[dict[str, object]] = {
    "type": "ex_post",
    "epsilon": "0.1",
    "sensitivity": "1",
    "first": "100",
    "least": "10",
}
"""At most 0.1; shown at scale 40 it costs 0.025."""
FULL: Final[dict[str, str]] = {}
LOWER: Final = {"shown": "40"}
ABOVE_FIRST: Final = {"shown": "101"}
BEYOND: Final = {"shown": "5"}
NOBODYS: Final = "sha256:" + "0" * 64


class Scene(World):
    """One partition with the dataset `census`, of epsilon 1 in sum, and one reservation.

    Attributes:
        grant: the reservation last granted, by its decision's hash.
        session: the one that `run_session` has settled.
        last_step: the last record of a step, as it was sent.
    """

    def __init__(self, claim: dict[str, object] | None = None, **policy: object) -> None:
        super().__init__()
        self.claim = claim or NOISE_REDUCTION
        given = policy or {"filter": "basic", "epsilon": "1", "delta": "1e-6"}
        opening = self.admin("open", dataset="census", policy=given, owners=["owner", "oda"])
        decision = self.send("admin", opening)
        assert code(decision) == "opened", decision
        self.grant = self.session = NOBODYS
        self.last_step = b""

    def do(self, *records: str) -> None:
        """Bring the reservation to a state: a word a record or a step of the clock."""
        for word in records:
            said = getattr(self, word)()
            assert said is None or said.outcome != "invalid", said

    def reserve(self, claim: dict[str, object] | None = None, **fields: object) -> Decision:
        fields = {"reserve": {"until": "PT1H"}, **fields}
        decision = self.ask(claim or self.claim, **fields)
        if code(decision) == "reserved":
            self.grant = f"sha256:{hashlib.sha256(self.log[-1]).hexdigest()}"
        return decision

    def step(self, kind: str, **fields: object) -> Decision:
        """Send a step of the reservation, by its analyst."""
        body = {"version": 1, "type": kind, "analyst": "ana", "dataset": "census"}
        body |= {"request_id": self.new_id(), "grant": self.grant}
        self.last_step = json.dumps(body | fields).encode()
        return self.send("requests", self.last_step)

    def begin(self, **fields: object) -> Decision:
        return self.step("begin", **fields)

    def settle(self, **fields: object) -> Decision:
        return self.step("settle", **fields)

    def settle_lower(self) -> Decision:
        return self.step("settle", **LOWER)

    def settle_beyond(self) -> Decision:
        return self.step("settle", **BEYOND)

    def void(self, **fields: object) -> Decision:
        return self.step("void", **fields)

    def owners(self, kind: str, **fields: object) -> Decision:
        return self.send("admin", self.admin(kind, **fields))

    def run_session(self, variance: str) -> None:
        """Settle a Brownian session in full at a variance."""
        claim = {"type": "brownian", "variance": variance, "sensitivity": "1", "first": variance}
        assert code(self.reserve(claim)) == "reserved"
        self.do("begin", "settle")
        self.session = self.grant

    def pause(self) -> Decision:
        return self.owners("pause")

    def member(self, name: str, *roles: str, **fields: object) -> Decision:
        return self.owners("member", member=name, roles=roles, **fields)

    def limit(self, scope: str, name: str | None = None, **fields: object) -> Decision:
        named = {} if name is None else {"name": name}
        decision = self.owners("limit", scope=scope, **named, **fields)
        assert code(decision) in {"limit_set", "limit_removed"}, decision
        return decision

    def suspend(self) -> None:
        """Break another reservation, of which 0.1 stays charged."""
        grant = self.grant
        self.do("reserve", "begin", "settle_beyond")
        self.grant = grant

    def exhaust(self) -> Decision:
        return self.ask("pure:0.9")

    def halt(self) -> Decision:
        return self.ask("pure:5")

    def to_deadline(self) -> None:
        self.now += HOUR

    def to_final(self) -> None:
        self.now += 2 * HOUR

    def tick(self, milliseconds: int) -> None:
        self.now += milliseconds

    def until(self, milliseconds: int) -> str:
        """Return a time so long after now, as records write it."""
        return at_text(self.now + milliseconds)

    @property
    def decided(self) -> dict[str, Any]:
        """The last decision, as it was written."""
        found: dict[str, Any] = json.loads(self.log[-1])
        return found

    def total(self, name: str = "epsilon") -> str:
        """Return a total of the dataset, as the last decision about it wrote it."""
        return str(self.row("census")["totals"][name])

    def row(self, key: str) -> dict[str, Any]:
        """Return a row of `state`, {} for none."""
        rows = {row_key.decode(): value for row_key, value in self.rows()}
        found: dict[str, Any] = json.loads(rows.get(key, b"{}"))
        return found

    def reservation(self) -> dict[str, Any]:
        """Return the row of the reservation, {} where it has none."""
        return self.row(f'{{"dataset":"census","grant":"{self.grant}"}}')

    def limit_row(self, scope: str, name: str, team: str | None = None) -> dict[str, Any]:
        """Return the row of a limit, or of somebody's use under a default."""
        within = "" if team is None else f'"team":"{team}",'
        return self.row(f'{{"dataset":"census","scope":"{scope}",{within}"name":"{name}"}}')
