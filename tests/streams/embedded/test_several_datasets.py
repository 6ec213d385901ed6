"""Requests over several datasets on a ledger in a file, by the client, and read without a lock."""

from __future__ import annotations

from pathlib import Path

import pytest

from accountant.errors import RequestInvalid
from streams.client import Accountant
from streams.client.releases.store import NameTaken

NAMES = ("sales", "returns", "visits")


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'ledger.db'}"


def opened(url: str) -> Accountant:
    ledger = Accountant(url, analyst="ana")
    for name in NAMES:
        ledger.as_owner("olga").open(
            name, {"filter": "basic", "epsilon": "1", "delta": "0"}, as_given=True
        )
    return ledger


def test_a_reply_shows_the_dataset_that_decided(url: str) -> None:
    with opened(url) as ledger:
        reply = ledger.ask(["sales", "returns"], "pure:0.25")
        assert reply.granted
        assert [part.dataset for part in reply.parts] == ["sales", "returns"]
        assert reply.hash == ledger.heads()[0].head
        ledger.ask("returns", "pure:0.5")
        refused = ledger.ask(["sales", "returns"], "pure:0.5")
        assert (refused.dataset, refused.reason, refused.fits) == (
            "returns",
            "exhausted",
            "pure:0.25",
        )
        assert refused.why.startswith("Dataset returns refuses, so none is charged.")
        unknown = ledger.ask(["sales", "retrns"], "pure:0.1")
        assert unknown.why.startswith("No dataset is named retrns.")
        assert "returns" in unknown.hint


def test_readers_count_the_decision_in_each_dataset(url: str) -> None:
    with opened(url) as ledger:
        ledger.ask(["sales", "returns"], "pure:0.25")
        ledger.ask(["returns", "visits"], "pure:0.9")
        live = {view.dataset: (view.totals["epsilon"], view.reasons) for view in ledger.datasets()}
        seen = [(each.sequence, str(each.outcome)) for each in ledger.requests("returns")]
        spent = ledger.usage("returns")[0].spent
    with Accountant(url, read_only=True) as ledger:
        read = {view.dataset: (view.totals["epsilon"], view.reasons) for view in ledger.datasets()}
        assert [(each.sequence, str(each.outcome)) for each in ledger.requests("returns")] == seen
        assert ledger.usage("returns")[0].spent == spent == "0.25"
    assert live == read
    assert live == {
        "sales": ("0.25", {}),
        "returns": ("0.25", {"exhausted": 1}),
        "visits": ("0", {"other_dataset": 1}),
    }
    assert seen == [(1, "opened"), (2, "granted"), (3, "refused")]


def test_a_named_release_belongs_to_its_datasets(url: str, tmp_path: Path) -> None:
    store = tmp_path / "results.db"
    with opened(url) as ledger:
        both = ["sales", "visits"]
        assert ledger.release(both, "pure:0.01", lambda: 3, store=store, once="x") == 3
        assert ledger.release(both, "pure:0.01", lambda: 4, store=store, once="x") == 3
        with pytest.raises(NameTaken):
            ledger.release("sales", "pure:0.01", lambda: 4, store=store, once="x")
        with ledger.grant(both, "pure:0.01") as granted:
            assert granted.granted
        (one,) = ledger.ask_many([{"dataset": both, "claim": "pure:0.01"}])
        assert not isinstance(one, Exception)
        assert one.granted
        assert str(ledger.dataset("visits").totals["epsilon"]) == "0.03"


def test_arguments_of_another_form_are_refused(url: str) -> None:
    with opened(url) as ledger:
        for wrong in ([], 3, ["sales", 3], ["sales", "sales"]):
            with pytest.raises(RequestInvalid):
                ledger.ask(wrong, "pure:0.1")  # type: ignore[arg-type]
        with pytest.raises(RequestInvalid):
            ledger.cost(["sales", "returns"], "pure:0.1")  # type: ignore[arg-type]
        assert ledger.ask(["sales"], "pure:0.1").decision.dataset == "sales"


SESSION = "brownian:variance=400,sensitivity=1,first=10000"


def test_one_session_is_over_several_datasets(tmp_path: Path, url: str) -> None:
    both, store = ["sales", "returns"], tmp_path / "results.db"
    with Accountant(url, analyst="ana") as ledger:
        for name in both:
            ledger.as_owner("olga").open(name, {"filter": "zcdp", "rho": "1"}, as_given=True)
        with ledger.reserve(both, SESSION, until="PT10M", store=store, once="x") as session:
            listed = [ledger.reservations(name) for name in both]
            assert {row.grant for rows in listed for row in rows} == {session.grant}
            assert {row.request_id for rows in listed for row in rows} == {session.request_id}
            session.run(lambda: lambda level: level)
            assert session.show("800") == "800"
        with ledger.reserve(both, SESSION, until="PT10M", store=store, once="x") as session:
            assert session.show("800") == "800"  # the stored answer
        with ledger.reserve(both, SESSION, until="PT10M", store=store):
            pass  # voided
        for name in both:
            assert ledger.dataset(name).totals["rho"] == "0.000625"
            assert ledger.usage(name)[0].spent == "0.000625"
            assert ledger.reservations(name) == []
            steps = [str(each.outcome) for each in ledger.requests(name)]
            assert steps == ["opened", "reserved", "begun", "settled", "reserved", "voided"]
    with Accountant(url, read_only=True) as ledger:
        for name in both:
            assert ledger.dataset(name).totals["rho"] == "0.000625"
            assert ledger.usage(name)[0].spent == "0.000625"
            assert ledger.reservations(name) == []
