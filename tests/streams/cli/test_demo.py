from __future__ import annotations

from decimal import Decimal

import pytest

from accountant.claims import check_claim
from streams.cli.demo import DATASETS, week
from streams.cli.demo.teams import DIVISIONS, TEAM_OF, TEAMS
from streams.cli.demo.week import DAYS
from tests.every_case import every_case
from tests.patience import PATIENCE_S

LEVELS = {"team/limit", "each/limit", "team/pace", "dataset/reserved"}


def decided(accountant, name, *arguments):
    """Run the demo on a file of its own, and return its decisions in the order of the log."""
    done = accountant("demo", "--file", name, *arguments)
    assert done.code == 0, done.err
    return accountant("log", "export", "--url", f"sqlite:///{name}").rows


def refusals_by_level(decisions):
    """Return dataset, level and analyst of each request that was refused at a level."""
    for decision in decisions:
        level = decision.get("level")
        if level is not None:
            assert (decision["outcome"], decision["reason"]) == ("refused", "exhausted")
            name = decision["dataset"].rsplit("-", 1)[0]
            where = f"{level['scope']}/{level['what']}"
            yield name, where, level.get("name"), decision["request"]["analyst"]


def test_the_screen_has_at_most_25_lines_and_says_what_it_shows(accountant):
    done = accountant("demo", COLUMNS="80")
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert len(lines) <= 25, done.out
    assert max(map(len, lines)) <= 85, done.out
    assert lines[0].endswith("five analysts in two teams send 400 requests to 3 datasets.")
    for name in ("census", "clinic", "shop"):
        (row,) = [line for line in lines if line.startswith(f" {name} ")]
        assert row.count("%") == len(DAYS), row
    assert "319 granted, 75 refused (65 did not fit), 6 repeated" in done.out
    # Genesis, three openings, five members and a few limits of each, and the requests.
    every = 1 + 3 + 3 * 5 + len(DIVISIONS) + 400
    assert f"ok: {every} decisions were decided again" in done.out
    assert "--verbose" in lines[-1]


def test_the_moment_a_budget_runs_out_is_shown_with_what_would_fit(accountant):
    lines = accountant("demo").out.splitlines()
    at = lines.index("the moment a budget runs out, which nobody can raise")
    asked, cost, offered = lines[at + 1 : at + 4]
    day, _, analyst, asks, dataset = asked.split()[:5]
    assert (day in DAYS, analyst in TEAM_OF, asks) == (True, True, "asks")
    assert dataset in {opening.dataset for opening in DATASETS}
    spent, left = cost.split("costs ε ")[1].split(" is left")[0].split(", and ")
    assert Decimal(spent) > Decimal(left)
    assert "laplace:scale=" in offered


def test_the_first_refusal_by_each_limit_is_shown_with_the_limit(accountant):
    done = accountant("demo", "--json")
    shown = done.out.split("the first refusal by each limit\n", 1)[1].splitlines()
    for line, (dataset, limit) in zip(
        shown[: len(DIVISIONS)],
        (
            ("census", "team product may use 25 %"),
            ("shop", "each analyst of team research may use 25 %"),
            ("clinic", "50 % is reserved for team product"),
            ("shop", "team product may use 30 % every 7 days (until 2"),
        ),
        strict=True,
    ):
        analyst = line.split()[2]
        assert analyst in TEAM_OF
        assert f" {analyst} on {dataset}: {limit}" in line
    assert set(done.json["exhausted_by"]) == {*LEVELS, "dataset"}
    assert sum(done.json["exhausted_by"].values()) == done.json["refused"]["exhausted"]


def test_verbose_shows_the_limit_of_each_team_with_what_is_used_and_left(accountant):
    done = accountant("demo", "--verbose")
    table = done.out.split("teams on Sun evening", 1)[1].split("the moment", 1)[0]
    rows = [line.split("  ") for line in table.splitlines() if " %" in line]
    shown = [tuple(cell.strip() for cell in row if cell.strip())[:3] for row in rows]
    assert shown == [
        ("research: ana", "shop", "25 % of the budget each"),
        ("research: ben", "shop", "25 % of the budget each"),
        ("research: chloe", "shop", "25 % of the budget each"),
        ("product", "census", "25 % of the budget"),
        ("product", "clinic", "50 % of the budget reserved"),
        ("product", "shop", "30 % of the budget every 7 days"),
    ]
    assert table.count("again from 2") == 1
    assert table.count("intrinsic time") == 4


def test_each_limit_refuses_and_none_is_exceeded(accountant):
    decisions = decided(accountant, "week.db")
    found = set(refusals_by_level(decisions))
    assert {(name, where, of) for name, where, of, _ in found} == {
        ("census", "team/limit", "product"),
        ("clinic", "dataset/reserved", None),
        ("shop", "each/limit", "research"),
        ("shop", "team/pace", "product"),
    }
    # Whoever is refused is who the level is about; what is reserved refuses the others.
    for _, where, of, analyst in found:
        assert analyst in TEAMS["research" if where == "dataset/reserved" else of]
    limits = {
        (each["dataset"], each["limit"]["scope"], each["limit"]["name"]): each["limit"]
        for each in decisions
        if each["outcome"] == "limit_set"
    }
    assert len(limits) == len(DIVISIONS)
    for decision in decisions:
        for level in decision.get("levels", ()):
            limit = limits[decision["dataset"], level["scope"], level["name"]]
            for used, budget in (
                (level.get("totals"), limit.get("budget")),
                (level.get("paced"), limit.get("pace", {}).get("budget")),
            ):
                assert (used is None) == (budget is None)
                for name, amount in (used or {}).items():
                    assert Decimal(amount) <= Decimal(budget[name])


