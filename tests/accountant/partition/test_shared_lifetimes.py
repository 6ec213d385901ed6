"""The lifetime of a population: what its datasets take from it, and who may open one in it."""

from __future__ import annotations

from typing import Any

import pytest

from accountant.display.admin_refusals import admin_refusal_words
from accountant.partition.key_hash import home_of
from accountant.records import Decision
from accountant.replay.audit import Auditor
from tests.accountant.partition.test_renewals import is_sound, spent_of
from tests.accountant.world import World, code

POLICY = {"filter": "basic", "epsilon": "1", "delta": "1e-6", "population": "people"}
SHARED = {"epsilon": "3", "delta": "1e-5", "shared": True}


def opened(world: World, dataset: str, lifetime: Any = None, **policy: Any) -> Decision:
    by = {"by": policy.pop("by")} if "by" in policy else {}
    fields = {"policy": {**POLICY, **policy}, **({"lifetime": lifetime} if lifetime else {})}
    return world.send("admin", world.admin("open", dataset=dataset, **by, **fields))


def begun(**place: Any) -> World:
    world = World(**place)
    first = opened(world, "first", SHARED)
    assert code(first) == "opened", first.error
    return world


def renewed(world: World, old: str, new: str, **policy: Any) -> str:
    fields = {"renewed_as": new, "policy": {**POLICY, **policy}}
    return code(world.send("admin", world.admin("renew", dataset=old, **fields)))


def test_each_dataset_takes_what_it_guarantees() -> None:
    world = begun()
    assert code(world.ask(dataset="first")) == "granted"  # what follows is opened after a look
    assert code(opened(world, "second")) == "opened"
    assert spent_of(world, "second") == {"epsilon": "2", "delta": "0.000002"}
    assert code(opened(world, "third", epsilon="1.1")) == "outside_lifetime"
    assert code(opened(world, "third", delta="9e-6")) == "outside_lifetime"
    assert world.draft.ledger("third") is None
    assert code(opened(world, "third")) == "opened"
    assert spent_of(world, "third")["epsilon"] == "3"
    assert code(opened(world, "fourth", epsilon="1e-12")) == "outside_lifetime"
    assert is_sound(world)


def test_a_ceiling_is_taken_whole() -> None:
    world = begun()
    fields = {"policy": POLICY, "budget": {"epsilon": "0.1"}}
    body = world.admin("open", dataset="second", **fields)
    assert code(world.send("admin", body)) == "opened"
    assert spent_of(world, "second")["epsilon"] == "2"


def test_each_dataset_may_be_renewed_within_it() -> None:
    world = begun()
    opened(world, "second")
    assert renewed(world, "first", "first-2", epsilon="1.1") == "beyond_lifetime"
    assert renewed(world, "first", "first-2") == "renewed"
    assert spent_of(world, "first-2")["epsilon"] == "3"
    assert renewed(world, "first", "other") == "already_renewed"
    assert renewed(world, "second", "second-2", epsilon="1e-12") == "beyond_lifetime"
    assert code(opened(world, "third", epsilon="1e-12")) == "outside_lifetime"
    assert is_sound(world)


@pytest.mark.parametrize("batch", [1, 10])
def test_of_two_openings_at_once_one_may_be_too_much(batch: int) -> None:
    world = World(batch=batch)
    opened(world, "first", SHARED)
    assert code(opened(world, "second", epsilon="1.5")) == "opened"
    assert code(opened(world, "third", epsilon="1.5")) == "outside_lifetime"
    assert is_sound(world)


def test_a_closed_dataset_gives_nothing_back() -> None:
    world = begun()
    for name in ("second", "third"):
        opened(world, name)
        world.send("admin", world.admin("close", dataset=name))
    assert code(opened(world, "fourth", epsilon="1e-12")) == "outside_lifetime"


@pytest.mark.parametrize(
    "policy",
    [
        {"unit": "household"},
        {"neighbours": "replace"},
        {"filter": "zcdp", "epsilon": None, "rho": "0.1", "delta": "0"},
        {"by": "mallory"},
    ],
)
def test_other_people_and_owners_take_nothing(policy: dict[str, Any]) -> None:
    world = begun()
    assert code(opened(world, "second", **policy)) == "outside_lifetime"
    assert code(opened(world, "second")) == "opened"
    assert is_sound(world)


def test_an_owner_of_any_dataset_may_open_another() -> None:
    world = begun()
    fields = {"policy": POLICY, "owners": ["otto"]}
    world.send("admin", world.admin("open", dataset="second", **fields))
    assert code(opened(world, "third", by="otto", epsilon="0.1")) == "opened"


def test_who_owns_a_renewed_dataset_alone_opens_none() -> None:
    world = begun()
    body = {"dataset": "first", "member": "otto", "roles": ["owner"]}
    world.send("admin", world.admin("member", **body))
    assert renewed(world, "first", "first-2", epsilon="0.5") == "renewed"
    body |= {"dataset": "first-2", "roles": []}
    world.send("admin", world.admin("member", **body))
    assert code(opened(world, "second", by="otto", epsilon="0.1")) == "outside_lifetime"
    assert code(opened(world, "second", epsilon="0.1")) == "opened"


def test_a_lifetime_of_its_own_cannot_be_in_it() -> None:
    world = begun()
    assert code(opened(world, "second", {"epsilon": "2", "delta": "1e-5"})) == "outside_lifetime"


