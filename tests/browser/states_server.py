"""A dataset in every state that its page shows, and a calm week of one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from streams.auth import token_file
from tests.streams.auth.token_server import wall
from tests.streams.gateway.records import new_id, pausing, request
from tests.streams.pages.dataset.pages_server import PagesServer

TEAMS = ("finance", "health", "methods", "transport")
SESSION = {"type": "brownian", "variance": "400", "sensitivity": "1", "first": "10000"}
_DAY_S = 86_400
_CALM_DAYS = 7
# What each analyst of the calm week asks for on a day: a quarter of the budget in seven days.
_CALM = (
    ("ana", "0.012", "residents by district"),
    ("ben", "0.01", "ages by ten years"),
    ("otto", "0.013", "household sizes"),
)


class StatesServer(PagesServer):
    """Datasets of olga, each named after its state; `fred` is known and member of nothing."""

    def __init__(self, directory: Path, **more: Any) -> None:
        super().__init__(directory, **more)
        self.tokens["fred"] = token_file.create(self.tokens_file, "fred", now=wall()).token

    def furnish(self) -> None:
        self._open("empty")
        self._open("closed")
        self._ask("closed", "ana", "0.1")
        self._own("closed", "close", {"version": 1, "type": "close", "dataset": "closed"}, "closed")
        self._open("exhausted", epsilon="0.3")
        self._ask("exhausted", "ana", "0.3", purpose="the last table")
        self._open("halted", halt_on_refusal=True)
        self._ask("halted", "ana", "0.2", purpose="ages by district")
        self._ask("halted", "ana", "0.9", outcome="refused", purpose="all of it")
        self._paused()
        self._open("below-ceiling", epsilon="2")
        budget = {"version": 1, "type": "budget", "dataset": "below-ceiling"}
        self._own("below-ceiling", "budget", {**budget, "budget": {"epsilon": "1"}}, "budget_set")
        self._ask("below-ceiling", "ana", "0.35", purpose="wages by sector")
        self._calm()
        self._waiting()
        self._suspended()
        self._crowded()

    def _open(self, dataset: str, **policy: Any) -> None:
        policy = {"filter": "basic", "epsilon": "1", "access": "members", "alert_at": [], **policy}
        self.open_for_olga(dataset, **policy)
        self.enrol(dataset, "ana", "analyst", team="health")
        self.enrol(dataset, "ben", "analyst", team="finance")

    def _own(self, dataset: str, kind: str, body: dict[str, Any], outcome: str) -> None:
        whole = {**body, "request_id": new_id(self.clock), "by": "olga"}
        self.done("olga", f"/datasets/{dataset}/{kind}", whole, outcome)

    def _ask(
        self,
        dataset: str,
        analyst: str,
        epsilon: str,
        *,
        outcome: str = "granted",
        **more: Any,
    ) -> None:
        claim = {"type": "pure", "epsilon": epsilon}
        body = request(self.clock, dataset=dataset, analyst=analyst, claim=claim, **more)
        self.done(analyst, "/requests", body, outcome)

    def _paused(self) -> None:
        self._open("paused")
        self._ask("paused", "ben", "0.25", purpose="counts by county")
        reason = "the source is being corrected, until Monday"
        self._own("paused", "pause", pausing(self.clock, "paused", reason=reason), "paused")

    def _waiting(self) -> None:
        """Leave two requests for approval and two asks for more."""
        self._open("waiting", approve_above="0.1")
        budget = {"version": 1, "type": "budget", "dataset": "waiting"}
        self._own("waiting", "budget", {**budget, "budget": {"epsilon": "0.8"}}, "budget_set")
        self._ask("waiting", "ben", "0.08", purpose="a first look")
        for name, epsilon, purpose in (
            ("ana", "0.2", "causes of death by district"),
            ("ben", "0.15", "income by decile"),
        ):
            claim = {"type": "pure", "epsilon": epsilon}
            body = request(self.clock, dataset="waiting", analyst=name, claim=claim)
            answer = self.send(name, "/requests", body | {"purpose": purpose})
            assert answer.status_code == 202, answer.text
        for name, wanted in (
            ("ana", {"wants": "limit", "part": "0.4"}),
            ("ben", {"wants": "budget", "budget": {"epsilon": "1"}}),
        ):
            ask = {"version": 1, "type": "more", "dataset": "waiting", "by": name, **wanted}
            ask |= {"reason": "for the annual report, due in March"}
            self.done(name, "/datasets/waiting/more", ask, "more_asked")

    def _suspended(self) -> None:
        """Release beyond the maximum of a reservation: the guarantee is void from then on."""
        self._open("suspended", filter="zcdp", epsilon=None, rho="0.01", most_per_request="1")
        grant = self.reserved("suspended", "ana", claim=SESSION, purpose="mean income, refined")
        assert self.step("begin", grant).json()["outcome"] == "begun"
        beyond = self.step("settle", grant, shown="399")
        assert beyond.json()["reason"] == "beyond_maximum", beyond.text

    def _crowded(self) -> None:
        """Have 500 members, with olga, in four teams with limits."""
        self._open("crowded")
        for number in range(497):
            name = f"analyst-{number:03}"
            self.enrol("crowded", name, "analyst", team=TEAMS[number % len(TEAMS)])
        for team in TEAMS:
            limit = {"scope": "team", "name": team, "part": "0.25", "by": "olga"}
            body = {"version": 1, "type": "limit", "dataset": "crowded", **limit}
            self.done("olga", "/datasets/crowded/limits", body, "limit_set")
        self._ask("crowded", "ana", "0.1", purpose="counts by county")

    def _calm(self) -> None:
        """Spend a week evenly, within a horizon of four weeks, with nothing refused."""
        self.open_for_olga(
            "residents",
            filter="basic",
            epsilon="1",
            delta="1e-6",
            access="members",
            horizon="P28D",
            alert_at=["0.5", "0.8"],
        )
        for name, team in (("ana", "health"), ("ben", "health"), ("otto", "transport")):
            self.enrol("residents", name, "analyst", team=team)
        for team in ("health", "transport"):
            limit = {"scope": "team", "name": team, "part": "0.5", "by": "olga"}
            limit |= {"pace": {"part": "0.2", "period": "P7D"}}
            body = {"version": 1, "type": "limit", "dataset": "residents", **limit}
            self.done("olga", "/datasets/residents/limits", body, "limit_set")
        for _ in range(_CALM_DAYS):
            self.clock.pass_(seconds=_DAY_S)
            for analyst, epsilon, purpose in _CALM:
                self._ask("residents", analyst, epsilon, purpose=purpose)