def test_an_analyst_who_is_no_member_is_refused(accountant):
    decisions = decided(accountant, "week.db", "--requests", "1")
    opened = [each["dataset"] for each in decisions if each["outcome"] == "opened"]
    (name,) = [each for each in opened if each.startswith("shop-")]
    asked = accountant(
        *("ask", name, "pure:0.001", "--analyst", "zoe", "--unit", "customer", "--json"),
        *("--url", "sqlite:///week.db"),
    )
    assert (asked.code, asked.json["reason"]) == (1, "not_permitted")


def test_every_run_decides_the_same(accountant):
    def decisions_of(name):
        return [
            (each["request"], each["outcome"], each.get("reason"), each.get("level"))
            for each in without_ids(decided(accountant, name))
        ]

    def without_ids(decisions):
        for each in decisions:
            request = each.get("request", {})
            for field in ("request_id", "dataset"):
                request.pop(field, None)
            yield {**each, "request": request}

    assert decisions_of("one.db") == decisions_of("another.db")


def test_the_week_is_decided_shown_and_audited(accountant):
    done = accountant("demo", "--verbose", "--json")
    assert done.code == 0, done.err
    result = done.json
    assert set(result) >= {"requests", "granted", "refused", "audit", "seconds"}
    assert (result["requests"], result["audit"]) == (400, "ok")
    others = sum(result.get(name, 0) for name in ("repeated", "conflict", "expired", "invalid"))
    assert result["granted"] + sum(result["refused"].values()) + others == 400
    # One of them is the first of a piece of 20 requests: it repeats what was sent before that.
    assert result["repeated"] == sum(ask.again for ask in week())
    reasons = {"exhausted", "unit_mismatch", "claim_not_accepted", "unknown_dataset"}
    assert set(result["refused"]) == reasons
    assert "would fit: gaussian:sigma=" in done.out
    assert "one_sided_mixture" in done.out
    assert "Fri evening" in done.out
    assert not list(accountant.directory.iterdir())  # the ledger was a temporary one


def test_a_file_keeps_the_ledger_for_audit_and_watch(accountant):
    done = accountant("demo", "--file", "week.db", "--requests", "50", "--json")
    assert (done.code, done.json["requests"]) == (0, 50)
    assert accountant("audit", "week.db").code == 0
    assert accountant("watch", "--once", "--url", "sqlite:///week.db").out.count("census") == 1
    assert accountant("demo", "--file", "week.db", "--requests", "50").code == 0


def test_a_running_ledger_is_named_with_what_stays_there_and_what_is_skipped(opened, tmp_path):
    serve = opened.start("serve", "--port", "0")
    try:
        address = serve.stdout.readline().split()[-1]
        done = opened("demo", "--url", address, "--requests", "5", "--json")
    finally:
        serve.terminate()
        serve.communicate(timeout=PATIENCE_S)
    assert (done.code, done.json["audit"]) == (0, "skipped"), done.err
    names = done.out.split("opens ", 1)[1].split(" at ")[0].split(", ")
    assert "ends without an audit" in done.out
    listed = [row["dataset"] for row in opened("dataset", "list", "--json").rows]
    assert sorted(listed) == sorted(["census", *names])


def test_more_requests_have_the_same_outcomes(accountant):
    done = accountant("demo", "--requests", "3000", "--json")
    assert (done.code, done.json["requests"], done.json["audit"]) == (0, 3000, "ok")
    assert done.json["granted"] > 2000
    assert done.json["refused"]["exhausted"] > 100
    assert set(done.json["exhausted_by"]) == {*LEVELS, "dataset"}


@pytest.mark.parametrize("arguments", [("--kafka", "--file", "x"), ("--requests", "0")])
def test_wrong_usage(accountant, arguments):
    assert accountant("demo", *arguments).code == 2


@every_case("requests", [1, 2, 41, 400, 10_000])
def test_the_week_is_the_same_every_time_and_its_claims_are_sound(requests):
    asks = week(requests)
    assert len(asks) == requests
    assert asks == week(requests)
    assert asks != week(requests, seed=21)
    assert [ask.day for ask in asks] == sorted(ask.day for ask in asks)
    for claim in {ask.claim for ask in asks}:
        check_claim(claim)


def test_each_analyst_is_in_one_team_and_each_dataset_has_limits():
    assert len(TEAMS) == 2
    assert set(TEAM_OF) == {ask.analyst for ask in week()}
    assert len(TEAM_OF) == sum(map(len, TEAMS.values()))
    assert {each.dataset for each in DIVISIONS} == {opening.dataset for opening in DATASETS}
    assert all(opening.policy.access == "members" for opening in DATASETS)


def test_the_week_has_five_analysts_three_datasets_and_all_kinds_of_claims():
    asks = week()
    assert {ask.analyst for ask in asks} == {"ana", "ben", "chloe", "dev", "eve"}
    assert {opening.dataset for opening in DATASETS} <= {ask.dataset for ask in asks}
    kinds = {str(ask.claim.__struct_config__.tag) for ask in asks}
    assert kinds >= {"gaussian", "laplace", "bounded_range", "randomized_response", "repeat"}
    assert any(ask.again for ask in asks)
