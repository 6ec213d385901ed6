"""The oracle detects each forgery of limits, period limits and reserved shares in a log."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.every_case import every_case
from tests.faults import oracle
from tests.faults.fed_ledger import FedLedger
from tests.faults.forgery import PARTITION, Forger, History, Plant, SoundLog, changed, without
from tests.faults.oracle import Disagreement

pytestmark = pytest.mark.faults

DAY = 86_400_000
POLICY = {"filter": "basic", "epsilon": "1", "odometers": [{"type": "basic"}]}


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> SoundLog:
    """Return a history in which each level charges, and each refuses."""
    with FedLedger(tmp_path_factory.mktemp("divided") / "ledger.db") as ledger:
        log = History(ledger)
        log.owner("open", "open", "ds", policy={**POLICY, "alert_at": ["0.5", "1"]})
        for name, team in (("ana", "blue"), ("ben", "blue"), ("cy", "red")):
            log.owner(f"enrol {name}", "member", "ds", member=name, roles=["analyst"], team=team)
        pace = {"part": "0.2", "period": "P1D"}
        log.owner("pace", "limit", "ds", scope="dataset", pace=pace)
        log.owner("team", "limit", "ds", scope="team", name="blue", part="0.5", reserved="0.45")
        log.owner("share", "limit", "ds", scope="analyst", name="ana", part="0.4", reserved="0.1")
        own = {"filter": "zcdp", "rho": "0.01"}
        log.owner("each", "limit", "ds", scope="each", name="blue", policy=own)
        log.owner("too much", "limit", "ds", scope="team", name="red", reserved="0.8")
        log.ask("grant", "ds", "0.1")
        log.ask("under the default", "ds", "0.05", analyst="ben")
        log.ask("beyond the pace", "ds", "0.1")
        log.ask("beyond the default", "ds", "0.14", analyst="ben", later=DAY)
        log.ask("next day", "ds", "0.15")
        log.ask("another day", "ds", "0.1", later=DAY)
        log.ask("beyond the limit", "ds", "0.06", later=DAY)
        log.owner("no pace", "limit", "ds", scope="dataset")
        log.ask("beyond what is free", "ds", "0.58", analyst="cy")
        log.owner("move", "member", "ds", member="ana", roles=["analyst"], team="red")
        log.owner("keep", "limit", "ds", scope="analyst", name="ben", reserved="0.01")
        log.ask("through a share elsewhere", "ds", "0.01", analyst="ana")
        log.owner("again", "limit", "ds", scope="analyst", name="ana", part="0.6", reserved="0.1")
        log.owner("move ben", "member", "ds", member="ben", roles=["analyst"], team="red")
        log.ask("from elsewhere", "ds", "0.005", analyst="ben")
        log.owner("not lowered", "amend", "ds", policy={**POLICY, "epsilon": "0.9"})
        log.owner("nothing to remove", "limit", "ds", scope="team", name="red")
        return SoundLog(ledger.inputs, ledger.found(), log.places)


def entry(name: str, scope: str, forger: Forger) -> dict[str, Any]:
    (found,) = [each for each in forger[name]["levels"] if each["scope"] == scope]
    return found  # type: ignore[no-any-return]


def in_level(name: str, scope: str, change: Callable[[dict[str, Any]], object]) -> Plant:
    """Change one limit in one decision."""
    return lambda forger: change(entry(name, scope, forger))


def without_level(name: str, scope: str) -> Plant:
    return lambda forger: forger[name]["levels"].remove(entry(name, scope, forger))


def in_limit(name: str, change: Callable[[dict[str, Any]], object]) -> Plant:
    return lambda forger: change(forger[name]["limit"])


def granted(name: str) -> Plant:
    """Turn a refusal into a grant."""

    def plant(forger: Forger) -> None:
        for field in ("reason", "asked", "fits", "level", "left_at"):
            forger[name].pop(field, None)
        forger[name].update(outcome="granted", cost={"epsilon": "0.1", "delta": "0"})

    return plant


def refused(name: str, reason: str) -> Plant:
    def plant(forger: Forger) -> None:
        forger[name].pop("limit", None)
        forger[name].update(outcome="refused", reason=reason)

    return plant


def row_key(scope: str, name: str, team: str = "") -> bytes:
    within = f'"team":"{team}",' if team else ""
    return f'{{"dataset":"ds","scope":"{scope}",{within}"name":"{name}"}}'.encode()


def in_row(key: bytes, change: Callable[[dict[str, Any]], object]) -> Plant:
    """Change a row of `state`; the checksum of the rows stays as it was."""

    def plant(forger: Forger) -> None:
        row = copy.deepcopy(json.loads(forger.rows[key]))
        change(row)
        forger.rows[key] = json.dumps(row, separators=(",", ":")).encode()

    return plant


BLUE, ANA, BEN = row_key("team", "blue"), row_key("analyst", "ana"), row_key("each", "ben", "blue")

FORGED: dict[str, tuple[Plant, str, str]] = {
    "a team's total lowered": (
        in_level("grant", "team", lambda e: e["totals"].update(epsilon="0.01")),
        "levels", "'epsilon': '0.1'"),
    "an analyst's total lowered": (
        in_level("next day", "analyst", lambda e: e["totals"].update(epsilon="0.2")),
        "levels", "'epsilon': '0.25'"),
    "a total under a default lowered": (
        in_level("under the default", "each", lambda e: e["totals"].update(rho="0.001")),
        "levels", "'rho': '0.00124"),
    "a version changed": (
        in_level("grant", "team", lambda e: e.update(version=2)), "levels", "'version': 1"),
    "a missing version": (
        in_level("grant", "analyst", lambda e: e.pop("version")), "levels", "'version': 1"),
    "a window moved": (
        in_level("next day", "dataset", lambda e: e.update(window=2)), "levels", "'window': 1"),
    "the use of a period restarts": (
        in_level("under the default", "dataset", lambda e: e["paced"].update(epsilon="0.05")),
        "levels", "'epsilon': '0.15'"),
    "a share that was not drawn on": (
        in_level("grant", "team", lambda e: e["used"].update(epsilon="0")),
        "levels", "'epsilon': '0.1'"),
    "a share that somebody takes along not drawn on": (
        lambda forger: forger["from elsewhere"]["levels"].pop(0), "levels", "'name': 'blue'"),
    "a missing threshold": (
        in_level("next day", "team", lambda e: e.pop("crossed", None)), "levels", "'crossed'"),
    "a level left out": (without_level("grant", "team"), "levels", "'team'"),
    "no limit in the grant": (without("grant", "levels"), "levels", "'team'"),
    "a level that is none": (
        changed("from elsewhere", levels=[{"scope": "dataset", "version": 2}]),
        "levels", "'blue'"),
    "a part raised": (in_limit("team", lambda e: e.update(part="0.6")), "limit", "'0.5'"),
    "the budget of a part raised": (
        in_limit("team", lambda e: e["budget"].update(epsilon="0.6")), "limit", "'0.5'"),
    "the budget of a filter of its own raised": (
        in_limit("each", lambda e: e["budget"].update(rho="0.02")), "budget", "0.01"),
    "a share removed": (
        in_limit("team", lambda e: e.pop("reserved")), "limit", "'reserved'"),
    "a share in another team": (
        in_limit("share", lambda e: e["reserved"].update(team="red")), "limit", "'blue'"),
    "a pace removed": (in_limit("pace", lambda e: e.pop("pace")), "limit", "'pace'"),
    "the version of a limit changed": (
        in_limit("again", lambda e: e.update(version=1)), "limit", "'version': 2"),
    "a limit dropped": (
        lambda forger: forger.decisions.remove(forger["no pace"]), "left_at", "pace_left"),
    "a limit not carried out": (refused("team", "over_reserved"), "outcome", "limit_set"),
    "a removal not carried out": (
        refused("no pace", "unknown_limit"), "outcome", "limit_removed"),
    "a share above what is left": (
        changed("too much", outcome="limit_set"), "outcome", "refused over_reserved"),
    "a refusal by a pace undone": (granted("beyond the pace"), "outcome", "refused exhausted"),
    "a refusal by a limit undone": (granted("beyond the limit"), "outcome", "refused exhausted"),
    "a refusal by a default undone": (
        granted("beyond the default"), "outcome", "refused exhausted"),
    "what is kept for others given away": (
        granted("beyond what is free"), "outcome", "refused exhausted"),
    "a refusal that names another level": (
        changed("beyond the pace", level={"scope": "team", "name": "blue", "what": "limit"}),
        "level", "'pace'"),
    "a refusal that names no level": (without("beyond the pace", "level"), "level", "'pace'"),
    "a refusal that offers more than a level has": (
        changed("beyond the default", fits="pure:0.2"), "fits", "largest"),
    "more left at a level": (
        lambda forger: forger["beyond the limit"]["left_at"][-1]["left"].update(epsilon="0.4"),
        "left_at", "'epsilon': '0.05'"),
    "a lowered budget with limits": (
        changed("not lowered", reason="not_lower"), "reason", "already_granted"),
    "an amendment where there is nothing to remove": (
        changed("nothing to remove", reason="out_of_date"), "reason", "unknown_limit"),
    "a row with less counted": (
        in_row(BLUE, lambda r: r["counted"]["totals"].update(epsilon="0.1")),
        "state", '"counted"'),
    "a row with less drawn": (
        in_row(BLUE, lambda r: r["used"]["totals"].update(epsilon="0")), "state", '"used"'),
    "a row of another version": (
        in_row(ANA, lambda r: r["limit"].update(version=1)), "state", '"version":2'),
    "a row with less under a default": (
        in_row(BEN, lambda r: r["counted"]["totals"].update(rho="0")), "state", '"rho":"0.00'),
    "a row lost": (lambda forger: forger.rows.pop(BEN), "state", '"each"'),
    "a removed limit's row lost": (
        lambda forger: forger.rows.pop(row_key("dataset", "")), "state", '"dataset"'),
    "a dataset with fewer limits": (
        in_row(b"ds", lambda r: r.update(limits=1)), "state", "4"),
    "a partition with fewer levels": (
        in_row(PARTITION, lambda r: r.update(levels=1)), "state", ""),
}  # fmt: skip


def test_the_sound_log_is_as_predicted(sound: SoundLog) -> None:
    partition = oracle.judge_file(sound.found, sound.inputs)
    refusals = [each["level"] for each in partition.decisions if "level" in each]
    assert [(each["scope"], each["what"]) for each in refusals] == [
        ("dataset", "pace"),
        ("each", "limit"),
        ("analyst", "limit"),
        ("dataset", "reserved"),
    ]


@every_case("name", FORGED)
def test_each_forgery_of_a_log_is_detected_and_named(sound: SoundLog, name: str) -> None:
    plant, about, predicted = FORGED[name]
    forger = Forger(sound)
    plant(forger)
    with pytest.raises(Disagreement) as noticed:
        oracle.judge_file(forger.found(), sound.inputs)
    assert noticed.value.about == about, noticed.value
    assert predicted in str(noticed.value.predicted), noticed.value
