"""A budget in force below a ceiling, as people and programs see it."""

from __future__ import annotations

from pathlib import Path

from accountant.views.alerts import alerts_of
from streams.client import Accountant
from tests.accountant.judged_life import Body
from tests.streams.cli.conftest import Done
from tests.streams.cli.here import run_here
from tests.streams.pages.dataset.pages_server import PagesServer
from tests.streams.pages.dataset.test_page import words

POLICY = {"filter": "basic", "epsilon": "1", "most_per_request": "1", "alert_at": ["0.5", "1"]}


def test_a_command_opens_below_a_ceiling_and_raises_up_to_it(tmp_path: Path) -> None:
    def run(*words: str) -> str:
        done = run_here(tmp_path, *words)
        return done.out + done.err

    opened = ("dataset", "open", "census", "--epsilon", "1", "--delta", "1e-6", "--by", "olga")
    assert "ceiling must be at least the budget in force, 1, got 0.5" in run(
        *opened, "--ceiling", "0.5"
    )
    run(*opened, "--ceiling", "3", "--access", "anyone")
    shown = run("dataset", "show", "census")
    assert "guarantee          ε = 3, δ = 1e-6" in shown
    assert "in force           ε = 1 of 3" in shown
    assert "0 of 1 spent, 1 left" in shown
    refused = run("dataset", "set-budget", "census", "--epsilon", "4", "--by", "olga")
    assert "Dataset census has the ceiling epsilon 3 for ever, and 4 is above it." in refused
    assert "Give the new one by `--epsilon`" in run(
        "dataset", "set-budget", "census", "--rho", "1", "--by", "olga"
    )
    assert "say how much is in force" in run("dataset", "set-budget", "census", "--by", "olga")
    assert run("dataset", "set-budget", "census", "--epsilon", "2", "--by", "olga").startswith(
        "budget_set"
    )
    assert "in force           ε = 2 of 3" in run("dataset", "show", "census")
    assert run("audit", "accountant.db").startswith("ok ")


def test_a_budget_below_what_is_spent_is_set_with_a_note_and_named_by_a_renewal(
    tmp_path: Path,
) -> None:
    def run(*words: str) -> Done:
        return run_here(tmp_path, *words)

    budget = ("--epsilon", "1", "--filter", "basic", "--most-per-request", "1", "--lifetime", "3")
    run("dataset", "open", "h::1", *budget)
    assert run("ask", "h::1", "pure:0.05", "--analyst", "ana").code == 0
    kept = run("dataset", "set-budget", "h::1", "--epsilon", "0.5")
    in_force = "note: in force is ε 0.5, before ε 1; the ceiling is 1\n"
    assert (kept.code, kept.err) == (0, in_force)
    lowering = ("dataset", "set-budget", "h::1", "--epsilon", "0.02")
    stopped = run(*lowering)
    assert stopped.code == 2
    assert (
        "nothing was done: 250 % of ε 0.02 is spent already: dataset h::1 would grant nothing "
        "more, and nothing that waits for an approval, until its budget in force is raised"
    ) in stopped.err
    lowered = run(*lowering, "--yes")
    assert lowered.code == 0
    assert lowered.err == "note: in force is ε 0.02, before ε 0.5; the ceiling is 1\n"
    asked = run("dataset", "renew", "h::1", "h::2")
    assert asked.code == 2
    assert (
        "note: h::2 will begin with the same budget in force: ε = 0.02 of 1, the ceiling to which "
        "an owner may raise it\n"
    ) in asked.err
    (tmp_path / "p.json").write_text('{"filter": "basic", "epsilon": "1"}')
    other = run("dataset", "renew", "h::1", "h::2", "--policy", str(tmp_path / "p.json"))
    assert "h::2 will begin with all of its policy's budget in force" in other.err
    assert run("dataset", "set-budget", "h::1", "--epsilon", "1").code == 0
    assert "budget in force" not in run("dataset", "renew", "h::1", "h::2").err
    assert "in force " not in run("dataset", "show", "h::1").out  # all of it is


