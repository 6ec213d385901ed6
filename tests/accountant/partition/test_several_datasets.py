"""A request over several datasets: each is charged in full, or none is."""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec
import pytest

from accountant.partition.decide import decide
from accountant.partition.key_hash import home_of
from accountant.records import Decision, decode_decision, encode
from accountant.records.header import decode_header
from accountant.records.inputs import Input
from accountant.records.parts import about, by_dataset, value_about
from accountant.replay.audit import audit
from accountant.replay.check_rows import RowContradictsLog
from accountant.replay.replay import Replay, state_rows
from accountant.views.counted_decisions import counted_decisions
from accountant.views.tallies import count
from streams.service.live_views import CountedDecisions, LiveViews
from tests.accountant.world import World, code

NAMES: Final = ("sales", "returns", "visits")
ALL: Final = {"dataset": "sales", "other_datasets": ["returns", "visits"]}


def shop(**policies: dict[str, object]) -> World:
    """Return a world with three datasets of filter basic and epsilon 1, some overridden."""
    world = World()
    for name in NAMES:
        given: dict[str, object] = {"filter": "basic", "epsilon": "1", "delta": "0"}
        world.open(name, **(given | policies.get(name, {})))
    return world


def spent(world: World) -> list[object]:
    return [world.ledger(name).totals[0] for name in NAMES]


def sequences(world: World) -> list[int]:
    return [world.ledger(name).sequence for name in NAMES]


def check_log(world: World) -> None:
    """Check that replay and audit agree with the live state."""
    assert state_rows(world.replayed()) == world.rows()
    report = audit(world.log, genesis=world.genesis)
    assert report.ok, report.first_disagreement


def test_a_grant_charges_each_dataset_in_full() -> None:
    world = shop()
    world.ask("pure:0.5", dataset="returns")
    decision = world.ask("pure:0.25", **ALL)
    assert decision.granted
    assert (decision.dataset, decision.sequence, decision.cost) == (None, None, None)
    found = [(each.dataset, each.sequence, each.totals["epsilon"]) for each in decision.parts]
    assert found == [("sales", 2, "0.25"), ("returns", 3, "0.75"), ("visits", 2, "0.25")]
    assert [each.cost for each in decision.parts] == [{"epsilon": "0.25", "delta": "0"}] * 3
    check_log(world)


@pytest.mark.parametrize("refusing", range(3))
def test_a_refusal_in_any_dataset_charges_none(refusing: int) -> None:
    world = shop()
    world.ask("pure:0.75", dataset=NAMES[refusing])
    before = spent(world), sequences(world)
    decision = world.ask("pure:0.5", **ALL)
    assert (code(decision), decision.refused_by) == ("exhausted", NAMES[refusing])
    assert spent(world) == before[0]
    assert sequences(world) == [number + 1 for number in before[1]]
    seen = [code(each) for each in by_dataset(decision)]
    assert seen == ["exhausted" if i == refusing else "other_dataset" for i in range(3)]
    offers = [each.fits for each in decision.parts]
    assert offers == ["pure:0.25" if i == refusing else None for i in range(3)]
    check_log(world)


def test_only_the_dataset_that_refuses_halts() -> None:
    world = shop(**{name: {"halt_on_refusal": True} for name in NAMES})
    world.ask("pure:0.75", dataset="returns")
    world.ask("pure:0.75", dataset="visits")
    assert world.ask("pure:0.5", **ALL).refused_by == "returns"
    assert [world.ledger(name).halted for name in NAMES] == [False, True, False]
    check_log(world)


def opened_for(member: str, *names: str) -> World:
    world = shop(**{name: {"access": "members"} for name in NAMES})
    for name in names:
        fields = {"dataset": name, "member": member, "roles": ["analyst"]}
        world.send("admin", world.admin("member", **fields))
    return world


def test_the_analyst_needs_the_role_in_every_dataset() -> None:
    decision = opened_for("ana", "sales", "returns").ask("pure:0.1", **ALL)
    assert (code(decision), decision.refused_by) == ("not_permitted", "visits")
    assert opened_for("ana", *NAMES).ask("pure:0.1", **ALL).granted


@pytest.mark.parametrize("kind", ["pause", "close"])
def test_a_dataset_that_is_paused_or_closed_refuses_for_all(kind: str) -> None:
    world = shop()
    world.send("admin", world.admin(kind, dataset="visits"))
    decision = world.ask("pure:0.1", **ALL)
    assert (code(decision), decision.refused_by) == (f"{kind}d", "visits")
    check_log(world)


