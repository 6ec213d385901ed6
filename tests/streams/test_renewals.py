"""A renewal by command, client and server: what follows, in which order, and what completes it."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from accountant.errors import RequestInvalid
from accountant.records.outcomes import Outcome
from streams.client import Accountant
from streams.client._sync.sender import RequestSender
from tests.accountant.judged_life import Body
from tests.streams.cli.here import run_here
from tests.streams.pages.dataset.pages_server import PagesServer

POLICY = {"filter": "basic", "epsilon": "1", "delta": "1e-6", "access": "anyone"}
LIFETIME = {"epsilon": "3", "delta": "1e-5"}


def with_limits(ledger: Accountant) -> Any:
    """Open a dataset with members and limits of each scope; return its owner's calls."""
    owner = ledger.as_owner("olga")
    assert owner.open("census", POLICY, lifetime=LIFETIME, as_given=True).outcome == "opened"
    owner.set_member("census", "ana", roles=["analyst"], team="red")
    owner.set_member("census", "bo", roles=["analyst", "auditor"])
    owner.set_member("census", "gone", roles=["analyst"])
    owner.remove_member("census", "gone")
    owner.set_limit("census", "team", "red", part="0.5", reserved="0.4")
    owner.set_limit("census", "analyst", "ana", reserved="0.3")
    owner.set_limit("census", "each", "red", part="0.2")
    owner.set_limit("census", "dataset", pace=("0.1", "P1D"))
    return owner


def limits_of(ledger: Accountant, dataset: str) -> list[tuple[Any, ...]]:
    return [
        (each.scope, each.name, each.part, each.pace and each.pace.part, each.reserved)
        for each in ledger.limits(dataset)
    ]


def test_a_renewal_brings_limits_members_and_access_along(tmp_path: Path) -> None:
    with Accountant(f"sqlite:///{tmp_path / 'l.db'}", analyst="ana") as ledger:
        owner = with_limits(ledger)
        sent = list[tuple[str, str]]()
        submit = RequestSender.send_record

        def noting(self: Any, record: Any, call: Any) -> Any:
            sent.append((record.kind, str(record.fields.get("scope", ""))))
            return submit(self, record, call)

        with mock.patch.object(RequestSender, "send_record", noting):
            assert owner.renew("census", "census::2").outcome == "renewed"
        kinds = [kind if not scope else f"{kind} {scope}" for kind, scope in sent]
        assert kinds == [
            *("renew", "pause", "limit dataset", "limit team", "limit each"),
            *("member", "member", "limit analyst", "amend", "resume"),
        ]
        assert limits_of(ledger, "census::2") == limits_of(ledger, "census")
        assert ledger.members("census::2") == ledger.members("census")
        view = ledger.dataset("census::2")
        assert (view.policy.access, view.state, view.generation) == ("anyone", "open", 2)
        assert ledger.ask("census::2", "pure:0.01").granted
        with mock.patch.object(RequestSender, "send_record", noting):
            sent.clear()
            owner.renew("census", "census::2")
        assert [kind for kind, _ in sent] == ["renew", "resume"]


def test_a_repeat_completes_a_renewal_that_was_cut_off(tmp_path: Path) -> None:
    """Each cut leaves the new generation closed to everybody, until another run completes it."""
    for cut in range(1, 10):
        with Accountant(f"sqlite:///{tmp_path / f'{cut}.db'}", analyst="ana") as ledger:
            owner = with_limits(ledger)
            send, count = RequestSender.send_record, 0

            def cutting(self: Any, record: Any, call: Any, send: Any = send, cut: int = cut) -> Any:
                nonlocal count
                count += 1
                if count > cut:
                    raise KeyboardInterrupt
                return send(self, record, call)

            with (
                mock.patch.object(RequestSender, "send_record", cutting),
                pytest.raises(KeyboardInterrupt),
            ):
                owner.renew("census", "census::2")
            asked = ledger.ask("census::2", "pure:0.01")
            assert str(asked.reason) in {"not_permitted", "paused"}, cut
            owner.renew("census", "census::2")
            assert limits_of(ledger, "census::2") == limits_of(ledger, "census"), cut
            assert ledger.members("census::2") == ledger.members("census"), cut
            assert ledger.dataset("census::2").state == "open", cut
            assert ledger.ask("census::2", "pure:0.01").granted, cut


