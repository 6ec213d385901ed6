"""A life with limits, whose views are compared before and after each input."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from typing import Any, Final

import msgspec

from accountant.advice.preview import Preview, preview
from accountant.claims import Claim
from accountant.dataset_ledger import DatasetLedger
from accountant.limits.applicable_limits import team_of
from accountant.partition.decide import decide
from accountant.partition.draft import Draft
from accountant.records.inputs import Input
from accountant.records.previews import PreviewRequest
from accountant.views.datasets import view_of_ledger
from accountant.views.limit_views import (
    AnalystBudget,
    DatasetLimits,
    ScopeView,
    analyst_budget,
    scope_views,
)
from tests.accountant.judged_life import Life, Sent
from tests.accountant.partition.limit_loads import Load
from tests.faults.oracle.dataset import Dataset
from tests.faults.oracle.expected import Fields
from tests.faults.oracle.limits import Limit
from tests.faults.oracle.meter import down, texts
from tests.faults.oracle.texts import at_text, issued
from tests.streams.bodies import request_id

ADJUDICATED: Final = {
    *("exhausted", "above_cap", "claim_not_accepted", "unit_mismatch", "closed", "halted"),
    "not_permitted",
}
"""Reasons that a preview knows."""
FEW: Final = 12
_SCOPES: Final = ("dataset", "team", "each", "analyst")


class Watched(Life):
    """A life whose every record is committed, with a preview before each request."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.load = Load(self.chance, self.judge)
        self._probes = itertools.count(10_000_000)
        self.found = Counter[str]()

    def step(self) -> None:
        """Decide one input, by what was looked at before; now and then set the clock back."""
        sent = self.load.next()
        looked = self.look(sent) if sent.body["type"] == "request" else None
        self.decide(sent)
        self.commit()
        said: Fields = json.loads(self.log[-1])
        if looked is not None:
            self.agree(looked, said)
        if said.get("dataset") in self.judge.datasets:
            self.check_views(said["dataset"])
        if self.chance.random() < 0.004:
            self.reset_clock(self.load.set_back())

    def now(self, at: int) -> int:
        return max(at, self.state.decided_at)

    def divided(self, ledger: DatasetLedger, at: int) -> DatasetLimits:
        return DatasetLimits(ledger, self.state.levels, self.now(at), self.state.resets)

    def team(self, dataset: str, analyst: str, at: int) -> str:
        return team_of(self.state.members.get(dataset, analyst), self.now(at))

    def budget(self, dataset: str, analyst: str, at: int) -> AnalystBudget:
        divided = self.divided(self.state.ledgers[dataset], at)
        return analyst_budget(divided, analyst, self.team(dataset, analyst, at))

    def look(self, sent: Sent) -> tuple[Preview, AnalystBudget, list[str] | None] | None:
        """Return the answer to a request, and what is left for its analyst."""
        body = sent.body
        name, analyst = body["dataset"], body["analyst"]
        ledger = self.state.ledgers.get(name)
        if ledger is None:
            return None
        claim: Claim = msgspec.convert(body["claim"], Claim)
        via = body.get("via", msgspec.UNSET)
        asked = PreviewRequest(claim, body["unit"], body["neighbours"], analyst, via)
        divided, team = self.divided(ledger, sent.at), self.team(name, analyst, sent.at)
        shown = preview(view_of_ledger(ledger), asked, divided, self.state.members.get)
        probed = None
        if shown.granted and divided.applicable_to(analyst, team) and self.chance.random() < 0.2:
            probed = self.probe(sent, FEW if shown.more is None else min(shown.more + 2, FEW))
        return shown, self.budget(name, analyst, sent.at), probed

    def probe(self, sent: Sent, times: int) -> list[str]:
        """Return the answers to so many requests like one, one after another; none is recorded."""
        draft, reported = Draft(self.state), list[str]()
        at = self.now(sent.at)
        for _ in range(times):
            own = {"request_id": request_id(issued(sent.body["request_id"]), next(self._probes))}
            value = json.dumps(json.loads(sent.value) | own).encode()
            record = Input("requests", draft.next["requests"], b"key", value, at)
            said = json.loads(decide(draft, record, at).value)
            reported.append(said.get("reason") or said["outcome"])
        return reported

    def agree(self, looked: tuple[Preview, AnalystBudget, list[str] | None], said: Fields) -> None:
        """Compare what was looked at with the decision that came next."""
        shown, budget, probed = looked
        if said["outcome"] != "granted" and said.get("reason") not in ADJUDICATED:
            return
        self.found["seen"] += 1
        reported: Fields = msgspec.json.decode(msgspec.json.encode(shown))
        assert reported["granted"] == (said["outcome"] == "granted")
        assert reported["sequence"] == said["sequence"] - 1
        for field in ("reason", "cost", "asked", "left", "fits", "ends", "level", "left_at"):
            # Neither has what is not there, in its own way: () or None, or no such field.
            assert (reported[field] or None) == said.get(field), (field, reported, said)
        if "left_at" in said:
            self.found["left_at"] += 1
            assert left_of(budget, said["left_at"]) == said["left_at"], (budget, said)
        if probed is not None:
            self.count(shown, probed, said["dataset"])
        if said["outcome"] == "granted":
            self.moved(said)

    def count(self, shown: Preview, probed: list[str], dataset: str) -> None:
        """Compare how often a request fits with how often it was granted in a row."""
        granted = len(list(itertools.takewhile(lambda each: each == "granted", probed)))
        if shown.more is None or shown.more + 1 >= len(probed):
            assert granted == len(probed)
            return
        self.found["counted to the end"] += 1
        assert granted > shown.more, (shown, probed)
        if granted > shown.more + 1:
            kinds = [self.judge.datasets[dataset].policy["filter"]]
            kinds += [
                limit.meter.policy["filter"]
                for limit in self.judge.datasets[dataset].division.in_force()
                if limit.meter is not None
            ]
            self.found["promised fewer"] += 1
            assert "gdp_residue" in kinds, (shown, probed, kinds)

    def moved(self, said: Fields) -> None:
        """Compare what a budget shows with what a grant has just reported of each limit."""
        analyst = said["request"]["analyst"]
        budget = self.budget(said["dataset"], analyst, self.state.decided_at)
        assert budget.left.keys() == said["left"].keys()
        views = {(view.scope, view.name): view for view in budget.levels}
        for moved in said.get("levels", []):
            view = views.get((moved["scope"], moved.get("name")))
            if view is None:  # the team within whose share the analyst's lies, and no member of it
                assert "used" in moved
                self.found["a share elsewhere"] += 1
                continue
            self.found["moved"] += 1
            assert view.version == moved["version"]
            assert view.analyst == (analyst if view.scope == "each" else None)
            if "totals" in moved:
                assert view.used is not None
                assert view.used.items() <= moved["totals"].items()
            if "paced" in moved:
                assert view.pace is not None
                assert view.pace.used.items() <= moved["paced"].items()

    def check_views(self, name: str) -> None:
        """Compare every limit of a dataset with the oracle's, whose amounts are fractions."""
        divided = self.divided(self.state.ledgers[name], self.state.decided_at)
        dataset = self.judge.datasets[name]
        shown = [as_reported(view) for view in scope_views(divided)]
        right = [
            self.expected(dataset, limit)
            for limit in dataset.division.in_force()
            if limit.until is None or limit.until > self.state.decided_at
        ]
        right.sort(key=lambda view: (_SCOPES.index(view["scope"]), view.get("name", "")))
        assert shown == right, (shown, right)

    def expected(self, dataset: Dataset, limit: Limit) -> Fields:
        """Return what a view must show of a limit."""
        view: Fields = {**limit.head, "version": limit.version}
        view |= {each: limit.fields[each] for each in ("part", "policy") if each in limit.fields}
        if limit.meter is not None:
            view["budget"] = texts(limit.capacity)
        use = limit.use_of("")
        if limit.meter is not None and limit.scope != "each":
            counted = limit.counted(use)
            view["used"] = {sum_: texts(counted)[sum_] for sum_ in limit.meter.sums}
            view["left"] = down(limit.meter.left(limit.capacity, counted))
        if limit.pace is not None:
            begin, paced = limit.paced(use, dataset.division.meter, self.judge.clock)
            view["pace"] = {
                **{each: limit.fields["pace"][each] for each in ("part", "period", "budget")},
                "used": {sum_: texts(paced)[sum_] for sum_ in dataset.division.meter.sums},
                "left": down(dataset.division.meter.left(limit.pace, paced)),
                "begins_at": at_text(begin),
                "ends_at": at_text(limit.periods.around(begin)[1]),
            }
        if limit.share is not None:
            view["reserved"] = {**limit.fields["reserved"], "left": down(limit.spare())}
        if limit.until is not None:
            view["until"] = at_text(limit.until)
        return view


