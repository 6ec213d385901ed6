"""A dataset in every state that its pages and the commands tell apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from accountant.claims.text import parse_claim
from tests.streams.gateway.records import amending, pausing, request
from tests.streams.pages.dataset.pages_server import PagesServer

DAY_S = 86_400
BASIC = {"filter": "basic", "epsilon": "1", "delta": "1e-6"}
BESIDE = {"filter": "zcdp_tight", "epsilon": "1", "delta": "1e-6", "beside": "basic"}


class StatesServer(PagesServer):
    """`survey` is olga's, with the analysts ana and ben in team red and otto in blue."""

    def furnish(self) -> None:
        """Leave the ledger empty: each state opens its own dataset."""

    def opened(self, policy: dict[str, Any] = BASIC, **more: Any) -> None:
        self.open_for_olga("survey", **{"access": "members", "horizon": "P365D", **policy, **more})
        for name, team in (("ana", "red"), ("ben", "red"), ("otto", "blue")):
            self.enrol("survey", name, "analyst", team=team)

    def claim(self, analyst: str, claim: str, outcome: str = "granted") -> None:
        asked = msgspec.to_builtins(parse_claim(claim))
        body = request(self.clock, dataset="survey", analyst=analyst, claim=asked)
        self.done(analyst, "/requests", body, outcome)

    def record(self, kind: str, outcome: str) -> None:
        fields = pausing(self.clock, "survey", kind, reason="for a test")
        if kind == "close":
            fields = {**amending(self.clock, "survey", reason="for a test"), "type": "close"}
        self.done("olga", f"/datasets/survey/{kind}", {**fields, "by": "olga"}, outcome)

    def days(self, count: int) -> None:
        self.clock.pass_(seconds=count * DAY_S)


class DatasetState(NamedTuple):
    """A state, and what is asked in it.

    Attributes:
        make: brings the dataset into the state.
        word: the state in a word.
        claim: a claim of an amount that costs this amount of the sum that decides.
        refused: a claim that ana is refused, "" for none.
        ends: what a request in the log has ended, as shown.
    """

    make: Callable[[StatesServer], None]
    word: str = "open"
    claim: str = "pure:{}"
    refused: str = ""
    ends: str = ""


def _new(server: StatesServer) -> None:
    server.opened()


def _young(server: StatesServer) -> None:
    server.opened()
    server.claim("ana", "pure:0.12345")


def _used(server: StatesServer) -> None:
    _young(server)
    server.days(3)
    server.claim("ben", "pure:0.1")


def _paused(server: StatesServer) -> None:
    _used(server)
    server.record("pause", "paused")


def _closed(server: StatesServer) -> None:
    _used(server)
    server.limited("team", "red", part="0.5", pace={"part": "0.01", "period": "P1D"})
    server.record("close", "closed")


def _closed_without_limits(server: StatesServer) -> None:
    _used(server)
    server.record("close", "closed")


def _halts(server: StatesServer) -> None:
    server.opened(halt_on_refusal=True)
    server.claim("ana", "pure:0.5")
    server.days(2)


def _halted(server: StatesServer) -> None:
    _halts(server)
    server.claim("ana", "pure:0.9", "refused")


def _refused(server: StatesServer) -> None:
    server.opened()
    server.claim("ana", "pure:0.5")
    server.days(2)
    server.claim("ana", "pure:0.9", "refused")


def _exhausted(server: StatesServer) -> None:
    server.opened()
    server.claim("ana", "pure:1")
    server.days(2)
    server.claim("ana", "pure:0.1", "refused")


def _limit_and_period_used_up(server: StatesServer) -> None:
    server.opened()
    server.limited("team", "red", part="0.2", pace={"part": "0.2", "period": "P1D"})
    server.claim("ana", "pure:0.2")
    server.claim("ana", "pure:0.1", "refused")


def _lowered(server: StatesServer) -> None:
    server.opened()
    server.limited("team", "red", part="0.5")
    server.claim("ana", "pure:0.4")
    server.limited("team", "red", part="0.2")
    server.claim("ana", "pure:0.1", "refused")


def _reserved(server: StatesServer) -> None:
    server.opened()
    server.limited("team", "blue", reserved="0.5")
    server.claim("ana", "pure:0.4")
    server.claim("ana", "pure:0.2", "refused")


def _period_used_up(server: StatesServer) -> None:
    server.opened()
    server.limited("dataset", None, pace={"part": "0.1", "period": "P1D"})
    server.claim("ana", "pure:0.05")
    server.days(2)
    server.claim("ana", "pure:0.1")
    server.claim("ana", "pure:0.1", "refused")


def _period_about_to_end(server: StatesServer) -> None:
    _period_used_up(server)
    server.clock.pass_(seconds=DAY_S - 60)


