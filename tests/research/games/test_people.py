"""People around a budget: whatever they send in whatever order, what is promised holds.

Everybody may be one adversary. Each state that some records lead to is visited, each record is sent
in it, and each decision is compared with what the rules say.
"""

from __future__ import annotations

import json
from collections import defaultdict
from fractions import Fraction
from typing import Any, Final

import numpy as np
import pytest
from msgspec import UNSET

from accountant.amounts import UNIT
from accountant.dataset_ledger import DatasetLedger
from accountant.records.encoded_decision import EncodedDecision
from accountant.replay.replay import state_rows
from accountant.times import iso
from research.games.optimal_stopping import Move, Payoff, solve
from research.games.pairs import FloatArray, randomized_response
from research.games.payoffs import hockey_stick
from research.games.people import DAY, START, Body, PeopleRules, PeopleState, PossibleRecord
from tests.nightly import rounds

DEPTH: Final = rounds(3, 6)
SMALL, LARGE = "0.3", "0.6"
LAWS: Final = {
    json.dumps({"type": "pure", "epsilon": each}): randomized_response(float(each))
    for each in ("0.2", SMALL, "0.5", LARGE)
}
POLICY: Final = {
    "filter": "basic",
    "epsilon": "1",
    "odometers": [],
    "alert_at": [],
    "access": "members",
}
WAITS: Final = {**POLICY, "approve_above": "0.4", "approve_within": "P1D"}
END: Final = iso(START + DAY)


def owner(kind: str, **fields: Any) -> Body:
    return {"type": kind, "dataset": "census", "by": "otto", **fields}


def request(analyst: str, epsilon: str, **fields: Any) -> Body:
    body = {"type": "request", "dataset": "census", "analyst": analyst}
    claim = {"type": "pure", "epsilon": epsilon}
    return {**body, "claim": claim, "unit": "person", "neighbours": "add_remove", **fields}


def sends(name: str, body: Body, later: int = 0) -> PossibleRecord:
    return PossibleRecord(name, lambda _: body, later)


def answers(name: str, kind: str, by: str, later: int = 0, place: int = 0) -> PossibleRecord:
    """Return an answer to a request that nobody has answered, to the first one by default."""

    def body(state: PeopleState) -> Body | None:
        waiting = sorted(state.waiting(), key=lambda row: row.sequence)
        if not waiting:
            return None
        return owner(kind, by=by, pending=waiting[place].pending)

    return PossibleRecord(name, body, later)


def _led(kind: str, **fields: Any) -> Body:
    return owner(kind, **{"by": "lea", **fields})


_RELEASE: Final = {
    "claim": {"type": "pure", "epsilon": SMALL},
    "released_at": iso(START),
    "evidence": "a table",
}


def people(policy: Body, **opening: Any) -> list[Body]:
    """Return a dataset with two owners, who may ask, too, two teams, and a lead of one."""
    roles = {"olga": ["owner", "analyst"], "lea": ["lead"], "ana": ["analyst"], "ben": ["analyst"]}
    teams = {"lea": "red", "ana": "red", "ben": "blue"}
    opened = owner("open", policy=policy, owners=["olga", "otto"], **opening)
    members = [
        owner("member", member=name, roles=each, **({"team": teams[name]} if name in teams else {}))
        for name, each in roles.items()
    ]
    return [opened, *members]


