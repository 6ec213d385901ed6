"""The lifetime of a population by command and server: what is said, and what stays hidden."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest

from accountant.errors import RequestInvalid
from streams.client import Accountant, TakesFromLifetime
from tests.streams.cli.conftest import Done
from tests.streams.cli.here import run_here
from tests.streams.pages.dataset.pages_server import PagesServer

POLICY: Final = {
    "filter": "basic",
    "epsilon": "1",
    "delta": "1e-6",
    "access": "anyone",
    "population": "people",
}
SHARED: Final = {"epsilon": "3", "delta": "1e-5", "shared": True}
OPTIONS: Final = ("--delta", "1e-6", "--population", "people", "--access", "anyone")


def ran(file: Path, *words: str) -> Done:
    """Run a command on a ledger; what rich has broken into lines is one line again."""
    done = run_here(file.parent, *words, accountant_url=f"sqlite:///{file}")
    return Done(done.code, " ".join(done.out.split()), " ".join(done.err.split()))


def begin(file: Path) -> None:
    with Accountant(f"sqlite:///{file}") as ledger:
        ledger.as_owner("owner").open("first", POLICY, lifetime=SHARED, as_given=True)


def test_a_preview_says_what_a_dataset_takes_and_what_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "ledger.db"
    before = ran(
        file,
        *("dataset", "open", "first", "--epsilon", "1", *OPTIONS, "--preview"),
        *("--lifetime", "3", "--lifetime-delta", "1e-5", "--lifetime-shared"),
    )
    assert "epsilon 3, delta 1e-5 for all datasets of population people together" in before.err
    small = ran(
        file,
        *("dataset", "open", "first", "--epsilon", "1", *OPTIONS, "--preview", "--lifetime", "0.5"),
    )
    assert (small.code, "--lifetime must be at least" in small.err) == (2, True)
    begin(file)
    fits = ran(file, "dataset", "open", "second", "--epsilon", "1", *OPTIONS, "--preview")
    assert "would be asked back: dataset second was not opened: it takes epsilon 1" in fits.err
    assert "epsilon 1, delta 0.000008 remain" in fits.err
    meant = ran(file, "dataset", "open", "second", "--epsilon", "1", *OPTIONS, "--preview", "--new")
    assert "note: the dataset will guarantee epsilon 3" in meant.err
    as_json = ran(
        file, "dataset", "open", "second", "--epsilon", "1", *OPTIONS, "--preview", "--json"
    )
    assert json.loads(as_json.out)["lifetime"]["spent"]["epsilon"] == "2"
    large = ran(file, "dataset", "open", "second", "--epsilon", "2.1", *OPTIONS, "--preview")
    assert "would be refused: it would take epsilon 2.1, delta 0.000001, and epsilon" in large.err
    refused = ran(file, "dataset", "open", "second", "--epsilon", "2.1", *OPTIONS)
    assert refused.code == 1
    assert "epsilon 2, delta 0.000009 remain of the lifetime" in refused.out + refused.err
    own = ("dataset", "open", "second", "--epsilon", "1", *OPTIONS, "--lifetime", "2")
    for more in (("--lifetime-delta", "1e-5"), ("--lifetime-delta", "1e-5", "--lifetime-shared")):
        done = ran(file, *own, *more)
        assert (done.code, "leave the lifetime out" in done.out) == (1, True)
    other = ran(file, "dataset", "open", "second", "--epsilon", "1", *OPTIONS, "--new", "--by", "b")
    assert "b owns no dataset of population people. An owner of first can open it" in other.out
    asked = ran(file, "dataset", "open", "second", "--epsilon", "1", *OPTIONS)
    assert (asked.code, "--new" in asked.err) == (2, True)
    assert "it takes epsilon 1, delta 0.000001 of the lifetime of population people" in asked.err
    assert ran(file, "dataset", "open", "second", "--epsilon", "1", *OPTIONS, "--new").code == 0


def test_a_refused_renewal_says_what_really_remains(tmp_path: Path) -> None:
    file = tmp_path / "ledger.db"
    begin(file)
    with Accountant(f"sqlite:///{file}") as ledger:
        owner = ledger.as_owner("owner")
        with pytest.raises(TakesFromLifetime, match="too little to renew first, which takes"):
            owner.open("second", {**POLICY, "epsilon": "1.5"}, as_given=True)
        owner.open("second", {**POLICY, "epsilon": "1.5"}, as_given=True, new=True)
    policy = tmp_path / "policy.json"
    policy.write_text(json.dumps(POLICY))
    refused = ran(file, "dataset", "renew", "first", "next", "--policy", str(policy), "--yes")
    assert "epsilon 0.5, delta 0.000008 remain of it" in refused.out + refused.err


@pytest.mark.parametrize("option", [("--lifetime-shared",), ("--lifetime-delta", "1e-6")])
def test_an_option_of_a_lifetime_needs_one(option: tuple[str, ...], tmp_path: Path) -> None:
    done = ran(tmp_path / "l.db", "dataset", "open", "first", "--epsilon", "1", *OPTIONS, *option)
    assert (done.code, "need --lifetime" in done.err) == (2, True)


def test_an_opening_like_another_one_may_fix_a_lifetime(tmp_path: Path) -> None:
    with Accountant(f"sqlite:///{tmp_path / 'l.db'}") as ledger:
        owner = ledger.as_owner("owner")
        owner.open("old", {**POLICY, "epsilon": "0.5"}, as_given=True)
        shared = {**SHARED, "epsilon": "0.8"}  # less than an epsilon of 1
        refused = owner.open("new", like="old", lifetime=shared)
        assert refused.reason == "population_in_use"
        with pytest.raises(RequestInvalid, match="must be true or false"):
            owner.open("new", POLICY, lifetime={**SHARED, "shared": 1})


def test_nobody_reads_the_name_of_a_hidden_dataset_in_a_lifetime(tmp_path: Path) -> None:
    with PagesServer(tmp_path) as server:
        hidden = {**POLICY, "access": "members"}
        body = {"version": 1, "type": "open", "by": "root", "owners": ["olga", "root"]}
        first = {**body, "dataset": "secret", "policy": hidden, "lifetime": SHARED}
        server.done("root", "/datasets", first, "opened")
        second = {**body, "dataset": "shown", "policy": POLICY}
        asked = server.send("root", "/datasets", second)
        assert (asked.status_code, asked.json()["error"]) == (409, "takes_from_lifetime")
        server.done("root", "/datasets?new=true", second, "opened")
        assert server.see("ana", "/datasets/secret").status_code == 404
        for path in ("/datasets", "/datasets/shown", "/datasets/shown/requests"):
            answer = server.see("ana", path)
            assert "people" in answer.text
            assert "secret" not in answer.text, path
        page = server.page("ana", "shown").text
        assert "from all datasets of population people, to all analysts together" in page
        assert "secret" not in page