def test_what_somebody_may_use_counts_to_the_budget_in_force(tmp_path: Path) -> None:
    def run(*words: str) -> Done:
        return run_here(tmp_path, *words)

    opening = ("--epsilon", "0.5", "--ceiling", "1", "--filter", "basic", "--beside", "none")
    shown = run("dataset", "open", "census", *opening, "--preview").out
    assert "in force     ε = 0.5 of 1, the ceiling to which an owner may raise it" in shown
    assert "ceiling, ε   1 " in shown
    run("dataset", "open", "census", *opening, "--access", "anyone")
    mine = " ".join(run("mine", "--analyst", "ana").out.split())
    assert "ana may still use 100 % of the budget (ε 0.5), by what remains" in mine
    of_ceiling = "arts of limits are parts of the ceiling, ε 1, of which ε 0.5 is in force"
    limit = run("limit", "set", "census", "--team", "red", "--part", "0.2", "--reserved", "0.1")
    assert f"note: p{of_ceiling}\n" in limit.err
    own = "may use 20 % of the ceiling (ε 0.2), has 10 % of the ceiling (ε 0.1) reserved"
    assert f"team red {own}" in limit.out
    for shows in (("limit", "list", "census"), ("dataset", "show", "census")):
        assert f"P{of_ceiling}." in " ".join(run(*shows).out.split())
    mine = " ".join(run("mine", "--analyst", "ana").out.split())
    assert "may still use 80 % of the budget (ε 0.4)" in mine
    over = run("limit", "set", "census", "--team", "blue", "--reserved", "0.5")
    assert (
        "50 % of the ceiling (ε 0.5) cannot be reserved for team blue: at most 40 % can be"
        in over.out
    )
    assert "An owner may raise the budget in force, ε 0.5, to at most 1" in over.out
    lower = run("dataset", "set-budget", "census", "--epsilon", "0.05")
    assert "Nothing was lowered: what is spent, and what is reserved for others" in lower.out
    own = ("--epsilon", "0.1", "--filter", "basic")
    assert of_ceiling not in run("limit", "set", "census", "--team", "red", *own).err


def test_a_limit_is_a_part_of_the_ceiling_in_command_refusal_and_pages(tmp_path: Path) -> None:
    with PagesServer(tmp_path) as server:
        policy = {"filter": "basic", "epsilon": "3", "most_per_request": "1"}
        server.open_for_olga("survey", access="members", **policy)
        server.enrol("survey", "ana", "analyst", team="blue")
        body = {"version": 1, "type": "budget", "by": "olga", "dataset": "survey"}
        path = "/datasets/survey/budget"
        server.done("olga", path, {**body, "budget": {"epsilon": "2"}}, "budget_set")
        server.limited("team", "blue", part="0.5", reserved="0.25")
        for name in ("olga", "ana"):
            said = words(server.page(name).text)
            assert "Limit: 50 % of the ceiling (ε 1.5)" in said
            assert "Reserved: 25 % of the ceiling (ε 0.75)" in said
        assert "75 % of the budget (ε 1.5)" in words(server.page("ana").text)
        form = words(server.page("olga").text)
        assert "The largest part of the ceiling that may be used." in form
        assert "in percent of the ceiling" in form
        preview = server.page("ana", kind="pure", pure_epsilon="1.6").text
        assert "It allows 50 % of the ceiling (ε 1.5); 0 % of the ceiling is used." in words(
            preview
        )
        server.done("olga", path, {**body, "budget": {"epsilon": "3"}}, "budget_set")
        assert "Limit: 50 % of the budget" in words(server.page("ana").text)


def test_an_alert_names_the_budget_whose_part_is_spent(tmp_path: Path) -> None:
    with Accountant(f"sqlite:///{tmp_path / 'l.db'}", analyst="ana") as ledger:
        owner = ledger.as_owner("olga")
        assert owner.open("census", POLICY, ceiling="3", as_given=True).outcome == "opened"
        # A program may start with its opening each time.
        assert owner.open("census", POLICY, ceiling="3", as_given=True).outcome == "refused"
        first = alerts_of(ledger.ask("census", "pure:0.6").decision)
        assert owner.set_budget("census", epsilon="2").outcome == "budget_set"
        second = alerts_of(ledger.ask("census", "pure:0.6").decision)
        ids = [each.alert_id for each in (*first, *second)]
        assert ids == ["census/1/epsilon=1/0.5", "census/1/epsilon=2/0.5"]
        view = ledger.dataset("census")
        assert (view.policy.epsilon, view.left["epsilon"]) == ("3", "0.8")


def test_a_server_takes_a_budget_from_owners_alone_and_shows_it(tmp_path: Path) -> None:
    with PagesServer(tmp_path) as server:
        server.open_for_olga("survey", access="members", visibility="own")
        server.enrol("survey", "ana", "analyst")

        def body(by: str, epsilon: str) -> Body:
            head = {"version": 1, "type": "budget", "by": by, "dataset": "survey"}
            return {**head, "budget": {"epsilon": epsilon}}

        path = "/datasets/survey/budget"
        for name in ("ana", "root"):
            assert server.send(name, path, body(name, "0.1")).status_code == 403, name
        ceiling = server.see("olga", "/datasets/survey").json()["policy"]["epsilon"]
        server.done("olga", path, body("olga", "0.1"), "budget_set")
        assert server.see("ana", "/datasets/survey").json()["in_force"]["epsilon"] == "0.1"
        shown = f"ε = 0.1 of {ceiling}, the ceiling to which an owner may raise it"
        assert shown in server.page("ana").text
        assert f"with ε = {ceiling}" in server.page("ana").text