def test_a_later_repeat_takes_nothing_back(tmp_path: Path) -> None:
    with Accountant(f"sqlite:///{tmp_path / 'l.db'}", analyst="ana") as ledger:
        owner = with_limits(ledger)
        owner.renew("census", "census::2")
        owner.remove_member("census::2", "bo")
        owner.remove_limit("census::2", "team", "red")
        owner.pause("census::2")
        owner.renew("census", "census::2")
        assert "bo" not in [each.member for each in ledger.members("census::2")]
        assert ("team", "red") not in [each[:2] for each in limits_of(ledger, "census::2")]
        assert ledger.dataset("census::2").paused


@pytest.mark.filterwarnings("default::streams.errors.AccountantWarning")
def test_a_limit_that_the_new_filter_refuses_is_named(tmp_path: Path) -> None:
    with Accountant(f"sqlite:///{tmp_path / 'l.db'}", analyst="ana") as ledger:
        owner = with_limits(ledger)
        other = {**POLICY, "filter": "gdp_residue"}
        with pytest.warns(UserWarning, match="limit of team red of census was not brought along"):
            done = owner.renew("census", "census::2", other, as_given=True)
        assert done.outcome == "renewed"
        assert ledger.dataset("census::2").state == "open"


def test_an_opening_like_another_dataset_renews_nothing(tmp_path: Path) -> None:
    with Accountant(f"sqlite:///{tmp_path / 'l.db'}", analyst="ana") as ledger:
        owner = with_limits(ledger)
        for _ in range(2):
            decision = owner.open("copy", like="census", as_given=True)
            view = ledger.dataset("copy")
            assert (view.policy.epsilon, view.policy.access, view.state) == ("1", "anyone", "open")
            assert view.lifetime is not None
            assert not view.lifetime
            assert limits_of(ledger, "copy") == limits_of(ledger, "census")
        assert decision.outcome is Outcome.REFUSED
        assert not ledger.dataset("census").closed
        assert owner.renew("copy", "copy::2").reason == "no_lifetime"


def test_a_repeated_opening_compares_lifetimes(tmp_path: Path) -> None:
    from streams.client import PolicyDiffers

    with Accountant(f"sqlite:///{tmp_path / 'l.db'}") as ledger:
        owner = ledger.as_owner("olga")
        for _ in range(2):
            owner.open("census", POLICY, lifetime=LIFETIME, as_given=True)
        with pytest.raises(PolicyDiffers, match="lifetime: has epsilon 3, delta 1e-5"):
            owner.open("census", POLICY, lifetime={"epsilon": "4", "delta": "1e-5"}, as_given=True)


def test_a_command_says_what_a_renewal_does_and_completes_it(tmp_path: Path) -> None:
    def run(*words: str) -> str:
        done = run_here(tmp_path, *words)
        return done.out + done.err

    by = ("--by", "olga")
    budget = ("--epsilon", "1", "--delta", "1e-6", "--population", "city")
    lifetime = ("--lifetime", "3", "--lifetime-delta", "1e-5")
    whole = ("--lifetime", "1", "--lifetime-delta", "1e-5", "--access", "anyone", *by)
    alone = run("dataset", "open", "alone", "--epsilon", "1", "--delta", "1e-6", *whole)
    assert "remain for later generations: too little to renew alone as it is" in alone
    like = run("dataset", "open", "twin", "--like", "alone", *by, "--new")
    assert "the lifetime of alone is not copied: twin can never be renewed" in like
    wrong = run("dataset", "open", "census", *budget, "--lifetime", "3", *by)
    assert "--lifetime-delta must be at least the delta that the policy guarantees" in wrong
    assert "this dataset alone guarantees delta 0.000001, at its ceiling if it has one" in wrong
    opened = run("dataset", "open", "census", *budget, *lifetime, "--access", "anyone", *by)
    assert "note: its lifetime is ε = 3, δ = 1e-5 for all generations since census, of" in opened
    assert "guarantee          ε = 3, δ = 1e-5 for all generations" in run(
        "dataset", "show", "census"
    )
    run("reservation", "begin", "census", "sha256:" + "0" * 64)
    run("dataset", "amend", "census", "--approve-above", "0.01", *by)
    run("ask", "census", "pure:0.05", "--analyst", "ana")
    notes = run("dataset", "renew", "census", "census::2", *by)
    assert "census will be closed for ever, and census::2 will open in its place" in notes
    assert "1 request on census waits for an approval: answer before the renewal" in notes
    assert "population city keeps its joint guarantee, ε = 3" in notes
    assert "nothing was done: census::2 would take the place of census, for ever" in notes
    assert "add --yes if it is meant" in notes
    took = "of the lifetime, census took ε = 1, δ = 1e-6; census::2 will take ε = 1, δ = 1e-6; "
    assert f"{took}ε = 1, δ = 0.000008 will remain afterwards" in notes
    assert "budget in force" not in notes
    assert not run("dataset", "show", "census").count("closed")
    assert run("dataset", "renew", "census", "census::2", "--yes", *by).find("renewed") >= 0
    assert "renewed as census::2" in run("dataset", "show", "census")
    again = run("dataset", "renew", "census", "census::3", *by)
    assert "Dataset census was renewed as census::2, and only the latest generation" in again
    (tmp_path / "larger.json").write_text('{"epsilon": "2", "delta": "1e-6", "population": "city"}')
    larger = ("--policy", str(tmp_path / "larger.json"))
    asked = " ".join(run("dataset", "renew", "census::2", "census::3", *larger, *by).split())
    assert (
        "this will be refused: census::3 would take ε = 2, δ = 1e-6 of the lifetime, and ε = 1, "
        "δ = 0.000008 remain of it"
    ) in asked
    assert "closed for ever" not in asked
    assert "add --yes" not in asked
    (tmp_path / "cap.json").write_text(
        '{"epsilon": "1", "delta": "1e-6", "population": "city", "most_per_request": "0.5"}'
    )
    policy = ("--policy", str(tmp_path / "cap.json"))
    unlike = " ".join(run("dataset", "renew", "census::2", "census::3", *policy, *by).split())
    assert "census::3 will differ from census::2: " in unlike
    assert "becomes 0.5" in unlike
    beyond = run("dataset", "renew", "census::2", "census::3", *larger, "--yes", *by)
    assert "and epsilon 1, delta 0.000008 remain of it" in " ".join(beyond.split())
    assert "--schema goes with --policy" in run(
        "dataset", "renew", "census::2", "census::3", "--schema", "s.json", *by
    )
    assert run("dataset", "open", "copy", "--like", "census::2", "--new", *by).find("opened") >= 0
    assert run("audit", "accountant.db").startswith("ok ")