def test_it_is_fixed_with_the_first_dataset_alone() -> None:
    world = begun()
    assert code(opened(world, "second", SHARED)) == "population_in_use"
    world = World()
    opened(world, "first")
    assert code(opened(world, "second", SHARED)) == "population_in_use"
    assert code(opened(world, "second", SHARED, population="others")) == "opened"
    assert is_sound(world)


def test_other_populations_have_no_part_in_it() -> None:
    world = begun()
    opened(world, "other", {**SHARED, "epsilon": "9"}, population="others")
    opened(world, "second")
    assert spent_of(world, "second")["epsilon"] == "2"
    assert code(opened(world, "alone", population="nobody", epsilon="50")) == "opened"
    assert renewed(world, "alone", "next", population="nobody") == "no_lifetime"


def test_nothing_is_lowered_in_it() -> None:
    world = begun()
    body = world.admin("amend", dataset="first", policy=POLICY | {"epsilon": "0.5"})
    assert code(world.send("admin", body)) == "not_lower"


@pytest.mark.parametrize(
    ("lifetime", "policy", "field"),
    [
        (SHARED, {"population": "group::people"}, "policy.population"),
        ({"rho": "1", "shared": True}, {"filter": "zcdp", "rho": "0.1"}, "lifetime.shared"),
        (SHARED, {"population": ""}, "lifetime.shared"),
        ({**SHARED, "shared": "yes"}, {}, "lifetime.shared"),
    ],
)
def test_what_no_lifetime_can_be(
    lifetime: dict[str, Any], policy: dict[str, str], field: str
) -> None:
    world, whole = World(), {**POLICY, **policy}
    if "rho" in policy:
        whole |= {"delta": "0"}
        del whole["epsilon"]
    if not whole["population"]:
        del whole["population"]
    fields = {"policy": whole, "lifetime": lifetime}
    refused = world.send("admin", world.admin("open", dataset="first", **fields))
    assert code(refused) == "invalid_field"
    assert refused.error is not None
    assert refused.error.field == field


@pytest.mark.parametrize(
    ("placement", "population", "outcome"),
    [
        ("group", "people::all", "opened"),
        ("group", "people", "not_renewable"),  # its datasets would lie anywhere
        ("name", "people::all", "not_renewable"),
    ],
)
def test_several_partitions_need_a_group(placement: Any, population: str, outcome: str) -> None:
    home = home_of("people::first", placement, 3)
    world = World(partitions=3, partition=home, placement=placement)
    decision = opened(world, "people::first", SHARED, population=population)
    assert code(decision) == outcome
    said = admin_refusal_words(decision)
    assert ("`--population people::people`" in said) == (population == "people")
    assert ("whatever its name" in said) == (placement == "name")


@pytest.mark.parametrize("decides", [True, False])
@pytest.mark.parametrize(
    ("right", "forged"),
    [
        (b'"spent":{"epsilon":"2"', b'"spent":{"epsilon":"1"'),
        (b'"epsilon":"3","delta":"1e-5"', b'"epsilon":"9","delta":"1e-5"'),
        (b'"shared":true,"first"', b'"first"'),
    ],
)
def test_an_audit_names_a_dataset_that_took_too_little(
    right: bytes, forged: bytes, *, decides: bool
) -> None:
    world = begun()
    opened(world, "second")
    value = world.log[-1].replace(right, forged)
    assert value != world.log[-1]
    auditor = Auditor(genesis=world.genesis, decides=decides)
    for each in (*world.log[:-1], value):
        auditor.take(each)
    assert auditor.disagreement is not None
    assert auditor.disagreement.what == "lifetime"


@pytest.mark.parametrize("decides", [True, False])
def test_an_audit_names_a_dataset_that_left_it_out(*, decides: bool) -> None:
    world = begun()
    opened(world, "second")
    start = world.log[-1].index(b',"lifetime":')
    end = world.log[-1].index(b"}}", start) + 2
    auditor = Auditor(genesis=world.genesis, decides=decides)
    for each in (*world.log[:-1], world.log[-1][:start] + world.log[-1][end:]):
        auditor.take(each)
    assert auditor.disagreement is not None
    assert auditor.disagreement.what == "lifetime"


def test_an_audit_names_a_dataset_that_leaves_its_population() -> None:
    world = begun()
    amended = world.send("admin", world.admin("amend", dataset="first", alert_at=["0.5"]))
    assert code(amended) == "amended"
    assert world.log[-1].count(b',"population":"people"') == 1
    auditor = Auditor(genesis=world.genesis, decides=False)
    for each in (*world.log[:-1], world.log[-1].replace(b',"population":"people"', b"")):
        auditor.take(each)
    assert auditor.disagreement is not None
    assert auditor.disagreement.what == "policy.population"


def test_an_audit_names_other_people_within_a_lifetime() -> None:
    world = begun()
    opened(world, "second")
    forged = world.log[-1].replace(b'"unit":"person"', b'"unit":"household"')
    assert forged != world.log[-1]
    auditor = Auditor(genesis=world.genesis, decides=False)
    for each in (*world.log[:-1], forged):
        auditor.take(each)
    assert auditor.disagreement is not None
    assert auditor.disagreement.what == "policy"
