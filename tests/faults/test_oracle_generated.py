"""The oracle predicts whatever the embedded ledger decides: every filter, claim and rule."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from pathlib import Path
from random import Random
from typing import Final

import pytest

from accountant.partition.draft import Draft
from accountant.partition.operate import accept_rollback, change_key
from accountant.records.encoded_decision import EncodedDecision
from streams.evidence.key_changes import signed_change
from streams.evidence.keys import SigningKey
from streams.evidence.rollbacks import signed_rollback
from streams.evidence.signed_checkpoint import Checkpoint
from tests.faults import oracle
from tests.faults.fed_ledger import START, FedLedger
from tests.faults.forgery import History
from tests.faults.loads import POLICIES, Load, id_at
from tests.faults.oracle import Partition
from tests.nightly import rounds

pytestmark = pytest.mark.faults

EACH: Final = 3_000
SEEDS: Final = rounds(2, 250)
"""At night 750,000 decisions, as many as fit into its hour next to the other tests."""
FIRST: Final = 6
"""The loads of this seed and the next one meet each rule often enough."""
DAY_MS: Final = 86_400_000
NEVER_IN_A_LOAD: Final = {
    *("wrong_partition", "overloaded", "internal_error", "too_many_members", "too_many_limits"),
    "too_many_open",
}
"""An embedded ledger has one partition, and a load less than a million ids, 10,000 members and open
reservations of a dataset, and 1,000 limits."""


def fed(ledger: FedLedger, load: Load, count: int) -> None:
    """Send a load; restart the ledger now and then, from its cache and from decision 0."""
    for number, sent in enumerate(load.steps(count), 1):
        load.hear(ledger.send(*sent))
        if number % 100 == 0:
            ledger.reopen(without_rows=number % 400 == 0)
            ledger.send(*load.owners())


def outcomes(partition: Partition) -> Counter[tuple[str, str | None]]:
    return Counter((each["outcome"], each.get("reason")) for each in partition.decisions)


@pytest.mark.parametrize("pair", range(SEEDS // 2))
def test_every_generated_decision_is_as_predicted(pair: int, tmp_path: Path) -> None:
    judged = []
    for seed in (2 * pair + FIRST, 2 * pair + FIRST + 1):
        with FedLedger(tmp_path / f"{seed}.db") as ledger:
            fed(ledger, Load(seed, START), EACH)
            judged.append(ledger.judged())
        assert len(judged[-1].decisions) == EACH + EACH // 100
        assert outcomes(judged[-1])["granted", None] > EACH / 15
    if not pair:
        check_reach(judged)
        check_reservations(judged)


@pytest.mark.parametrize("seed", range(rounds(1, 20)))
def test_every_generated_renewal_is_as_predicted(seed: int, tmp_path: Path) -> None:
    with FedLedger(tmp_path / "ledger.db") as ledger:
        fed(ledger, Load(seed, START, renewals=0.14), EACH)
        judged = ledger.judged()
    met = outcomes(judged)
    assert met["renewed", None] > 5
    reasons = (
        *("no_lifetime", "already_renewed", "lifetime_mismatch", "beyond_lifetime"),
        *("population_in_use", "outside_lifetime"),
    )
    shared = [
        each["outcome"]
        for each in judged.decisions
        if (each.get("lifetime") or {}).get("shared") and not each["request"].get("lifetime")
    ]
    if not seed:
        assert not [each for each in reasons if not met["refused", each]]
        assert {*shared} == {"opened", "renewed"}


@pytest.mark.parametrize("seed", range(rounds(1, 20)))
def test_every_generated_ask_and_answer_is_as_predicted(seed: int, tmp_path: Path) -> None:
    with FedLedger(tmp_path / "ledger.db") as ledger:
        fed(ledger, Load(seed, START, asks=0.9), 900)
        judged = ledger.judged()
    met = outcomes(judged)
    answers = Counter(each["outcome"] for each in judged.decisions if "answers" in each)
    if not seed:
        assert met["more_asked", None] > 100
        assert min(answers[each] for each in ANSWERS) > 5, answers
        reasons = ("unknown_ask", "other_ask", "has_role", "too_many_asks", "above_ceiling")
        assert not [each for each in reasons if not met["refused", each]], met


ANSWERS: Final = ("member_set", "limit_set", "budget_set", "more_declined")
FULL: Final = {
    # A policy's budget, a claim with a cost that is no decimal, and the number that fits.
    "basic": ({"filter": "basic", "epsilon": "1"}, ("laplace", "scale", "7"), 7),
    "basic again": ({"filter": "basic", "epsilon": "2"}, ("laplace", "scale", "30"), 60),
    "zcdp": ({"filter": "zcdp", "rho": "1"}, ("gaussian", "sigma", "3"), 18),
    "unified": ({"filter": "unified_brownian", "rho": "1"}, ("brownian", "variance", "9"), 18),
    "renyi": (
        {"filter": "renyi", "epsilon": "4", "delta": "1e-6", "order": "22"},
        ("gaussian", "sigma", "11"),
        None,
    ),
    "beside": (
        {
            "filter": "split",
            "epsilon": "1",
            "epsilon_ex_post": "1",
            "delta": "1e-6",
            "beside": "basic",
        },
        ("laplace", "scale", "3"),
        6,
    ),
    "residue": (
        {"filter": "gdp_residue", "epsilon": "1", "delta": "1e-6"},
        ("gaussian", "sigma", "21"),
        None,
    ),
}


@pytest.mark.parametrize("name", FULL)
def test_a_budget_filled_with_fractions_is_predicted_to_its_last_part(
    name: str, tmp_path: Path
) -> None:
    policy, (kind, knob, value), count = FULL[name]
    with FedLedger(tmp_path / "ledger.db") as ledger:
        log = History(ledger)
        log.owner("open", "open", "ds", policy=policy)
        granted = 0
        for number in range(200):
            claim = {"type": kind, knob: value, "sensitivity": "1"}
            log.claim(str(number), "ds", claim)
            if b'"refused"' in ledger.answers[-1]:
                break
            granted += 1
            if number % 5 == 3:
                ledger.reopen(without_rows=number % 2 == 0)
        log.claim("less", "ds", {"type": kind, knob: "97.5", "sensitivity": "0.1"})
        partition = ledger.judged()
    assert count in (None, granted)
    assert any("rounded_up" in each for each in partition.decisions)


def test_the_oracle_predicts_a_batch_with_a_fraction_in_one_part(tmp_path: Path) -> None:
    with FedLedger(tmp_path / "ledger.db") as ledger:
        log = History(ledger)
        budget = {"filter": "gdp_residue", "epsilon": "5", "delta": "1e-6", "odometers": ()}
        log.owner("open", "open", "ds", policy=budget)
        parts = [
            {"type": "pure", "epsilon": "0.1"},
            {"type": "gaussian", "sigma": "3", "sensitivity": "1"},
        ]
        for number in range(3):
            log.claim(str(number), "ds", {"type": "all_of", "claims": parts})
            ledger.reopen(without_rows=number == 1)
        partition = ledger.judged()
    assert sum("rounded_up" in each for each in partition.decisions) == 3


def test_an_interactive_offer_that_would_end_the_filter_is_predicted(tmp_path: Path) -> None:
    policy = {"filter": "fully_adaptive", "epsilon": "0.05", "delta": "1e-6", "beside": "basic"}
    with FedLedger(tmp_path / "ledger.db") as ledger:
        log = History(ledger)
        log.owner("open", "open", "ds", policy=policy)
        response = {"type": "randomized_response", "epsilon": "0.0743", "delta": "0"}
        log.claim("too much", "ds", {"type": "interactive", "claim": response})
        partition = ledger.judged()
    (refused,) = [each for each in partition.decisions if each["outcome"] == "refused"]
    assert (refused["fits"][:12], refused["ends"]) == ("interactive:", "fully_adaptive")


def test_the_oracle_predicts_bounded_range_alone_and_in_batches(tmp_path: Path) -> None:
    with FedLedger(tmp_path / "ledger.db") as ledger:
        log = History(ledger)
        for name in ("alone", "batches"):
            budget = {"filter": "gdp_residue", "epsilon": "1", "delta": "1e-6"}
            log.owner(f"open {name}", "open", name, policy=budget)
        each = {"type": "bounded_range", "eta": "0.1"}
        for number in range(22):
            log.claim(f"alone {number}", "alone", each)
        for number in range(6):
            log.claim(str(number), "batches", {"type": "repeat", "claim": each, "times": 4})
        partition = ledger.judged()
    assert outcomes(partition)["granted", None] == 21 + 5
    assert outcomes(partition)["refused", "exhausted"] == 2


def check_reach(judged: list[Partition]) -> None:
    """Check that loads meet each rule of the documents often enough to say something."""
    found = sum(map(outcomes, judged), Counter[tuple[str, str | None]]())
    decisions = [each for partition in judged for each in partition.decisions]
    datasets = [each for partition in judged for each in partition.datasets.values()]
    assert min(found["member_paused", None], found["member_resumed", None]) > EACH / 400
    for name in ("repeated", "conflict", "expired", "member_set", "limit_set"):
        assert found[name, None] > EACH / 200, name
    assert min(found["member_removed", None], found["limit_removed", None]) > 1
    assert any(each.get("administrator") for each in decisions)
    through = [each for each in decisions if "via" in (each.get("request") or {})]
    assert {"granted", "refused"} <= {each["outcome"] for each in through}
    met = {reason for _, reason in found if reason}
    assert met >= REASONS - NEVER_IN_A_LOAD, REASONS - NEVER_IN_A_LOAD - met
    filters = {each.policy["filter"] for each in datasets if each.mechanisms}
    assert filters == {policy.get("filter", "zcdp_tight") for policy in POLICIES}
    assert any("crossed" in each for each in decisions)
    assert any(each.get("fits") for each in decisions)
    assert any("ends" in each for each in decisions)
    both = [each for each in datasets if "beside" in each.policy]
    assert any(each.totals["filter_ended"] for each in both)
    assert any(each.totals["without_epsilon"] for each in both)
    levels = [each["level"] for each in decisions if "level" in each]
    assert {each["what"] for each in levels} == {"limit", "pace", "reserved"}
    assert {each["scope"] for each in levels} == {"dataset", "team", "analyst", "each"}


REASONS: Final = {
    *("undecodable", "oversize", "invalid_field", "wrong_partition", "issued_in_future"),
    *("overloaded", "unknown_dataset", "already_opened", "closed", "paused", "out_of_date"),
    *("already_paused", "not_paused"),
    *("person_paused", "person_already_paused", "person_not_paused"),
    *("already_granted", "not_lower", "halted", "unit_mismatch", "claim_not_accepted"),
    *("above_cap", "exhausted", "internal_error"),
    *("not_permitted", "unknown_member", "last_owner", "too_many_members"),
    *("unknown_limit", "limit_not_possible", "over_reserved", "too_many_limits", "has_limits"),
    *("end_in_past", "beyond_team"),
    *("not_open", "already_begun", "not_begun", "not_broken", "lapsed", "beyond_maximum"),
    *("above_first", "settles_in_full", "suspended", "too_many_open"),
    "too_many_of_holder",
    "not_settled",
}


def check_reservations(partitions: list[Partition]) -> None:
    """Check that reservations end in every way, and give back to every kind of limit."""
    decisions = [each for partition in partitions for each in partition.decisions]
    of = {
        outcome: [each for each in decisions if each["outcome"] == outcome]
        for outcome in ("reserved", "begun", "settled", "voided", "resolved")
    }
    for outcome, found in of.items():
        assert len(found) > (EACH / 100 if outcome != "resolved" else 1), outcome
    for outcome in ("begun", "settled", "voided"):  # begun: under gdp_residue
        assert any("returned" in each["reservation"] for each in of[outcome]), outcome
    assert any("returned" not in each["reservation"] for each in of["settled"])
    levels = [level for each in of["settled"] + of["voided"] for level in each.get("levels", [])]
    assert {name for level in levels for name in level} >= {"totals", "paced"}
    assert any("settled" in each.get("held", {}) for each in decisions)
    assert any(each.get("guarantee") for each in decisions)


def test_a_clock_that_was_ahead_and_was_set_back_is_predicted(tmp_path: Path) -> None:
    with FedLedger(tmp_path / "ledger.db") as ledger:
        load = Load(1, START)
        fed(ledger, load, 300)
        right = ledger.clock.now()
        load.now += DAY_MS
        ledger.clock.pass_(DAY_MS)
        for sent in load.more(200):
            load.hear(ledger.send(*sent))
        load.now = right + 60_000
        ledger.set_clock_back(load.now)
        for sent in load.more(300):
            load.hear(ledger.send(*sent))
        ledger.reopen(without_rows=True)
        for sent in load.more(200):
            load.hear(ledger.send(*sent))
        partition = ledger.judged()
    found = outcomes(partition)
    assert found["clock_reset", None] == 1
    assert found["granted", None] > 70
    assert found["expired", None] > 50


def test_the_oracle_predicts_seals_and_later_decisions(tmp_path: Path) -> None:
    with FedLedger(tmp_path / "ledger.db") as ledger:
        load = Load(2, START)
        fed(ledger, load, 1_200)
        for number in range(2):
            ledger.archive(tmp_path / f"{number}.jsonl.gz")
            for sent in load.more(200):
                load.hear(ledger.send(*sent))
            ledger.reopen(without_rows=bool(number))
            for sent in load.more(200):
                load.hear(ledger.send(*sent))
        found = ledger.found()
        partition = oracle.judge_file(found, ledger.inputs)
    assert outcomes(partition)["sealed", None] == 2
    seal = next(i for i, value in enumerate(found.decisions) if b'"sealed"' in value)
    forged = re.sub(rb'"state":"sha256:..', b'"state":"sha256:??', found.decisions[seal])
    with pytest.raises(oracle.Disagreement, match="seal"):
        oracle.judge_file(
            found._replace(decisions=[*found.decisions[:seal], forged]), ledger.inputs
        )


def test_an_archived_log_goes_on_with_its_open_reservations(tmp_path: Path) -> None:
    with FedLedger(tmp_path / "ledger.db") as ledger:
        log = History(ledger)
        log.owner("open", "open", "ds", policy={"filter": "basic", "epsilon": "1"})
        claim = {"type": "pure", "epsilon": "0.1"}
        log.claim("reserve", "ds", claim, reserve={"until": "P1D"})
        grant = f"sha256:{hashlib.sha256(ledger.answers[-1]).hexdigest()}"
        log.claim("later", "ds", claim, later=3 * 3_600_000)
        ledger.archive(tmp_path / "old.jsonl.gz")
        ledger.reopen(without_rows=True)
        body = {"version": 1, "type": "void", "request_id": id_at(ledger.clock.now(), Random(1))}
        body |= {"analyst": "ana", "dataset": "ds", "grant": grant}
        voided = json.loads(ledger.send("requests", json.dumps(body).encode()))
        ledger.judged()
    assert (voided["outcome"], voided["totals"]["epsilon"]) == ("voided", "0.1")


def test_rollbacks_and_changes_of_key_are_predicted(tmp_path: Path) -> None:
    old, new = (SigningKey.create(tmp_path / name, name) for name in ("old", "new"))

    def roll_back(draft: Draft, at: int) -> EncodedDecision:
        ledger, partition = str(draft.partition.genesis.ledger), draft.partition
        newest = Checkpoint(ledger, 0, 3, partition.sequence + 5, "sha256:" + "1" * 64, at)
        lost = signed_rollback(ledger, partition, partition.sequence + 1, newest, old)
        return accept_rollback(draft, at, "an old copy", lost)

    def change(draft: Draft, at: int) -> EncodedDecision:
        ledger = str(draft.partition.genesis.ledger)
        changed = signed_change(ledger, draft.partition, new.verifier, old.verifier, old)
        return change_key(draft, at, "yearly", changed)

    with FedLedger(tmp_path / "ledger.db") as ledger:
        load = Load(3, START)
        for command in (roll_back, change):
            for sent in load.steps(60) if command is roll_back else load.more(60):
                load.hear(ledger.send(*sent))
            ledger.write(command)
        for sent in load.more(60):
            load.hear(ledger.send(*sent))
        found = ledger.found()
        partition = oracle.judge_file(found, ledger.inputs)
    assert (partition.branch, partition.key) == (4, new.verifier.text)
    for about, outcome in (("rollback", b"rolled_back"), ("key_change", b"key_changed")):
        place = next(i for i, value in enumerate(found.decisions) if outcome in value)
        values = list(found.decisions[: place + 1])
        values[place] = re.sub(rb'"signature":"....', b'"signature":"AAAA', values[place])
        with pytest.raises(oracle.Disagreement) as noticed:
            oracle.judge_file(found._replace(decisions=values), ledger.inputs)
        assert noticed.value.about == about