def test_units_of_every_policy_count() -> None:
    world = shop(returns={"unit": "order"})
    decision = world.ask("pure:0.1", **ALL)
    assert (code(decision), decision.refused_by) == ("unit_mismatch", "returns")


def test_limits_of_each_dataset_count() -> None:
    world = shop()
    limit = {"scope": "analyst", "name": "ana", "part": "0.3"}
    world.send("admin", world.admin("limit", dataset="visits", **limit))
    assert [len(each.levels) for each in world.ask("pure:0.2", **ALL).parts] == [0, 0, 1]
    decision = world.ask("pure:0.2", **ALL)
    assert (code(decision), decision.refused_by) == ("exhausted", "visits")
    assert decision.parts[2].level is not None
    check_log(world)


def test_a_repeat_and_a_conflict_belong_to_the_first_dataset() -> None:
    world = shop()
    body = world.request("pure:0.1", **ALL)
    first = world.send("requests", body)
    repeat = world.send("requests", body)
    assert (repeat.outcome, repeat.dataset, repeat.parts) == ("repeated", "sales", ())
    assert repeat.first is not None
    assert repeat.first.granted
    assert repeat.first.partition_sequence == first.partition_sequence
    other = json.loads(body) | {"other_datasets": ["returns"]}
    assert world.send("requests", json.dumps(other).encode()).outcome == "conflict"
    # The same id in another dataset is another request.
    alone = {**other, "dataset": "visits"}
    assert world.send("requests", json.dumps(alone).encode()).granted
    check_log(world)


def test_an_unknown_dataset_refuses_and_is_named() -> None:
    world = shop()
    for fields in (
        {"dataset": "sales", "other_datasets": ["returns", "nothing"]},
        {"dataset": "nothing", "other_datasets": ["sales"]},
    ):
        decision = world.ask("pure:0.1", **fields)
        assert (code(decision), decision.refused_by) == ("unknown_dataset", "nothing")
        assert (decision.sequence, decision.parts) == (None, ())
    assert sequences(world) == [1, 1, 1]
    check_log(world)


def test_several_partitions_do_not_decide_together() -> None:
    world = World(partitions=4, partition=0)
    names = [name for name in map("d{}".format, range(40)) if code(opened(world, name)) == "opened"]
    decision = world.ask("pure:0.1", dataset=names[0], other_datasets=[names[1]])
    assert (code(decision), decision.refused_by) == ("not_together", names[1])
    assert world.ledger(names[1]).sequence == 1
    check_log(world)


def test_datasets_of_one_group_are_decided_together_and_no_others() -> None:
    homes = {name: home_of(name, "group", 4) for name in map("g{}".format, range(40))}
    first, second = [name for name, home in homes.items() if home == 0][:2]
    world = World(partitions=4, partition=0, placement="group")
    names = [first, f"{first}::b", f"{first}::c", f"{second}::d"]
    assert [code(opened(world, name)) for name in names] == ["opened"] * 4
    decision = world.ask("pure:0.1", dataset=names[1], other_datasets=[names[0], names[2]])
    assert decision.granted
    assert [part.sequence for part in decision.parts] == [2, 2, 2]
    # The two groups share a partition by chance.
    decision = world.ask("pure:0.1", dataset=names[0], other_datasets=[names[1], names[3]])
    assert (code(decision), decision.refused_by) == ("not_together", names[3])
    check_log(world)


def opened(world: World, name: str) -> Decision:
    return world.open(name, epsilon="1", delta="1e-6")


@pytest.mark.parametrize(
    "others",
    [[], ["sales"], ["returns", "returns"], [f"d{i}" for i in range(16)], ["a/b"]],
)
def test_names_that_break_their_rule_are_invalid(others: list[str]) -> None:
    decision = shop().ask("pure:0.1", dataset="sales", other_datasets=others)
    assert decision.error is not None
    assert decision.error.field.startswith("other_datasets")


def test_fifteen_others_are_the_most() -> None:
    world = World()
    names = [f"d{i}" for i in range(16)]
    for name in names:
        opened(world, name)
    assert len(world.ask("pure:0.01", dataset=names[0], other_datasets=names[1:]).parts) == 16
    check_log(world)


