"""A refused owners' record names both values that disagree, and the next step."""

from __future__ import annotations

from typing import Any

import msgspec

from accountant.display.current_dataset import CurrentDataset
from accountant.display.reasons import REASONS
from accountant.display.refusals import refusal_words
from accountant.policy import Policy
from accountant.records import Decision
from accountant.records.limit_records import Scope
from accountant.records.members import Member
from accountant.records.outcomes import Reason
from accountant.views.datasets import DatasetView
from accountant.views.limit_views import ScopeView, ShareView
from tests.accountant.display.test_refusals import refused
from tests.every_case import check_rows

AT = "2026-12-01T10:00:00.000Z"


def record(reason: Reason, kind: str, **fields: Any) -> Decision:
    body = {"type": kind, "dataset": "survey", "by": "olga", **fields}
    decision = refused(dataset="survey", request=msgspec.Raw(msgspec.json.encode(body)))
    return msgspec.structs.replace(decision, reason=reason)


def view(left: str = "1", **policy: Any) -> DatasetView:
    return DatasetView(
        dataset="survey",
        generation=0,
        sequence=9,
        partition_sequence=9,
        policy=Policy(**{"filter": "basic", "epsilon": "1"} | policy),
        budget={"epsilon": "1"},
        spent_ratio=0.0,
        totals={"mechanisms": 12},
        left={"epsilon": left},
        odometers={},
        crossed=(),
        exhausted=False,
        closed=False,
        opened_at=AT,
        last_decided_at=AT,
    )


def share(
    scope: Scope, name: str, part: str, *, unused: str | None = None, team: str | None = None
) -> ScopeView:
    reserved = ShareView(
        part=part, budget={"epsilon": part}, left={"epsilon": unused or part}, team=team
    )
    return ScopeView(scope=scope, name=name, version=1, reserved=reserved)


def asking(scope: Scope, name: str, reserved: str) -> Decision:
    return record(Reason.OVER_RESERVED, "limit", scope=scope, name=name, reserved=reserved)


def test_the_text_of_a_refused_admin_request_names_its_subject() -> None:
    def check_case(decision: Decision, words: tuple[str, ...]) -> None:
        text = refusal_words(decision)
        for each in words:
            assert each in text
        assert text.endswith(".")
        assert str(REASONS[decision.reason or Reason.CLOSED]) != text

    check_rows(
        check_case,
        [
            (
                record(Reason.UNKNOWN_MEMBER, "member", member="anna"),
                ("anna", "member list survey"),
            ),
            (
                record(Reason.LAST_OWNER, "member", member="olga"),
                ("olga is the only", "member set"),
            ),
            (record(Reason.TOO_MANY_MEMBERS, "member", member="zoe"), ("10,000", "zoe")),
            (
                record(Reason.UNKNOWN_LIMIT, "limit", scope="team", name="blu"),
                ("no limit for team blu", "limit list survey"),
            ),
            (
                record(Reason.TOO_MANY_LIMITS, "limit", scope="analyst", name="ana"),
                ("1,000", "analyst ana"),
            ),
            (asking("team", "blue", "0.6"), ("60 %", "team blue", "limit list survey")),
            (record(Reason.ALREADY_OPENED, "open"), ("survey was opened before", "dataset show")),
            (record(Reason.CLOSED, "close"), ("survey is closed already", "final", "dataset open")),
            (record(Reason.CLOSED, "limit"), ("survey is closed", "final", "dataset open")),
            (record(Reason.CLOSED, "resume"), ("survey is closed", "final", "dataset open")),
            (record(Reason.CLOSED, "resolve"), ("survey is closed", "final", "dataset open")),
            (record(Reason.HAS_LIMITS, "amend"), ("survey has limits", "Remove the limits")),
            (record(Reason.ALREADY_GRANTED, "amend"), ("survey has a grant", "set-budget survey")),
        ],
    )


def test_both_values_that_disagree_are_named() -> None:
    def check_case(decision: Decision, current: CurrentDataset, words: tuple[str, ...]) -> None:
        text = refusal_words(decision, current=current)
        for each in words:
            assert each in text, text

    check_rows(
        check_case,
        [
            (
                asking("team", "blue", "0.6"),
                CurrentDataset(view("0.9"), (share("team", "red", "0.6", unused="0.55"),)),
                ("60 % of the budget cannot", "at most 35 % can be"),
            ),
            (  # the analyst's team has a share, which is smaller than what the dataset has
                asking("analyst", "ana", "0.5"),
                CurrentDataset(
                    view(),
                    (share("team", "red", "0.6"), share("analyst", "bo", "0.3", team="red")),
                    (Member("ana", ("analyst",), "red"),),
                ),
                ("50 %", "30 % remains of the share of team red"),
            ),
            (  # a membership that is over has no team
                asking("analyst", "ana", "0.5"),
                CurrentDataset(
                    view(),
                    (share("team", "red", "0.6"),),
                    (Member("ana", ("analyst",), "red", "2026-11-30T00:00:00.000Z"),),
                ),
                ("at most 40 % can be",),
            ),
            (
                asking("team", "red", "0.1"),
                CurrentDataset(view(), (share("analyst", "bo", "0.3", team="red"),)),
                ("10 %", "its analysts already have 30 % reserved"),
            ),
            (  # what the team has used of its share stays counted
                asking("team", "red", "0.9"),
                CurrentDataset(
                    view("0.6"),
                    (share("team", "red", "0.5", unused="0.2"), share("team", "blue", "0.2")),
                ),
                ("90 %", "at most 70 % can be"),
            ),
            (
                record(
                    Reason.LIMIT_NOT_POSSIBLE, "limit", scope="team", name="red", reserved="0.1"
                ),
                CurrentDataset(view(filter="advanced_2016", delta="1e-6")),
                ("filter advanced_2016", "10 %", "team red", "--epsilon"),
            ),
            (
                record(
                    Reason.LIMIT_NOT_POSSIBLE, "limit", scope="team", name="red", reserved="0.1"
                ),
                CurrentDataset(view(filter="zcdp_tight", beside="basic")),
                ("`beside: basic`", "10 %"),
            ),
            (
                record(Reason.LIMIT_NOT_POSSIBLE, "limit", scope="team", name="red", part="0.1"),
                CurrentDataset(view(filter="gdp_residue")),
                ("gdp_residue", "no parts"),
            ),
            (
                record(Reason.NOT_LOWER, "amend", policy={"filter": "basic", "epsilon": "2"}),
                CurrentDataset(view()),
                ("epsilon 2", "epsilon 1"),
            ),
            (
                record(Reason.NOT_LOWER, "amend", policy={"filter": "gdp", "epsilon": "0.5"}),
                CurrentDataset(view()),
                ("filter gdp", "filter basic"),
            ),
            (
                record(Reason.ALREADY_GRANTED, "amend"),
                CurrentDataset(view()),
                ("granted 12 mechanisms",),
            ),
            (
                record(Reason.HAS_LIMITS, "amend"),
                CurrentDataset(view(), (share("team", "red", "0.6"),)),
                ("has 1 limit,",),
            ),
        ],
    )


def test_amounts_that_do_not_explain_the_refusal_are_left_out() -> None:
    text = refusal_words(asking("team", "blue", "0.6"), current=CurrentDataset(view()))
    assert "more than remains, or more than the team's share" in text


def test_a_record_that_cannot_be_read_gets_the_words_of_its_reason() -> None:
    decision = record(Reason.LAST_OWNER, "member", member=7)
    assert refusal_words(decision).startswith(REASONS[Reason.LAST_OWNER].meaning)