class CheckedRules(PeopleRules):
    """The live rules; each decision, and what each state promises, is checked.

    Attributes:
        granted: number of grants that were checked; `approved` of those by an approval.
    """

    granted = approved = 0

    def check(self, state: PeopleState, body: Body, made: EncodedDecision, now: int) -> None:
        for said in _parts(made):
            lifetime = said.get("lifetime") or {"spent": {"epsilon": "0"}}
            assert Fraction(lifetime["spent"]["epsilon"]) <= 2, lifetime
            if said.get("levels"):
                self._check_levels(state, said, now)
            if said["outcome"] in {"granted", "reserved", "begun"}:
                self.granted += 1
                self._check_grant(state, said)
        if body["by" if "by" in body else "analyst"] == "lea":
            self._check_lead(state, body, made)
        if body["type"] == "approve":
            self._check_approval(state, body, made, now)

    def _check_grant(self, state: PeopleState, said: Body) -> None:
        facts = state.ledger(said["dataset"]).facts
        assert not facts.paused
        for name in {said["request"]["analyst"], said["request"].get("via")} - {None}:
            row = state.partition.members.get(said["dataset"], name)
            for pause in facts.person_pauses:
                assert pause.member != name, (name, pause)
                assert row is None or pause.team is None or pause.team != row.team, (name, pause)
        most = _in_force(state.ledger(said["dataset"]))
        assert Fraction(said["totals"]["epsilon"]) <= most

    def _check_lead(self, state: PeopleState, body: Body, made: EncodedDecision) -> None:
        """A lead touches red analysts or newcomers, and gives at most what red has."""
        if not made.decision.outcome.is_applied:
            return
        row = state.partition.members.get("census", body.get("member") or body["name"])
        assert row is None or (row.roles, row.team) == (("analyst",), "red"), body
        said = json.loads(made.value).get("limit", {})
        team = state.partition.levels.get(("census", "team", "", "red"))
        if team is not None and team.is_in_force and "budget" in said:
            assert Fraction(said["budget"]["epsilon"]) <= Fraction("0.6"), said

    def _check_levels(self, state: PeopleState, said: Body, now: int) -> None:
        """No limit that has ended is charged, and nothing is above one that is."""
        for level in said["levels"]:
            rows = state.partition.levels.limits_of(said["dataset"])
            limits = [each.rule.record for each in rows if each.rule is not None]
            (limit,) = [
                each
                for each in limits
                if (each.scope, each.name or None) == (level["scope"], level.get("name"))
            ]
            assert limit.until is None or iso(START + now) < limit.until, limit
            if limit.budget is not None and "totals" in level:
                amounts = Fraction(level["totals"]["epsilon"]), Fraction(limit.budget["epsilon"])
                assert amounts[0] <= amounts[1], level

    def _check_approval(
        self, state: PeopleState, body: Body, made: EncodedDecision, now: int
    ) -> None:
        """An approval says what a decision on the request would say now, or why not."""
        said = json.loads(made.value)
        (row,) = [each for each in state.waiting() if each.pending == body["pending"]]
        is_own = body["by"] in {row.analyst, row.via}
        is_late = START + now >= row.deadline or (row.resets or 0) != state.partition.resets.number
        found = {
            "not_permitted": body["by"] not in {"olga", "otto"},
            "closed": state.ledger("census").closed,
            "lapsed": is_late,
            "own_request": is_own,
        }
        due = next((reason for reason, is_so in found.items() if is_so), None)
        if due is not None:
            assert said.get("reason") == due, said
            return
        asked = json.loads(bytes(row.body or b""))
        gone = ("version", "request_id")
        body_now = {name: each for name, each in asked.items() if name not in gone}
        open_ = self.after(state, owner("amend", approve_above="1"))
        (fresh,) = _parts(self.decided(open_, body_now, now - state.now))
        for name in ("outcome", "reason", "cost", "totals", "levels", "fits", "level", "left"):
            assert said.get(name) == fresh.get(name), (name, said, fresh)
        self.approved += said["outcome"] == "granted"


class SharingRules(CheckedRules):
    """Such rules that check in each state that what shares withhold is free; otto has no share."""

    def moves(self, state: PeopleState) -> list[Move[PeopleState]]:
        self._check_shares(state)
        found = super().moves(state)
        for move in found:
            if move.name.startswith("lea "):
                assert self._withheld(move.after[0]) <= self._withheld(state), move.name
        return found

    def _check_shares(self, state: PeopleState) -> None:
        """What is reserved is free: somebody without a share gets what is left, and no more."""
        withheld = self._withheld(state)
        spent = Fraction(state.ledger("census").spent[0]) / UNIT
        free = _in_force(state.ledger("census")) - spent - withheld
        assert free >= 0, (spent, withheld)
        for more in (Fraction(0), Fraction(1, 100)):
            if free + more > 0:
                said = json.loads(
                    self.decided(state, request("otto", str(float(free + more)))).value
                )
                assert (said["outcome"] == "granted") == (not more), (said, withheld)

    @staticmethod
    def _withheld(state: PeopleState) -> Fraction:
        rows = [json.loads(value) for _, value in state_rows(state.partition)]
        return _withheld([row for row in rows if row["type"] == "level"], START + state.now)


def _in_force(ledger: DatasetLedger) -> Fraction:
    stored = ledger.facts.in_force
    return Fraction(1) if stored is UNSET else Fraction(stored.budget["epsilon"])


def _parts(made: EncodedDecision) -> list[Body]:
    said = json.loads(made.value)
    return [{**said, **part} for part in said.get("parts", [{}])]


def _withheld(rows: list[Body], now: int) -> Fraction:
    """Return what shares that have not ended withhold, by their rows."""
    inside: dict[str, Fraction] = defaultdict(Fraction)
    whole: dict[str, Fraction] = {}
    for row in rows:
        limit = row.get("limit", {})
        ended = row.get("rule", {}).get("over") or iso(now) >= limit.get("until", "9999")
        if "reserved" not in limit or ended:
            continue
        used = Fraction(row.get("used", {}).get("totals", {}).get("epsilon", "0"))
        rest = max(Fraction(limit["reserved"]["budget"]["epsilon"]) - used, Fraction(0))
        if row["scope"] == "team":
            whole[row["name"]] = rest
        else:
            inside[limit["reserved"].get("team", "")] += rest
    return sum((max(inside[n], whole.get(n, Fraction(0))) for n in {*inside, *whole}), Fraction(0))