def _period_of_a_team(server: StatesServer) -> None:
    server.opened()
    server.limited("team", "red", pace={"part": "0.1", "period": "P7D"})
    server.claim("ana", "pure:0.05")


def _default(server: StatesServer) -> None:
    server.opened()
    server.limited("each", "red", part="0.1", pace={"part": "0.08", "period": "P1D"})
    server.claim("ana", "pure:0.05")
    server.claim("ana", "pure:0.1", "refused")


def _own_limit(server: StatesServer) -> None:
    server.opened()
    server.limited("analyst", "ana", part="0.3", reserved="0.2")
    server.claim("ana", "pure:0.05")


def _own_budget(server: StatesServer) -> None:
    server.opened()
    server.limited("analyst", "ana", policy={"filter": "zcdp", "rho": "0.5"})
    server.claim("ana", "pure:0.1")


def _delta_used_up(server: StatesServer) -> None:
    server.opened()
    server.claim("ana", "approximate:0.1,0.000001")
    server.claim("ana", "approximate:0.1,0.000000001", "refused")


def _no_delta(server: StatesServer) -> None:
    server.opened({"filter": "zcdp_tight", "epsilon": "1", "delta": "1e-6"})
    server.claim("ana", "zcdp:0.001")
    server.claim("ana", "approximate:0.1,0.000000001", "refused")


def _beside(server: StatesServer) -> None:
    server.opened(BESIDE)
    server.claim("ana", "pure:0.1")


def _basic_ended(server: StatesServer) -> None:
    _beside(server)
    server.claim("ana", "gaussian:sigma=20,sensitivity=1")


def _filter_ended(server: StatesServer) -> None:
    _beside(server)
    server.claim("ana", "pure:0.3")


def _limits_beside(server: StatesServer) -> None:
    server.opened(BESIDE)
    server.limited("team", "red", part="0.5", pace={"part": "0.3", "period": "P1D"})
    server.claim("ana", "pure:0.2")


def _orders(server: StatesServer) -> None:
    server.opened({**BASIC, "filter": "renyi_weighted", "orders": ["32", "64"]})
    server.claim("ana", "gaussian:sigma=20,sensitivity=1")


def _population(server: StatesServer) -> None:
    server.open_for_olga("other", **{**BASIC, "population": "city"})
    server.opened(population="city")
    server.claim("ana", "pure:0.1")


def _no_joint_guarantee(server: StatesServer) -> None:
    server.opened(population="city")
    server.claim("ana", "pure:0.1")
    server.days(1)
    server.open_for_olga("other", **{**BASIC, "population": "city"})


NO_NUMBER = ""
STATES = {
    "new": DatasetState(_new),
    "less than a day old": DatasetState(_young),
    "used": DatasetState(_used),
    "paused": DatasetState(_paused, "paused"),
    "closed": DatasetState(_closed, "closed"),
    "closed without limits": DatasetState(_closed_without_limits, "closed"),
    "a request that would halt": DatasetState(_halts),
    "halted": DatasetState(_halted, "halted", ends="Ends the dataset"),
    "a request refused": DatasetState(_refused, refused="pure:0.9"),
    "exhausted": DatasetState(_exhausted, "exhausted", refused="pure:0.1"),
    "limit and period used up": DatasetState(_limit_and_period_used_up, refused="pure:0.1"),
    "limit lowered below its use": DatasetState(_lowered, refused="pure:0.1"),
    "reserved": DatasetState(_reserved, refused="pure:0.2"),
    "period used up": DatasetState(_period_used_up, refused="pure:0.1"),
    "period about to end": DatasetState(_period_about_to_end, refused="pure:0.1"),
    "period of a team": DatasetState(_period_of_a_team),
    "default of a team": DatasetState(_default, refused="pure:0.1"),
    "limit of an analyst": DatasetState(_own_limit),
    "budget of an analyst": DatasetState(_own_budget),
    "delta used up": DatasetState(_delta_used_up, refused="approximate:0.1,0.000000001"),
    "no delta for claims": DatasetState(
        _no_delta, "open", "zcdp:{}", "approximate:0.1,0.000000001"
    ),
    "basic composition beside": DatasetState(_beside),
    "basic composition ended": DatasetState(
        _basic_ended, claim="zcdp:{}", ends="Ends simple addition for good"
    ),
    "filter ended": DatasetState(_filter_ended, ends="Ends the ρ budget of zcdp_tight for good"),
    "limits with basic composition": DatasetState(_limits_beside, claim=NO_NUMBER),
    "Renyi orders": DatasetState(_orders, claim=NO_NUMBER),
    "population": DatasetState(_population),
    "no joint guarantee": DatasetState(_no_joint_guarantee),
}
