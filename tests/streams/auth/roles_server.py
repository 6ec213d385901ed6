"""A real server before a real file, with somebody of every role on datasets of every kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import msgspec

from accountant.times import iso
from streams.auth import token_file
from streams.settings import Settings
from tests.ledger_file import connected
from tests.streams.auth.token_server import wall
from tests.streams.clock import NOON, TestClock
from tests.streams.gateway.local_server import LocalServer
from tests.streams.gateway.records import new_id, opening, request

ROLES = {
    "stranger": None,  # without a token
    "known": "zoe",  # with a token, and no member of anything
    "expired": "eve",  # an analyst until a moment ago
    "analyst": "ana",
    "colleague": "ben",  # another analyst of the same datasets
    "elsewhere": "otto",  # an analyst of another dataset alone
    "engine": "eng",
    "auditor": "aud",
    "owner": "olga",
    "administrator": "root",
    "opener": "opie",
}
KINDS = {
    # dataset: access, visibility
    "closed-own": ("members", "own"),
    "closed-all": ("members", "members"),
    "open-own": ("anyone", "own"),
    "open-all": ("anyone", "members"),
}
Body = dict[str, Any]


def setting(by: str, dataset: str, member: str, *roles: str, **more: Any) -> Body:
    """Return a record that sets a member, with an id to come."""
    fields = {"by": by, "dataset": dataset, "member": member, "roles": list(roles)}
    return {"version": 1, "type": "member", **fields, **more}


def misspelt(dataset: str) -> str:
    """Return a name that was never opened, as similar to other datasets' names as this one is.

    A hidden dataset must get the same "did you mean" as such a name does.
    """
    return dataset.replace("closed", "clozed").replace("open", "opan")


class RolesServer(LocalServer):
    """Each of `KINDS` is owned by olga, with ana, ben, eve, eng and aud as members.

    Nothing is asked on them yet; `elsewhere` has otto as its only analyst.
    """

    def __init__(self, directory: Path, **more: Any) -> None:
        self.path = directory / "ledger.db"
        tokens = directory / "tokens.json"
        self.tokens_file = tokens
        names = [name for name in ROLES.values() if name is not None]
        self.tokens = {name: token_file.create(tokens, name, now=wall()).token for name in names}
        known = {"port": 0, "tokens": tokens, "administrators": "root", "openers": "opie"}
        settings = more.pop("settings", {})
        clock = more.pop("clock", None) or TestClock()
        super().__init__(self.path, clock, Settings(**(known | settings)), **more)

    def furnish(self) -> None:
        """Open the datasets, and say who may do what on them."""
        for dataset, (access, visibility) in KINDS.items():
            self.open_for_olga(dataset, access=access, visibility=visibility)
            self.enrol(dataset, "ana", "analyst")
            self.enrol(dataset, "ben", "analyst")
            self.enrol(dataset, "eng", "engine")
            self.enrol(dataset, "aud", "auditor")
            self.enrol_for_a_moment(dataset, "eve", "analyst", "auditor")
        self.open_for_olga("elsewhere", access="members")
        self.enrol("elsewhere", "otto", "analyst")

    def open_for_olga(self, dataset: str, **policy: Any) -> None:
        """Open a dataset that olga owns."""
        policy = {"epsilon": "100", "alert_at": ["0.001"], "access": "anyone", **policy}
        body = {**opening(self.clock, dataset, **policy), "by": "root", "owners": ["olga"]}
        self.done("root", "/datasets?new=true", body, "opened")

    def enrol(self, dataset: str, member: str, *roles: str, **more: Any) -> None:
        """Have olga say what somebody may do."""
        body = setting("olga", dataset, member, *roles, **more)
        outcome = "member_set" if roles else "member_removed"
        self.done("olga", f"/datasets/{dataset}/members", body, outcome)

    def enrol_for_a_moment(self, dataset: str, member: str, *roles: str, **more: Any) -> None:
        """Have olga set a membership that is over afterwards."""
        self.enrol(dataset, member, *roles, until=iso(self.clock.now() + 1), **more)
        self.clock.pass_(seconds=0.001)

    def granted(self, dataset: str, analyst: str, *, via: str | None = None) -> Body:
        """Have something granted; return its body."""
        more = {} if via is None else {"via": via}
        body = request(self.clock, dataset=dataset, analyst=analyst, **more)
        self.done(via or analyst, "/requests", body, "granted")
        return body

    def reserved(self, dataset: str, analyst: str, *, via: str | None = None, **more: Any) -> Body:
        """Have something reserved; return its decision."""
        more = {"reserve": {"until": "PT1H"}, **more, **({} if via is None else {"via": via})}
        body = request(self.clock, dataset=dataset, analyst=analyst, **more)
        return self.done(via or analyst, "/requests", body, "reserved")

    def step(self, kind: str, grant: Body, **more: Any) -> httpx.Response:
        """Send a step of a reservation, by its analyst or by the engine that asked for it."""
        asked = grant["request"]
        body = {"version": 1, "type": kind, "analyst": asked["analyst"], "grant": grant["hash"]}
        body |= {"dataset": grant["dataset"]}
        body |= {"via": asked["via"]} if "via" in asked else {}
        body |= more
        path = f"/datasets/{grant['dataset']}/reservations/{kind}"
        return self.send(body.get("via", body["analyst"]), path, body)

    def done(self, name: str, path: str, body: Body, outcome: str) -> Body:
        """Send a body, and return its decision."""
        answer = self.send(name, path, body)
        assert answer.status_code == 200, answer.text
        decision: Body = answer.json()
        assert decision["outcome"] == outcome, decision
        return decision

    def auth_headers(self, name: str | None) -> dict[str, str]:
        """Return the caller's Authorization header."""
        return {} if name is None else {"Authorization": f"Bearer {self.tokens[name]}"}

    def send(self, name: str | None, path: str, body: Body) -> httpx.Response:
        """Send a body, with an id of its own where it has none."""
        whole = {"request_id": new_id(self.clock), **body}
        headers = {"content-type": "application/json", **self.auth_headers(name)}
        return self.http.post(path, content=msgspec.json.encode(whole), headers=headers)

    def see(self, name: str | None, path: str, **query: str | int) -> httpx.Response:
        """Look at something."""
        return self.http.get(path, params=query, headers=self.auth_headers(name))

    def stored_rows(self) -> tuple[int, list[tuple[bytes, bytes]]]:
        """Return the length of the log and every row of `state`, as the file has them."""
        with connected(self.path, read_only=True) as file:
            ((last,),) = file.execute("SELECT max(sequence) FROM decisions")
            return last, file.execute("SELECT key, value FROM state ORDER BY key").fetchall()


def at(seconds: float) -> str:
    """Return a time so many seconds after the server's noon."""
    return iso(NOON + int(seconds * 1000))
