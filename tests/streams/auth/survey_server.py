"""A server with one dataset that looks as in life: teams, limits, a pace, grants and refusals."""

from __future__ import annotations

from typing import Any

from tests.streams.auth.roles_server import RolesServer
from tests.streams.clock import TestClock
from tests.streams.gateway.records import request

HOSTILE = '<script>alert("x")</script>'


class SurveyServer(RolesServer):
    """`survey` is olga's: ana and ben in team red, otto in blue, zoe an analyst of no team.

    Red has a fifth with a pace of a hundredth a day, blue has a share of its own, each analyst of
    red a tenth. Ana was refused by her team's pace, otto for want of room.
    """

    clock: TestClock

    def furnish(self) -> None:
        self.open_for_olga(
            "survey",
            filter="basic",
            epsilon="1",
            delta="1e-6",
            access="members",
            horizon="P365D",
            population="city",
            alert_at=["0.5"],
        )
        for name, team in (("ana", "red"), ("ben", "red"), ("otto", "blue")):
            self.enrol("survey", name, "analyst", team=team)
        self.enrol("survey", "zoe", "analyst")
        self.enrol("survey", "aud", "auditor")
        self.enrol("survey", "eng", "engine")
        self.limited("team", "red", part="0.2", pace={"part": "0.01", "period": "P1D"})
        self.limited("team", "blue", reserved="0.25")
        self.limited("each", "red", part="0.15")
        for _ in range(6):
            self.ask("ben", "0.01", purpose="counts by county")
            self.clock.pass_(seconds=86_400)
        self.ask("otto", "0.2", purpose="income model")
        self.clock.pass_(seconds=3 * 86_400)
        self.ask("zoe", "0.05", purpose=HOSTILE)
        self.ask("otto", "0.9", purpose="all of it", outcome="refused")
        self.ask("ana", "0.004", purpose="a first look")
        self.ask("ana", "0.03", purpose="age by district", outcome="refused")

    def limited(self, scope: str, name: str, **more: Any) -> None:
        """Have olga limit somebody."""
        fields = {"by": "olga", "dataset": "survey", "scope": scope, "name": name, **more}
        body = {"version": 1, "type": "limit", **fields}
        self.done("olga", "/datasets/survey/limits", body, "limit_set")

    def ask(  # type: ignore[override]
        self, analyst: str, epsilon: str, *, outcome: str = "granted", **more: Any
    ) -> None:
        """Have somebody ask for a pure epsilon."""
        claim = {"type": "pure", "epsilon": epsilon}
        body = request(self.clock, dataset="survey", analyst=analyst, claim=claim, **more)
        self.done(analyst, "/requests", body, outcome)