def test_a_server_takes_a_renewal_from_owners_and_shows_each_dataset_to_its_own(
    tmp_path: Path,
) -> None:
    with PagesServer(tmp_path) as server:
        body: Body = {
            "version": 1,
            "type": "open",
            "by": "olga",
            "dataset": "census",
            "policy": {**POLICY, "access": "members"},
            "lifetime": LIFETIME,
        }
        server.done("root", "/datasets", {**body, "by": "root", "owners": ["olga"]}, "opened")
        server.enrol("census", "ana", "analyst")
        renewal: Body = {
            "version": 1,
            "type": "renew",
            "dataset": "census",
            "renewed_as": "census::2",
            "policy": {**POLICY, "access": "members"},
        }
        path = "/datasets/census/renew"
        for name in ("ana", "root"):
            assert server.send(name, path, {**renewal, "by": name}).status_code == 403, name
        server.done("olga", path, {**renewal, "by": "olga"}, "renewed")
        assert server.see("ana", "/datasets/census::2").status_code == 404
        old = server.see("ana", "/datasets/census").json()
        assert (old["closed"], old["renewed_as"]) == (True, "census::2")
        shown = server.see("ana", "/datasets/census/requests").json()["decisions"][-1]
        assert (shown["outcome"], shown["dataset"]) == ("renewed", "census")
        assert "policy" not in shown
        server.enrol("census::2", "otto", "analyst")
        seen = server.see("otto", "/datasets/census::2/requests").json()["decisions"][0]
        assert (seen["outcome"], seen["dataset"]) == ("opened", "census::2")
        assert seen["request"]["dataset"] == "census::2"
        assert seen["lifetime"]["spent"]["epsilon"] == "2"
        promise = (
            "from all generations of this dataset, to all analysts together, satisfies "
            "differential privacy with ε = 3, δ = 1e-5 for each person"
        )
        assert promise in server.page("otto", "census::2").text


def test_a_renewal_without_a_policy_is_not_sent_where_its_dataset_is_not_seen(
    tmp_path: Path,
) -> None:
    with Accountant(f"sqlite:///{tmp_path / 'ledger.db'}") as ledger:
        owner = ledger.as_owner("olga")
        owner.open("census", POLICY, lifetime=LIFETIME, as_given=True)
        before = ledger.heads()
        with pytest.raises(RequestInvalid, match="must be a dataset that you may see"):
            owner.renew("nowhere", "next")
        assert ledger.heads() == before
