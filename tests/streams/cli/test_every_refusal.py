"""Each reason code says to a person what was refused, why, how much, and what to do next."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from typing import Any, Final

import msgspec
import pytest

from accountant.display.current_dataset import CurrentDataset
from accountant.display.reasons import REASONS, UNNAMED_OWNER
from accountant.display.refusals import refusal_words
from accountant.filters import FILTERS
from accountant.policy import Policy
from accountant.records import Decision
from accountant.records.members import Member
from accountant.records.outcomes import Reason
from accountant.records.pending_rows import MAX_PENDING_EACH
from accountant.records.person_pauses import MAX_PAUSES
from accountant.views.datasets import view_of_ledger
from streams.cli.root import command
from tests.accountant.partition.test_approvals import Waiting
from tests.accountant.partition.test_derived_claims import ask as ask_question
from tests.accountant.partition.test_derived_claims import opened as with_schema
from tests.accountant.reservations.scene import NOBODYS, Scene
from tests.accountant.reservations.shop import Shop
from tests.accountant.world import World

OWNERS: Final = "an owner (oda or owner)"
MEMBERS: Final = (Member(member="oda", roles=("owner",)), Member(member="owner", roles=("owner",)))
COMMAND: Final = re.compile(r"`(accountant [^`]*)`")
ZCDP: Final = {"filter": "zcdp_tight", "epsilon": "1", "delta": "1e-6"}
SAMPLED: Final = "subsampled_gaussian:sigma=1,sensitivity=1,rate=0.01"


def scene(*before: str, claim: dict[str, object] | None = None, **policy: object) -> Scene:
    found = Scene(claim, **policy)
    found.do(*before)
    return found


def limited(**fields: object) -> Scene:
    found = scene()
    found.limit("team", "red", **fields)
    return found


def of_step(kind: str, *before: str, hours: int = 0, **fields: object) -> Decision:
    found = scene(*before)
    found.tick(hours * 3_600_000)
    return found.step(kind, **fields)


def of_owner(kind: str, *before: str, **fields: object) -> Decision:
    return scene(*before).owners(kind, **fields)


def several() -> Decision:
    shop = Shop()
    shop.reserve()
    return shop.step("begin", dataset="visits")


def not_settled() -> Decision:
    claim: dict[str, object] = {"type": "brownian", "variance": "100", "sensitivity": "1"}
    claim |= {"previous": "200", "continues": NOBODYS}
    return scene(filter="zcdp", rho="1", delta="0").ask(claim)


def apart() -> Decision:
    worlds = [World(partitions=2, partition=each) for each in (0, 1)]
    sent = (world.ask(other_datasets=["visits"]) for world in worlds)
    return next(each for each in sent if each.reason is not Reason.WRONG_PARTITION)


def wrong_partition() -> Decision:
    sent = (World(partitions=2, partition=each).ask() for each in (0, 1))
    return next(each for each in sent if each.reason is Reason.WRONG_PARTITION)


def overloaded() -> Decision:
    world = World(most_ids=1)
    world.open(epsilon="1", delta="1e-6")
    sent = [world.ask("pure:0.001") for _ in range(3)]
    return next(each for each in sent if each.reason is Reason.OVERLOADED)


def answered(kind: str, *, by: str = "olga", analyst: str = "ana", times: int = 1) -> Decision:
    world = Waiting()
    waiting = world.waits(analyst=analyst)
    return [world.answer(kind, waiting, by=by, reason="see table 4") for _ in range(times)][-1]


def not_pending() -> Decision:
    world = Waiting()
    return world.send("admin", world.admin("deny", by="olga", pending="sha256:" + "0" * 64))


def not_alone() -> Decision:
    world = Waiting()
    world.send("admin", world.admin("open", dataset="more", policy=POLICY))
    return world.ask("pure:0.3", other_datasets=["more"])


def no_approver() -> Decision:
    world = Waiting()
    world.send("admin", world.admin("member", by="olga", member="otto", roles=[]))
    return world.ask("pure:0.3", analyst="olga")


def too_many_pending() -> Decision:
    world = Waiting()
    return [world.ask("pure:0.3") for _ in range(MAX_PENDING_EACH + 1)][-1]


def never_renewable() -> Decision:
    worlds = [World(partitions=2, partition=each) for each in (0, 1)]
    lifetime = {"epsilon": "2"}
    sent = (
        world.send("admin", world.admin("open", policy=POLICY, lifetime=lifetime))
        for world in worlds
    )
    return next(each for each in sent if each.reason is not Reason.WRONG_PARTITION)


def with_lifetime(**place: Any) -> World:
    world = World(**place)
    world.send("admin", world.admin("open", policy=POLICY, lifetime={"epsilon": "2"}))
    return world


def renewal(world: World, *, new: str = "next", **policy: str) -> Decision:
    return world.send("admin", world.admin("renew", renewed_as=new, policy=POLICY | policy))


def in_a_population(dataset: str, **more: Any) -> Decision:
    world, shared = World(), {"epsilon": "2", "shared": True}
    policy = POLICY | {"population": "people"}
    opening = {"policy": policy, "lifetime": shared}
    world.send("admin", world.admin("open", dataset="first", **opening))
    return world.send("admin", world.admin("open", dataset=dataset, policy=policy, **more))


def in_another_group() -> Decision:
    worlds = (with_lifetime(partitions=2, partition=n, placement="group") for n in (0, 1))
    sent = map(renewal, worlds)
    return next(each for each in sent if each.reason is not Reason.WRONG_PARTITION)


def beyond_team() -> Decision:
    world = scene()
    for member, role in (("lea", "lead"), ("ana", "analyst")):
        world.owners("member", member=member, roles=[role], team="red")
    world.owners("limit", scope="team", name="red", part="0.2")
    return world.owners("limit", by="lea", scope="analyst", name="ana", part="0.3")


CLAIM: Final = {"type": "pure", "epsilon": "0.1"}
POLICY: Final = {"filter": "basic", "epsilon": "1", "delta": "0"}
# Each reason: how a ledger comes to it, and what its words have.
TABLE: Final[dict[Reason, tuple[Callable[[], Decision], tuple[str, ...]]]] = {
    Reason.UNDECODABLE: (lambda: World().send("requests", b"{"), ("JSON",)),
    Reason.OVERSIZE: (lambda: World().send("requests", b" " * 65_537), ("65,536 bytes",)),
    Reason.INVALID_FIELD: (lambda: scene().ask(analyst="a b"), ("analyst must be", "got a b")),
    Reason.WRONG_PARTITION: (wrong_partition, ("partition", "murmur2")),
    Reason.ISSUED_IN_FUTURE: (
        lambda: (here := scene()).ask(request_id=here.new_id(here.now + 3_600_000)),
        ("2026-11-21 11:00 UTC", "2026-11-21 10:00 UTC"),
    ),
    Reason.OVERLOADED: (overloaded, ("in a minute",)),
    Reason.NOT_TOGETHER: (apart, ("Ask on each dataset",)),
    Reason.UNKNOWN_DATASET: (lambda: scene().ask(dataset="censis"), ("censis",)),
    Reason.ALREADY_OPENED: (lambda: scene().open(**POLICY), ("Dataset census",)),
    Reason.NOT_PERMITTED: (
        lambda: of_owner("amend", by="otto", horizon="P1D"),
        (
            "otto is not an owner of dataset census",
            OWNERS,
            "more ask census access --role owner --reason WHY --by otto",
        ),
    ),
    Reason.NOT_OPEN: (
        lambda: of_step("begin"),
        ("Dataset census has no open reservation", "reservation list census"),
    ),
    Reason.NOT_FIRST_DATASET: (several, ("Reservation sha256:", "first dataset")),
    Reason.ALREADY_BEGUN: (
        lambda: of_step("begin", "reserve", "begin"),
        ("reservation sha256:", "settle census sha256:"),
    ),
    Reason.NOT_BEGUN: (
        lambda: of_step("settle", "reserve"),
        ("reservation sha256:", "void census sha256:"),
    ),
    Reason.NOT_BROKEN: (
        lambda: (here := scene("reserve")).owners("resolve", grant=here.grant, mistaken="no"),
        ("Reservation sha256:",),
    ),
    Reason.LAPSED: (
        lambda: of_step("begin", "reserve", hours=1),
        ("deadline of reservation sha256:", "void census sha256:"),
    ),
    Reason.BEYOND_MAXIMUM: (
        lambda: scene("reserve", "begin").settle_beyond(),
        ("dataset census", OWNERS, "resolve census sha256:"),
    ),
    Reason.ABOVE_FIRST: (
        lambda: of_step("settle", "reserve", "begin", shown="101"),
        ("last level",),
    ),
    Reason.SETTLES_IN_FULL: (
        lambda: scene("reserve", "begin", claim={"type": "pure", "epsilon": "0.1"}, **POLICY).step(
            "settle", shown="1"
        ),
        ("`shown`",),
    ),
    Reason.NOT_SETTLED: (not_settled, ("`previous`",)),
    Reason.CLOSED: (
        lambda: (here := scene(), here.close())[0].ask(),
        ("Dataset census is closed", OWNERS),
    ),
    Reason.SUSPENDED: (lambda: scene("suspend").ask(), ("dataset census", OWNERS)),
    Reason.PAUSED: (
        lambda: (here := scene(), here.owners("pause", reason="a loop"))[0].ask(),
        (
            "Dataset census",
            "paused by owner at 2026-11-21 10:00 UTC: a loop",
            "Ask an owner (owner) when",
        ),
    ),
    Reason.OUT_OF_DATE: (
        lambda: (here := scene(), here.ask())[0].amend(horizon="P1D", follows=1),
        ("follows decision 1 of dataset census", "last one was 2"),
    ),
    Reason.ALREADY_PAUSED: (
        lambda: of_owner("pause", "pause"),
        ("Dataset census is paused already, by owner", "resume census"),
    ),
    Reason.NOT_PAUSED: (lambda: of_owner("resume"), ("Dataset census is not paused",)),
    Reason.PERSON_PAUSED: (
        lambda: (here := scene(), here.owners("pause_member", member="ana", reason="a loop"))[
            0
        ].ask(),
        (
            "On dataset census, ana is paused by owner at 2026-11-21 10:00 UTC: a loop.",
            "Ask an owner (owner) when",
            "`accountant member resume census ana",
        ),
    ),
    Reason.PERSON_ALREADY_PAUSED: (
        lambda: (
            here := scene(),
            here.owners("pause_member", team="red", reason="a loop"),
        )[0].owners("pause_member", team="red", reason="again"),
        ("dataset census already", "member resume census"),
    ),
    Reason.PERSON_NOT_PAUSED: (
        lambda: of_owner("resume_member", member="bo"),
        ("not paused on dataset census", "member list census"),
    ),
    Reason.TOO_MANY_PAUSED: (
        lambda: (here := scene(), paused_many(here))[0].owners(
            "pause_member", member="bo", reason="a loop"
        ),
        ("Dataset census has 100 pauses", "member pause census --team"),
    ),
    Reason.RECORD_NOT_POSSIBLE: (
        lambda: scene(filter="gdp_residue", epsilon="1", delta="1e-6").owners(
            "record", claim=CLAIM, released_at="2026-01-01T00:00:00.000Z", evidence="a table"
        ),
        ("gdp_residue", "dataset census", "close the dataset"),
    ),
    Reason.UNKNOWN_ASK: (
        lambda: of_owner("decline", ask=7, asker="bo", reason="no"),
        ("census", "no open ask", "more list census"),
    ),
    Reason.OTHER_ASK: (
        lambda: (
            here := scene(),
            asked := here.owners("more", wants="access", role="auditor", reason="why"),
            here.owners("decline", ask=asked.sequence, asker="bo", reason="no"),
        )[-1],
        ("another person's", "more list census"),
    ),
    Reason.HAS_ROLE: (
        lambda: of_owner("more", wants="access", role="owner", reason="why"),
        ("owner has this role in dataset census", "Nothing needs"),
    ),
    Reason.TOO_MANY_ASKS: (
        lambda: (
            here := scene(),
            [here.owners("more", wants="access", role="auditor", reason="why") for _ in range(11)][
                -1
            ],
        )[-1],
        ("at most 10 open asks", "owner", "more list census"),
    ),
    Reason.UNKNOWN_DECISION: (
        lambda: of_owner("remark", decision=7, remark="never ran"),
        ("census", "earlier decision", "log export --dataset census"),
    ),
    Reason.UNKNOWN_MEMBER: (
        lambda: of_owner("member", member="bo", roles=[]),
        ("Dataset census", "named bo", "member list census"),
    ),
    Reason.LAST_OWNER: (
        lambda: (
            here := scene(),
            here.owners("member", member="oda", roles=[]),
        )[0].owners("member", member="owner", roles=[]),
        ("owner is the only owner of dataset census", "member set census NAME --role owner"),
    ),
    Reason.UNKNOWN_LIMIT: (
        lambda: of_owner("limit", scope="team", name="red"),
        ("Dataset census has no limit for team red",),
    ),
    Reason.LIMIT_NOT_POSSIBLE: (
        lambda: scene(**ZCDP, beside="basic").owners(
            "limit", scope="team", name="red", reserved="0.2"
        ),
        ("beside: basic", "20 % for team red", "--part 0.8", "--beside none"),
    ),
    Reason.END_IN_PAST: (
        lambda: scene().owners(
            "limit", scope="team", name="red", part="0.2", until="2026-01-01T00:00:00.000Z"
        ),
        ("team red", "2026-01-01", "later end"),
    ),
    Reason.OVER_RESERVED: (
        lambda: limited(reserved="0.7").owners("limit", scope="team", name="blue", reserved="0.4"),
        ("40 %", "team blue", "limit list census"),
    ),
    Reason.ALREADY_GRANTED: (
        lambda: (here := scene(), here.ask())[0].amend(policy=POLICY | {"epsilon": "0.5"}),
        ("Dataset census",),
    ),
    Reason.HAS_LIMITS: (
        lambda: limited(part="0.2").amend(policy=POLICY | {"epsilon": "0.5"}),
        ("Dataset census", "limit remove census"),
    ),
    Reason.NOT_LOWER: (
        lambda: scene().amend(policy=POLICY | {"epsilon": "2"}),
        ("epsilon 2, and dataset census has epsilon 1", "dataset show census"),
    ),
    Reason.ABOVE_CEILING: (
        lambda: scene().owners("budget", budget={"epsilon": "2"}),
        ("Dataset census has the ceiling epsilon 1 for ever, and 2 is above it", "--epsilon 1"),
    ),
    Reason.NOT_RENEWABLE: (
        never_renewable,
        ("several partitions", "whole names", "Leave the lifetime out"),
    ),
    Reason.NO_LIFETIME: (
        lambda: renewal(scene()),
        ("Dataset census was opened without a lifetime", "dataset open next --like census"),
    ),
    Reason.ALREADY_RENEWED: (
        lambda: (here := with_lifetime(), renewal(here), renewal(here, new="third"))[2],
        ("Dataset census has a next generation", "Renew the latest"),
    ),
    Reason.NOT_IN_GROUP: (in_another_group, ("`::`", "Keep the group")),
    Reason.POPULATION_IN_USE: (
        lambda: in_a_population("second", lifetime={"epsilon": "2", "shared": True}),
        ("has datasets already", "Leave `lifetime` out"),
    ),
    Reason.BEYOND_TEAM: (
        beyond_team,
        ("A lead stays within", "accountant limit list census", OWNERS),
    ),
    Reason.OUTSIDE_LIFETIME: (
        lambda: in_a_population("second", by="mallory"),
        (
            "sender owns none of the population's datasets",
            "ask an owner of the population's datasets",
        ),
    ),
    Reason.LIFETIME_MISMATCH: (
        lambda: renewal(with_lifetime(), unit="household"),
        ("another unit", "than dataset census"),
    ),
    Reason.BEYOND_LIFETIME: (
        lambda: renewal(with_lifetime(), epsilon="2"),
        ("fixed at the first opening", "Renew with less"),
    ),
    Reason.NOT_PENDING: (
        not_pending,
        ("Dataset census has no request of this hash", "approval list census"),
    ),
    Reason.ALREADY_ANSWERED: (
        lambda: answered("approve", times=2),
        ("An owner has approved or denied this request", "approval list census"),
    ),
    Reason.OWN_REQUEST: (
        lambda: answered("approve", analyst="olga"),
        ("Nobody approves a request of their own", "another owner"),
    ),
    Reason.DENIED: (
        lambda: answered("deny"),
        ("olga has denied the request of ana", 'The reason: "see table 4"', OWNERS),
    ),
    Reason.NOT_ALONE: (not_alone, ("more of dataset census than", "ask each dataset alone")),
    Reason.NO_APPROVER: (no_approver, ("no other owner", "member set census NAME --role owner")),
    Reason.TOO_MANY_PENDING: (
        too_many_pending,
        ("At most 50 requests of one analyst", OWNERS, "approval list census"),
    ),
    Reason.HALTED: (
        lambda: (here := scene(**POLICY, halt_on_refusal=True), here.halt())[0].ask(),
        ("dataset census", OWNERS),
    ),
    Reason.TOO_MANY_OF_HOLDER: (
        lambda: scene("reserve", **POLICY, open_per_holder=1).reserve(),
        ("ana holds: 1", "may have 1", OWNERS, "void census --holder ana", "per-holder 2"),
    ),
    Reason.NO_SCHEMA: (
        lambda: ask_question(with_schema(None)),
        ("Dataset census was opened without a schema", OWNERS),
    ),
    Reason.QUESTION_NOT_ALLOWED: (
        lambda: ask_question(with_schema(), {"ask": "count", "where": "height > 65"}),
        ("dataset census", "height", "dataset show census --json"),
    ),
    Reason.UNIT_MISMATCH: (
        lambda: scene().ask(unit="visit"),
        ("unit visit", "unit person", "dataset show census"),
    ),
    Reason.CLAIM_NOT_ACCEPTED: (
        lambda: scene(**POLICY).ask("gaussian:sigma=1,sensitivity=1"),
        ("Filter basic adds up ε", "dataset show census"),
    ),
    Reason.ABOVE_CAP: (
        lambda: scene(**POLICY, most_per_request="0.1").ask("pure:0.3"),
        ("10 % of the budget (ε 0.1)", "costs ε 0.3", OWNERS, "amend census --most-per-request 1"),
    ),
    Reason.EXHAUSTED: (lambda: scene().ask("pure:2"), ("costs ε 2", "1 is left")),
}
WORDS_ALONE: Final = {
    *(Reason.TOO_MANY_MEMBERS, Reason.TOO_MANY_LIMITS, Reason.TOO_MANY_OPEN),
    *(Reason.OTHER_DATASET, Reason.INTERNAL_ERROR),
}
"""Reasons to which a ledger comes after thousands of records, in a part, or by a bug."""


def paused_many(world: Scene) -> None:
    """Pause as many persons as a dataset may have pauses."""
    for number in range(MAX_PAUSES):
        world.owners("pause_member", member=f"guest-{number}", reason="a loop")


def current_of(decision: Decision) -> CurrentDataset:
    """Return a dataset as it is shown to one of its owners, who sees who paused it."""
    world = scene()
    pause = world.owners("pause", reason="a loop")
    view = view_of_ledger(world.ledger())
    policy = Policy(**{"unit": "person", **CURRENT.get(decision.reason, POLICY)})  # type: ignore[arg-type]
    view = msgspec.structs.replace(view, policy=policy)
    return CurrentDataset(view, members=MEMBERS, pause=pause)


CURRENT: Final[dict[Reason | None, dict[str, Any]]] = {
    Reason.LIMIT_NOT_POSSIBLE: ZCDP | {"beside": "basic"},
    Reason.ABOVE_CAP: POLICY | {"most_per_request": "0.1"},
}


def check_advice(words: str) -> None:
    """Check that the parser takes each command that a text advises, as it is written."""
    for line in COMMAND.findall(words):
        _, *rest = shlex.split(line)
        found: Any = command()
        while hasattr(found, "commands"):
            found = found.commands[rest.pop(0)]
        found.make_context(line, rest)


def test_every_reason_is_in_the_table() -> None:
    assert TABLE.keys() | WORDS_ALONE == set(Reason)


@pytest.mark.parametrize("reason", TABLE)
def test_a_refusal_has_its_values_and_an_advice_that_the_commands_take(reason: Reason) -> None:
    provoke, said = TABLE[reason]
    decision = provoke()
    assert decision.reason is reason
    words = refusal_words(decision, current=current_of(decision))
    for each in said:
        assert each in words, words
    check_advice(words)
    assert re.search(r"\bDATASET\b|\bGRANT\b(?! --)", words) is None, words
    # Somebody who may not see the members reads how to find an owner.
    alone = refusal_words(decision)
    named = {Reason.LAST_OWNER, Reason.PERSON_PAUSED}  # by the words, or by the decision itself
    asks = "{owner}" in REASONS[reason].remedy_form and reason not in named
    assert asks is (UNNAMED_OWNER in alone), alone
    check_advice(alone)


OWNERS_COMMAND: Final = re.compile(
    r"accountant (dataset (amend|resolve|resume|set-budget)"
    r"|(member|limit) (set|remove)) "
)


@pytest.mark.parametrize("reason", TABLE)
def test_an_advice_to_owners_has_a_name_where_nobody_is_authenticated(reason: Reason) -> None:
    decision = TABLE[reason][0]()
    current = current_of(decision)._replace(needs_name=True)
    words = refusal_words(decision, current=current)
    check_advice(words)
    for line in filter(OWNERS_COMMAND.match, COMMAND.findall(words)):
        assert re.search(r" --by (oda|owner)$", line), line
    unknown = refusal_words(decision, current=current._replace(members=()))
    for line in filter(OWNERS_COMMAND.match, COMMAND.findall(unknown)):
        assert line.endswith(" --by OWNER"), line


def test_the_words_of_every_reason_advise_what_the_commands_take() -> None:
    for words in REASONS.values():
        check_advice(words.remedy)


def test_the_refusal_of_a_sampled_claim_names_the_filters_that_count_sampling() -> None:
    for policy in (ZCDP, POLICY, ZCDP | {"most_per_request": "0.1"}):
        decision = scene(**policy).ask(SAMPLED)
        words = refusal_words(decision, Policy(unit="person", **policy))  # type: ignore[arg-type]
        assert f"Filter {policy['filter']} " in words
        assert "renyi, renyi_mixture and renyi_weighted count it" in words
        check_advice(words)
    counting = {"filter": "renyi", "order": "22", "epsilon": "1", "delta": "1e-6"}
    words = refusal_words(scene(**counting).ask(SAMPLED), Policy(unit="person", **counting))  # type: ignore[arg-type]
    assert "sampl" not in words
    assert set(FILTERS) >= {"renyi", "renyi_mixture", "renyi_weighted"}