def as_reported(view: ScopeView) -> Fields:
    """Return a view as the oracle says it: the part that is used is looked at here."""
    reported: Fields = msgspec.json.decode(msgspec.json.encode(view))
    if "pace" in reported:
        assert 0.0 <= reported["pace"].pop("spent_ratio") <= 1.0
    ratio = reported.pop("spent_ratio", None)
    assert (ratio is None) == (view.used is None)
    if ratio is not None:
        assert 0.0 <= ratio <= 1.0
    return reported


def left_of(budget: AnalystBudget, said: list[Fields]) -> list[Fields]:
    """Return what a budget says is left, in the form of a refusal."""
    left: list[Fields] = []
    for view in budget.levels:
        each: dict[str, Any] = {"scope": view.scope}
        if view.name is not None:
            each["name"] = view.name
        if view.left is not None:
            each["left"] = view.left
        if view.pace is not None:
            each["pace_left"] = view.pace.left
            if any("more_at" in known and _is_of(view, known) for known in said):
                each["more_at"] = view.pace.ends_at  # given where a whole period has room
        if len(each) > 1 + ("name" in each):
            if view.until is not None:
                each["until"] = view.until
            left.append(each)
    if said[0]["scope"] == "dataset" and "left" in said[0]:  # others' shares are kept back
        if left and left[0]["scope"] == "dataset":
            left[0] = {"scope": "dataset", "left": budget.left, **left[0]}
        else:
            left.insert(0, {"scope": "dataset", "left": budget.left})
    return left


def _is_of(view: ScopeView, known: Fields) -> bool:
    return (view.scope, view.name) == (known["scope"], known.get("name"))
