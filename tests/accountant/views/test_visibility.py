"""What a decision shows of limits' thresholds: as much as their alerts do."""

from __future__ import annotations

import json
from typing import Any

from accountant.records.header import decode_header
from accountant.records.parts import lines_by_dataset
from accountant.views.visibility import WHOLE, DatasetAccess, redact_decision
from tests.accountant.reservations.scene import Scene
from tests.accountant.world import code

TEAMS = {"ana": "red", "ben": "red", "carl": "blue"}


def divided(*others: str) -> Scene:
    """Return datasets with limits of two teams and of each analyst, all used to a half."""
    made = Scene(filter="basic", epsilon="10", delta="1e-6", alert_at=["1"])
    for dataset in others:
        made.open(dataset, filter="basic", epsilon="10", delta="1e-6", alert_at=["0.1"])
    for dataset in ("census", *others):
        for name, team in TEAMS.items():
            made.owners("member", dataset=dataset, member=name, roles=["analyst"], team=team)
        for team in ("red", "blue"):
            for scope in ("team", "each"):
                made.limit(scope, team, part="0.1", dataset=dataset)
    return made


def access(name: str, team: str | None = None) -> DatasetAccess:
    return DatasetAccess(name, sees_all=False, sees_requests=True, team=team)


def redact(value: bytes, viewer: DatasetAccess) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(redact_decision(viewer, decode_header(value), value))
    return found


def amended() -> bytes:
    made = divided()
    for name in TEAMS:
        assert code(made.ask("pure:0.1", analyst=name)) == "granted"
    assert code(made.amend(alert_at=["0.1"])) == "amended"
    return made.log[-1]


def labels(decision: dict[str, Any]) -> set[str]:
    return {f"{each['name']} {each.get('analyst', '')}" for each in decision.get("reached", [])}


def test_an_amendment_shows_each_caller_the_limits_whose_alerts_they_see() -> None:
    value = amended()
    found = {name: labels(redact(value, access(name, team))) for name, team in TEAMS.items()}
    assert found == {
        "ana": {"red ", "red ana"},
        "ben": {"red ", "red ben"},
        "carl": {"blue ", "blue carl"},
    }
    assert labels(redact(value, access("eng"))) == set()
    whole = redact(value, WHOLE)
    assert labels(whole) == {"red ", "blue ", "red ana", "red ben", "blue carl"}
    assert whole["hash"]


def test_a_missing_hash_does_not_reveal_that_a_limit_was_reached() -> None:
    made = divided()
    assert code(made.amend(alert_at=["0.1"])) == "amended"
    nothing, something = redact(made.log[-1], access("eng")), redact(amended(), access("eng"))
    assert nothing.keys() == something.keys()
    assert "hash" not in nothing


def test_how_many_more_limits_were_reached_is_for_those_who_see_all() -> None:
    value = json.dumps({**json.loads(amended()), "more_reached": 7}).encode()
    assert redact(value, WHOLE)["more_reached"] == 7
    assert "more_reached" not in redact(value, access("ana", "red"))


def test_a_grant_hides_thresholds_of_limits_from_colleagues_without_them() -> None:
    made = divided()
    made.amend(alert_at=["0.1"])
    made.member("eng", "engine")
    assert code(made.ask("pure:0.4", analyst="ana", via="eng")) == "granted"
    value = made.log[-1]
    own = [{"crossed": each["crossed"]} for each in redact(value, WHOLE)["levels"]]
    assert own == [{"crossed": ["0.1"]}] * 2

    def crossed(name: str, team: str | None) -> list[tuple[str, bool, bool]]:
        levels = redact(value, access(name, team))["levels"]
        return [(each["scope"], "crossed" in each, "spent_ratio" in each) for each in levels]

    assert crossed("ana", "red") == [("team", True, True), ("each", True, True)]
    assert crossed("eng", None) == crossed("ana", "red"), "who sent it has the whole answer"
    assert crossed("ben", "red") == [("team", True, True), ("each", False, False)]
    assert crossed("carl", "blue") == [("team", False, False), ("each", False, False)]
    assert "hash" in redact(value, access("ana", "red"))
    assert "hash" not in redact(value, access("ben", "red"))


def test_a_grant_over_several_datasets_hides_thresholds_too() -> None:
    made = divided("returns")
    made.amend(alert_at=["0.1"])
    made.ask("pure:0.4", analyst="ana", other_datasets=["returns"])
    value = made.log[-1]
    parts = lines_by_dataset(decode_header(value), value)
    assert len(parts) == 2
    for line, own in parts:
        seen = json.loads(redact_decision(access("carl", "blue"), line, own))
        assert [each["scope"] for each in seen["levels"]] == ["team", "each"]
        assert not any(each.keys() & {"crossed", "spent_ratio"} for each in seen["levels"])
        whole = json.loads(redact_decision(WHOLE, line, own))
        assert all(each["crossed"] == ["0.1"] for each in whole["levels"])
