"""Generations of a dataset within a lifetime: what is charged, refused and closed."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from accountant.partition.key_hash import home_of
from accountant.records import Decision
from accountant.records.outcomes import Outcome
from accountant.records.parts import by_dataset
from accountant.replay.audit import Auditor, audit
from accountant.replay.replay import state_rows
from tests.accountant.partition.test_derived_claims import SCHEMA
from tests.accountant.world import World, code

POLICY = {"epsilon": "1", "delta": "1e-6", "access": "members"}
LIFETIME = {"epsilon": "3", "delta": "1e-5"}


def opened_for(lifetime: dict[str, str] | None = None, **policy: object) -> World:
    world = World()
    fields = {"policy": {**POLICY, **policy}, "lifetime": lifetime or LIFETIME}
    opened = world.send("admin", world.admin("open", **fields))
    assert opened.outcome is Outcome.OPENED, opened.error
    return world


def renew(world: World, old: str = "census", new: str = "census::2", **fields: Any) -> Decision:
    policy = {**POLICY, **fields.pop("policy", {})}
    body = world.admin("renew", dataset=old, renewed_as=new, policy=policy, **fields)
    return world.send("admin", body)


def give(world: World, dataset: str, member: str = "ana", *roles: str) -> None:
    body = world.admin("member", dataset=dataset, member=member, roles=roles or ("analyst",))
    assert code(world.send("admin", body)) == "member_set"


def is_sound(world: World) -> bool:
    report = audit(world.log, genesis=world.genesis)
    assert report.ok, report.first_disagreement
    return state_rows(world.replayed()) == world.rows()


def spent_of(world: World, dataset: str) -> dict[str, str]:
    lifetime = world.ledger(dataset).facts.lifetime
    assert lifetime is not msgspec.UNSET
    return dict(lifetime.spent)


def test_a_renewal_is_one_decision_that_closes_and_opens() -> None:
    world = opened_for()
    renewed = renew(world)
    assert code(renewed) == "renewed"
    old, new = by_dataset(renewed)
    assert (old.dataset, code(old), old.policy, old.owners) == ("census", "renewed", None, ())
    assert (new.dataset, code(new), new.sequence, new.generation) == ("census::2", "opened", 1, 2)
    assert new.owners == ("owner",)
    assert world.ledger().closed
    assert world.ledger().facts.renewed_as == "census::2"
    assert not world.ledger("census::2").closed
    assert is_sound(world)


def test_a_generation_is_charged_its_guarantee_and_not_what_it_used() -> None:
    world = opened_for()
    assert spent_of(world, "census") == {"epsilon": "1", "delta": "0.000001"}
    renew(world)  # nothing was granted on the first
    assert spent_of(world, "census::2") == {"epsilon": "2", "delta": "0.000002"}
    assert code(renew(world, "census::2", "census::3")) == "renewed"
    assert code(renew(world, "census::3", "census::4")) == "beyond_lifetime"
    smallest = renew(world, "census::3", "census::4", policy={"epsilon": "1e-12"})
    assert code(smallest) == "beyond_lifetime"
    assert not world.ledger("census::3").closed
    assert is_sound(world)


def test_a_generation_below_its_ceiling_is_charged_the_ceiling() -> None:
    world = opened_for()
    renewed = renew(world, policy={"epsilon": "2"}, budget={"epsilon": "0.5"})
    assert code(renewed) == "renewed"
    assert spent_of(world, "census::2")["epsilon"] == "3"
    assert world.ledger("census::2").plan.limits_wire != world.ledger("census::2").plan.budget_wire
    assert is_sound(world)


def test_delta_alone_may_be_beyond_the_lifetime() -> None:
    world = opened_for({"epsilon": "100", "delta": "2.5e-6"})
    assert code(renew(world)) == "renewed"
    assert code(renew(world, "census::2", "census::3")) == "beyond_lifetime"
    assert code(renew(world, "census::2", "census::3", policy={"delta": "5e-7"})) == "renewed"


def test_of_two_renewals_of_one_dataset_one_wins() -> None:
    for batch in (1, 10):
        world = World(batch=batch)
        world.send("admin", world.admin("open", policy=POLICY, lifetime=LIFETIME))
        assert code(renew(world, new="census::2")) == "renewed"
        assert code(renew(world, new="census::other")) == "already_renewed"
        assert world.draft.ledger("census::other") is None
        assert spent_of(world, "census::2")["epsilon"] == "2"
        assert is_sound(world)


def test_an_older_generation_cannot_be_renewed_again() -> None:
    world = opened_for()
    renew(world)
    renew(world, "census::2", "census::3")
    assert code(renew(world, "census", "census::4")) == "already_renewed"


def test_a_repeat_is_known_by_its_id() -> None:
    world = opened_for()
    body = world.admin("renew", renewed_as="census::2", policy=POLICY)
    assert code(world.send("admin", body)) == "renewed"
    repeated = world.send("admin", body)
    assert code(repeated) == "repeated"
    assert repeated.first is not None
    assert repeated.first.outcome is Outcome.RENEWED
    assert is_sound(world)


def test_nobody_may_ask_of_a_new_generation_before_members_follow() -> None:
    world = World()
    anyone = {"epsilon": "1", "delta": "1e-6", "access": "anyone"}
    world.send("admin", world.admin("open", policy=anyone, lifetime=LIFETIME))
    assert code(world.ask()) == "granted"
    renewed = renew(world, policy={"access": "anyone"})
    assert by_dataset(renewed)[1].policy.access == "members"  # type: ignore[union-attr]
    assert code(world.ask(dataset="census::2")) == "not_permitted"
    give(world, "census::2")
    assert code(world.ask(dataset="census::2")) == "granted"
    assert is_sound(world)


def test_reservations_that_have_begun_settle_on_the_old_generation() -> None:
    world = opened_for()
    give(world, "census")
    reserved = [world.ask("pure:0.1", reserve={"until": "PT1H"}) for _ in range(3)]
    grants = [
        "sha256:" + each.digest.hex() for each in world.encoded if each.outcome is Outcome.RESERVED
    ]
    assert len(reserved) == len(grants) == 3

    def step(kind: str, grant: str) -> Decision:
        body = {
            "version": 1,
            "type": kind,
            "request_id": world.new_id(),
            "analyst": "ana",
            "dataset": "census",
            "grant": grant,
        }
        return world.send("requests", msgspec.json.encode(body))

    assert code(step("begin", grants[0])) == "begun"
    assert code(renew(world)) == "renewed"
    assert code(step("settle", grants[0])) == "settled"
    assert code(step("begin", grants[1])) == "closed"
    assert code(step("void", grants[2])) == "voided"
    assert code(world.ask()) == "closed"
    assert is_sound(world)


def test_a_dataset_without_a_lifetime_is_never_renewed() -> None:
    world = World()
    world.open(**POLICY)
    assert code(renew(world)) == "no_lifetime"
    assert is_sound(world)


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"unit": "household"}, "lifetime_mismatch"),
        ({"neighbours": "replace"}, "lifetime_mismatch"),
        ({"population": "others"}, "lifetime_mismatch"),
        ({"filter": "zcdp", "epsilon": None, "rho": "0.1"}, "lifetime_mismatch"),
        ({"filter": "basic", "delta": "0"}, "renewed"),
        ({"beside": "basic"}, "renewed"),
    ],
)
def test_a_renewal_is_about_the_same_people(changed: dict[str, Any], expected: str) -> None:
    world = opened_for()
    assert code(renew(world, policy=changed)) == expected
    assert is_sound(world)


def test_a_renewal_keeps_order_of_refusals() -> None:
    world = opened_for()
    world.open("taken", **POLICY)
    assert code(renew(world, new="taken")) == "already_opened"
    assert code(renew(world, new="census")) == "invalid_field"
    assert code(renew(world, follows=7)) == "out_of_date"
    assert code(renew(world, by="somebody")) == "not_permitted"
    assert code(renew(world, new="census::2", follows=world.ledger().sequence)) == "renewed"


def test_a_closed_dataset_is_renewed() -> None:
    world = opened_for()
    world.close()
    assert code(renew(world)) == "renewed"
    assert is_sound(world)


def test_the_next_generation_has_another_schema_or_none() -> None:
    def schema(name: str) -> dict[str, Any]:
        return {**SCHEMA, "source": {"kind": "parquet", "name": name}}

    world = World()
    fields = {"policy": POLICY, "lifetime": LIFETIME, "schema": schema("s2026")}
    first = world.send("admin", world.admin("open", **fields))
    assert code(first) == "opened", first.error
    assert code(renew(world, schema=schema("s2027"))) == "renewed"
    assert b"s2026" in bytes(world.ledger().facts.schema)  # type: ignore[arg-type]
    assert b"s2027" in bytes(world.ledger("census::2").facts.schema)  # type: ignore[arg-type]
    assert is_sound(world)


def test_rho_is_added_for_filter_zcdp_alone() -> None:
    world = World()
    policy = {"filter": "zcdp", "rho": "0.5", "delta": "1e-6"}
    lifetime = {"rho": "1.2", "delta": "1e-5"}
    opened = world.send("admin", world.admin("open", policy=policy, lifetime=lifetime))
    assert code(opened) == "opened", opened.error
    body = world.admin("renew", renewed_as="b", policy=policy)
    assert code(world.send("admin", body)) == "renewed"
    body = world.admin("renew", dataset="b", renewed_as="c", policy=policy)
    assert code(world.send("admin", body)) == "beyond_lifetime"
    assert is_sound(world)


@pytest.mark.parametrize(
    ("lifetime", "field"),
    [
        ({}, "lifetime.epsilon"),
        ({"epsilon": "3", "rho": "1"}, "lifetime.epsilon"),
        ({"epsilon": "0.9", "delta": "1e-5"}, "lifetime.epsilon"),
        ({"epsilon": "3"}, "lifetime.delta"),
        ({"epsilon": "3", "delta": "1"}, "lifetime.delta"),
        ({"rho": "3", "delta": "1e-5"}, "lifetime.rho"),
        ({"epsilon": "0"}, "lifetime.epsilon"),
    ],
)
def test_a_lifetime_holds_its_first_generation(lifetime: dict[str, str], field: str) -> None:
    world = World()
    refused = world.send("admin", world.admin("open", policy=POLICY, lifetime=lifetime))
    assert code(refused) == "invalid_field"
    assert refused.error is not None
    assert refused.error.field == field


def test_nothing_is_lowered_within_a_lifetime() -> None:
    world = opened_for()
    assert code(world.amend(policy={**POLICY, "epsilon": "0.5"})) == "not_lower"
    assert spent_of(world, "census")["epsilon"] == "1"


def test_the_first_opening_is_refused_where_no_renewal_could_follow() -> None:
    partition = home_of("census", "name", 3)
    world = World(partitions=3, partition=partition)
    refused = world.send("admin", world.admin("open", policy=POLICY, lifetime=LIFETIME))
    assert code(refused) == "not_renewable"
    assert world.draft.ledger("census") is None
    assert code(world.open(**POLICY)) == "opened"
    assert is_sound(world)


def test_a_group_holds_all_generations() -> None:
    world = World(partitions=3, partition=home_of("census", "group", 3), placement="group")
    fields = {"policy": POLICY, "lifetime": LIFETIME}
    opened = world.send("admin", world.admin("open", dataset="census::2026", **fields))
    assert code(opened) == "opened"
    assert code(renew(world, "census::2026", "census::2027")) == "renewed"
    assert code(renew(world, "census::2027", "survey::2028")) == "not_in_group"
    assert is_sound(world)


@pytest.mark.parametrize("decides", [True, False])
def test_an_audit_names_a_generation_that_was_charged_too_little(decides: bool) -> None:
    world = opened_for()
    renew(world)
    charged = b'"epsilon":"2","delta":"0.000002"'
    forged = world.log[-1].replace(charged, b'"epsilon":"1","delta":"0.000002"')
    assert forged != world.log[-1]
    auditor = Auditor(genesis=world.genesis, decides=decides)
    for value in (*world.log[:-1], forged):
        auditor.take(value)
    assert auditor.disagreement is not None
    assert auditor.disagreement.what == "lifetime"