def test_a_key_twice_is_found_beside_other_datasets() -> None:
    world = shop()
    body = world.request("pure:0.1", **ALL)[:-1] + b', "analyst": "eve"}'
    assert code(world.send("requests", body)) == "undecodable"
    colons = World()
    for name in ("shop::sales", "shop::returns"):
        opened(colons, name)
    fields = {"dataset": "shop::sales", "other_datasets": ["shop::returns"]}
    assert colons.ask("pure:0.01", **fields).granted


def test_a_decision_that_is_undone_leaves_no_dataset_changed() -> None:
    world = shop()
    record = Input("requests", 0, b"key", world.request("pure:0.1", **ALL), world.now)
    before = world.draft.rows()
    mark = world.draft.mark()
    assert decide(world.draft, record, world.now).decision.granted
    world.draft.rewind(mark)
    assert dict(world.draft.rows()[-1:]) == dict(before[-1:])
    assert spent(world) == [0, 0, 0]


def forged(world: World, change: Any) -> list[bytes]:
    """Return a world's log with its last decision changed."""
    last = decode_decision(world.log[-1])
    return [*world.log[:-1], encode(change(last))]


def test_an_audit_finds_a_part_that_is_missing_or_cheaper() -> None:
    world = shop()
    world.ask("pure:0.25", **ALL)

    def cheaper(decision: Decision) -> Decision:
        part = decision.parts[1]
        totals: dict[str, str | int] = {"mechanisms": 1, "epsilon": "0.125", "delta": "0"}
        changed = msgspec.structs.replace(
            part,
            cost={"epsilon": "0.125", "delta": "0"},
            totals=totals,
            left={"epsilon": "0.875", "delta": "0"},
        )
        parts = (decision.parts[0], changed, decision.parts[2])
        return msgspec.structs.replace(decision, parts=parts)

    def shorter(decision: Decision) -> Decision:
        return msgspec.structs.replace(decision, parts=decision.parts[:2])

    def with_a_dataset(decision: Decision) -> Decision:
        return msgspec.structs.replace(decision, dataset="sales")

    for change in (cheaper, shorter, with_a_dataset):
        report = audit(forged(world, change), genesis=world.genesis)
        assert not report.ok, change


def test_a_start_finds_a_row_of_any_part_that_contradicts_the_log() -> None:
    world = shop()
    world.ask("pure:0.25", **ALL)
    rows = dict(world.rows())
    older = dict(shop().rows())
    for name in NAMES:
        replay = Replay(world.genesis)
        for key, value in (rows | {name.encode(): older[name.encode()]}).items():
            replay.take_row(key, value)
        for value in world.log[:-1]:
            replay.take_decision(value)
        with pytest.raises(RowContradictsLog, match=name):
            replay.take_decision(world.log[-1])


def test_views_of_each_dataset_follow_the_decision() -> None:
    world = shop()
    world.ask("pure:0.5", **ALL)
    world.ask("pure:0.75", **ALL)
    state, counts = world.replayed(), CountedDecisions()
    for value in world.log:
        counts.count(state, counted_decisions(decode_header(value)))
    views = LiveViews(lambda: [state.ledgers], state.ledgers.get, counts).datasets()
    for name in NAMES:
        view = views[name]
        assert (view.totals["epsilon"], view.sequence) == ("0.5", 3)
        assert view.outcomes == {"opened": 1, "granted": 1, "refused": 1}
    assert [views[name].reasons for name in NAMES] == [
        {"exhausted": 1},
        {"other_dataset": 1},
        {"other_dataset": 1},
    ]


def test_the_index_counts_the_decision_in_each_dataset() -> None:
    world = shop()
    world.ask("pure:0.5", **ALL)
    counted = count(world.log, after=-1, head=None)
    assert counted.places[-3:] == [("sales", 2, 4), ("returns", 2, 4), ("visits", 2, 4)]
    assert [counted.analysts[name, "ana"].granted for name in NAMES] == [1, 1, 1]
    assert len({counted.analysts[name, "ana"].spent for name in NAMES}) == 1


def test_a_dataset_sees_a_decision_like_any_other() -> None:
    world = shop()
    decision = world.ask("pure:0.5", **ALL)
    own = decode_decision(value_about(world.log[-1], "returns"))
    assert own.part_of == world.draft.head
    assert msgspec.structs.replace(own, part_of=None) == about(decision, "returns")
    assert (own.dataset, own.sequence, own.parts) == ("returns", 2, ())
    # What is no decision over several datasets stays as it is, whatever its texts say.
    text = {"purpose": '"parts":[', "dataset": "sales"}
    world.ask("pure:0.1", **text)
    assert value_about(world.log[-1], "sales") == world.log[-1]