def waiting() -> CheckedRules:
    """Return the rules of a game."""
    return CheckedRules(
        people(WAITS),
        [
            sends("ana asks", request("ana", SMALL)),
            sends("ana waits", request("ana", LARGE)),
            sends("an owner waits", request("olga", "0.5")),
            answers("otto approves", "approve", "otto"),
            answers("olga approves", "approve", "olga"),
            answers("ana approves", "approve", "ana"),
            answers("otto approves the last", "approve", "otto", place=-1),
            answers("otto approves too late", "approve", "otto", later=DAY),
            answers("otto denies", "deny", "otto"),
            sends("ana is paused", owner("pause_member", member="ana", reason="why")),
            sends("ana is resumed", owner("resume_member", member="ana")),
            sends("red is paused", owner("pause_member", team="red", reason="why")),
            sends("red is resumed", owner("resume_member", team="red")),
            sends("ana is limited", owner("limit", scope="analyst", name="ana", part="0.5")),
            PossibleRecord("set back", lambda _: None, -1000),
        ],
        LAWS,
    )


def leads() -> CheckedRules:
    """Return the rules of a game."""
    return SharingRules(
        [
            *people(POLICY),
            owner("member", member="otto", roles=["owner", "analyst"]),
            owner("limit", scope="team", name="red", part="0.6", reserved="0.5", until=END),
        ],
        [
            sends("ana asks", request("ana", SMALL)),
            sends("ana asks for less", request("ana", "0.2")),
            sends("ben asks", request("ben", "0.5")),
            sends("ben asks a day later", request("ben", "0.2"), later=DAY),
            sends("lea limits", _led("limit", scope="analyst", name="ana", part="0.2")),
            sends("lea limits above", _led("limit", scope="analyst", name="ana", part="0.7")),
            sends(
                "lea gives", _led("limit", scope="analyst", name="ana", reserved="0.2", until=END)
            ),
            sends(
                "lea gives more",
                _led("limit", scope="analyst", name="ana", reserved="0.5", until=END),
            ),
            sends("lea takes", _led("limit", scope="analyst", name="ana")),
            sends("lea adds", _led("member", member="nia", roles=["analyst"], team="red")),
            sends(
                "nia gets", _led("limit", scope="analyst", name="nia", reserved="0.3", until=END)
            ),
            sends("nia asks", request("nia", SMALL)),
            sends("lea removes", _led("member", member="ana", roles=[])),
            sends("lea takes ben", _led("member", member="ben", roles=["analyst"], team="red")),
            sends("lower", owner("budget", budget={"epsilon": "0.4"})),
            sends("blue gets", owner("limit", scope="team", name="blue", reserved="0.4")),
            PossibleRecord("set back", lambda _: None, -DAY),
        ],
        LAWS,
    )


def owners() -> CheckedRules:
    """Return the rules of a game."""
    return CheckedRules(
        [
            *people(WAITS, budget={"epsilon": "0.7"}, lifetime={"epsilon": "2"}),
            owner("member", member="otto", roles=["owner", "analyst"]),
        ],
        [
            sends("ana asks", request("ana", SMALL)),
            sends("ana waits", request("ana", LARGE)),
            answers("olga approves", "approve", "olga"),
            sends("raise", owner("budget", budget={"epsilon": "1"})),
            sends("raise beyond", owner("budget", budget={"epsilon": "1.5"})),
            sends("lower", owner("budget", budget={"epsilon": "0.5"})),
            sends("record", owner("record", **_RELEASE)),
            sends("renew", owner("renew", renewed_as="next", policy=POLICY)),
            sends("renew again", owner("renew", dataset="next", renewed_as="third", policy=POLICY)),
            sends("ana joins", owner("member", dataset="next", member="ana", roles=["analyst"])),
            sends("ana asks there", request("ana", LARGE, dataset="next")),
        ],
        LAWS,
    )


GAMES: Final = {"waiting": (waiting, 1.0), "leads": (leads, 1.0), "owners": (owners, 2.0)}
"""By name: the rules, and the epsilon of what is promised."""


@pytest.mark.slow
@pytest.mark.parametrize("name", GAMES)
def test_no_records_of_people_get_an_adversary_beyond_the_guarantee(name: str) -> None:
    made, epsilon = GAMES[name]
    rules, beyond = made(), beyond_of(epsilon)

    def gain(state: PeopleState, losses: FloatArray) -> FloatArray:
        """Return the gain beyond what is promised: nothing is, once the guarantee is void."""
        is_void = any(each.is_void for each in state.partition.ledgers.values())
        return np.zeros(len(losses)) if is_void else beyond(state, losses)

    solution = solve(rules.start, rules.moves, gain, depth=DEPTH)
    assert solution.value == 0
    assert rules.granted > 10
    assert rules.approved or name == "leads"
    # A smaller promise would not hold: the game sees what is granted.
    assert solve(rules.start, rules.moves, beyond_of(0.5), depth=3).value > 0


def beyond_of(epsilon: float) -> Payoff[PeopleState]:
    """Return the hockey-stick at an epsilon."""
    return hockey_stick(epsilon)
