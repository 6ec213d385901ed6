"""Any bytes, any state: the oracle predicts each record and every row, and which ids are known."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from itertools import count
from typing import Any, Final
from uuid import UUID

from hypothesis import example, given, settings
from hypothesis import strategies as st

from accountant.partition import Partition
from accountant.partition.draft import Draft
from accountant.records import Genesis, Source
from accountant.records.kinds import KINDS
from accountant.replay.replay import state_rows
from accountant.times import uuid7
from tests.accountant.judged_life import START, Life
from tests.every_case import every_case
from tests.examples_of_records import EXAMPLES, examples_of
from tests.faults.oracle.rows import check_state
from tests.faults.oracle.texts import at_text
from tests.nightly import examples

MAX_IDS = 6
GENESIS = Genesis("test", 0, 2, 61_000, 5_000)
DATASETS = ("d0", "d1", "d3", "d4", "d2")
POLICIES: tuple[dict[str, Any], ...] = (
    {"epsilon": "1", "delta": "1e-6"},
    {"filter": "basic", "epsilon": "1", "odometers": [{"type": "basic"}]},
    {"filter": "basic", "epsilon": "0.3", "delta": "1e-6", "halt_on_refusal": True},
    {"filter": "zcdp", "rho": "0.05", "delta": "1e-7", "alert_at": ["0.1", "1"]},
    {"filter": "basic", "epsilon": "1", "neighbours": "replace", "access": "members"},
    {"filter": "basic", "epsilon": "-1"},
)
CLAIMS: tuple[Any, ...] = (
    {"type": "pure", "epsilon": "0.01"},
    {"epsilon": "0.01", "type": "pure"},
    {"type": "pure", "epsilon": "0.010"},
    {"type": "pure", "epsilon": "0.29"},
    {"type": "zcdp", "rho": "0.29"},
    {"type": "pure", "epsilon": "0.97"},
    {"type": "pure", "epsilon": "5"},
    {"type": "zcdp", "rho": "0.04"},
    {"type": "gaussian", "sigma": "20", "sensitivity": "1"},
    {"type": "repeat", "claim": {"type": "pure", "epsilon": "0.001"}, "times": 7},
    {"type": "all_of", "claims": [{"type": "pure", "epsilon": "0.1"}]},
    {"type": "randomized_response", "epsilon": "0.1", "delta": "0"},
    {"type": "pure", "epsilon": 0.1},
    {"type": "pure", "epsilon": "-1"},
    {"type": "pure"},
    {"type": "unheard", "epsilon": "1"},
    {"type": "pure", "epsilon": "0.1", "more": ":"},
)
OFTEN = CLAIMS[0], CLAIMS[3], CLAIMS[4], CLAIMS[5]
SOMETIMES: tuple[dict[str, Any], ...] = (
    {"purpose": 'a: "quoted" purpose, é'},
    {"purpose": "é\u2028"},
    {"purpose": ""},
    {"purpose": "x" * 201},
    {"unit": "household"},
    {"neighbours": "replace"},
    {"neighbours": "none"},
    {"version": 2},
    {"type": "open"},
    {"analyst": "no name"},
    {"dataset": ""},
    {"unheard": None},
    {"purpose": "\x00\x1f"},
    {"via": "bob"},
    {"via": "bob"},
    {"via": "a:b", "purpose": ":"},
    {"via": ""},
    {"via": None},
    {"other_datasets": ["d1"]},
    {"other_datasets": []},
    {"reserve": {"until": "PT1M"}},
    {"reserve": {"until": "PT0M"}},
)
MEMBERSHIPS: tuple[dict[str, Any], ...] = (
    {},
    {},
    {},
    {"team": "blue"},
    {"until": at_text(START + 1_000)},
    {"until": at_text(START + 20_000), "team": "blue"},
    {"until": "2027-01-01"},
    {"as": "administrator"},
    {"as": "owner"},
    {"follows": 2},
)
AGES = (-70_000, -61_000, -1_000, -1, 0, 1, 999, 1_000, 4_999, 5_001, 20_000, 62_000)
IDS = st.builds(
    lambda age, number: uuid7(START + age, bytes([0] * 8 + [number, 0])),
    st.sampled_from(AGES),
    st.integers(0, 2),
)
WRONG_IDS = st.sampled_from(["", "x" * 36, "0" * 36, uuid7(START, b"\xaa" * 10).upper()])


def whole(value: Any, form: str) -> bytes:
    """Return a body, written in one of the ways in which analysts write JSON, or wrongly."""
    if form == "spaced":
        return b" \n" + json.dumps(value, indent=1).encode() + b"\r\n"
    if form == "plain":
        return json.dumps(value).encode()
    tight = json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
    if form == "twice":
        return tight[:-1] + b',"version":1}'
    return tight[:-1] if form == "cut" else tight


BRAKES: list[dict[str, Any]] = [
    *({}, {}, {"reason": "a loop"}, {"follows": 3}),
    *({"as": "administrator"}, {"as": None}, {"as": "owner"}),
]
OFTEN_SENT = (
    *("open", "open", "open", "amend", "close", "member", "member", "member"),
    *("pause", "resume", "resume"),
)
KINDS_OF_OWNERS = dict.fromkeys(each.kind for each in EXAMPLES if each.is_owners)
OTHERS = [kind for kind in KINDS_OF_OWNERS if kind not in OFTEN_SENT]
REFUSED = {
    "open": {"already_opened"},
    "resolve": {"not_open"},
    "renew": {"no_lifetime"},
    "decline": {"unknown_ask"},
}
"""Why the dataset of these tests refuses an example, if it does."""


def variants(kind: str) -> list[dict[str, Any]]:
    """Return the fields of a kind's examples, and the same with one of them left out or wrong."""
    found: list[dict[str, Any]] = []
    for each in examples_of(kind):
        fields = each.own_fields
        found += [fields, fields, fields | {"follows": 3}, fields | each.more]
        found += [fields | {"as": "administrator"}]
        for name, value in fields.items():
            found.append({other: fields[other] for other in fields if other != name})
            found += [fields | {name: wrong} for wrong in (None, *odd(value))]
    return found


def odd(value: Any) -> list[Any]:
    """Return values of a field that are empty, hard to repeat, too long or no text."""
    return ["", 'of "ana"%d, é', "\u2066x", "x" * 201, 5] if isinstance(value, str) else ["", 5]


FORMS = st.sampled_from(["tight"] * 4 + ["plain", "spaced", "twice", "cut"])
REQUESTS = st.builds(
    lambda fields, extra, form: whole(
        {"version": 1, "type": "request", "unit": "person", "neighbours": "add_remove"}
        | fields
        | extra,
        form,
    ),
    st.fixed_dictionaries(
        {
            "request_id": st.one_of(IDS, IDS, IDS, IDS, WRONG_IDS),
            "analyst": st.sampled_from(["ana", "bob"]),
            "dataset": st.sampled_from(DATASETS),
            "claim": st.one_of(st.sampled_from(OFTEN), st.sampled_from(CLAIMS)),
        }
    ),
    st.one_of(st.just({}), st.just({}), st.just({}), st.sampled_from(SOMETIMES)),
    FORMS,
)
ADMIN = st.builds(
    lambda kind, request_id, dataset, by, more, form: whole(
        {"version": 1, "type": kind, "request_id": request_id, "dataset": dataset, "by": by}
        | more[kind],
        form,
    ),
    st.sampled_from([*OFTEN_SENT, *OTHERS]),
    IDS,
    st.sampled_from(DATASETS),
    st.sampled_from(["owner", "owner", "owner", "ana"]),
    st.fixed_dictionaries(
        {
            "open": st.builds(
                lambda policy, owners: {"policy": policy} | owners,
                st.sampled_from(POLICIES),
                st.sampled_from([{}, {}, {"owners": ["owner", "bob"]}, {"owners": []}]),
            ),
            "member": st.builds(
                lambda member, roles, more: {"member": member, "roles": roles} | more,
                st.sampled_from(["ana", "bob", "owner"]),
                st.sampled_from([["analyst"], ["analyst"], ["engine", "analyst"], ["owner"], []]),
                st.sampled_from(MEMBERSHIPS),
            ),
            "amend": st.sampled_from(
                [
                    *({"alert_at": ["0.02", "0.9"]}, {"horizon": "P3D"}, {"alert_at": ["2"]}, {}),
                    *({"access": "members"}, {"access": "anyone", "visibility": "own"}),
                ]
            ),
            "close": st.sampled_from([{}, {"reason": "over"}]),
            "pause": st.sampled_from(BRAKES),
            "resume": st.sampled_from(BRAKES),
            **{kind: st.sampled_from(variants(kind)) for kind in OTHERS},
        }
    ),
    FORMS,
)
BYTES = st.one_of(
    st.none(), st.binary(max_size=20), st.sampled_from([b"{}", b"[]", b"null", b"[" * 20, b" "])
)


@dataclass(frozen=True)
class Step:
    """One input: what it holds, when it came, and whether its decision is kept.

    Attributes:
        again: the value is that of an earlier input, this many back; 0 for its own.
        later: milliseconds since the one before it.
        kept: False where the decision is undone and the input decided `internal_error`.
    """

    source: Source
    value: bytes | None
    again: int = 0
    later: int = 0
    kept: bool = True


STEPS = st.one_of(
    *[
        st.builds(
            Step,
            st.just(source),
            st.one_of(bodies, bodies, bodies, bodies, BYTES),
            st.sampled_from([0, 0, 0, 1, 2, 5]),
            st.sampled_from([0, 0, 0, 1, 500, 1_000, 20_000]),
            st.sampled_from([True] * 7 + [False]),
        )
        for source, bodies in (("requests", REQUESTS), ("requests", REQUESTS), ("admin", ADMIN))
    ]
)


def opening(number: int) -> Step:
    body = {
        "version": 1,
        "type": "open",
        "request_id": uuid7(START, bytes([9] * 8 + [number, 0])),
        "dataset": DATASETS[number],
        "by": "owner",
        "policy": POLICIES[number],
    }
    return Step("admin", whole(body, "tight"))


OPENINGS = [opening(number) for number in range(3)]
HISTORIES = st.lists(st.tuples(st.lists(STEPS, min_size=1, max_size=10), st.booleans()), max_size=6)
"""Batches, and of each whether its first commit fails: its inputs are then decided once more."""


class Bytes(Life):
    """A partition of two, with room for few ids, whose commits may fail."""

    def __init__(self, most_ids: int = MAX_IDS) -> None:
        self.most_ids = most_ids
        super().__init__(0, GENESIS)
        self.state = Partition(GENESIS, most_ids=most_ids)
        self.state.sequence, self.state.decided_at = 0, START
        self.state.head = self.judge.head
        self.draft = Draft(self.state)
        self.clock = START
        self.said: list[bytes | None] = []

    def batch(self, steps: list[Step], *, commits: bool) -> None:
        """Decide a batch; if it is not committed, all of it is lost."""
        clock, said = self.clock, [*self.said]
        for step in steps:
            clock += step.later
            # An append time may be far ahead of the clock: the lead is bounded.
            time = clock + (600_000 if step.later == 500 else 0)
            value = said[-step.again] if 0 < step.again <= len(said) else step.value
            said.append(value)
            self.write(step.source, value, time, clock, undone=not step.kept, fails=not step.kept)
        if commits:
            self.commit()
            self.clock, self.said = clock, said
        else:
            self.lose()

    def reset_clock(self, at: int) -> None:
        self.clock = at
        super().reset_clock(at)

    def commit(self) -> None:
        super().commit()
        with self.naming_the_life():
            check_state(self.judge, self.rows)
        assert dict(state_rows(self.state)) == self.rows
        alive = 0
        for (source, dataset, sender, request_id), known in self.judge.ids.items():
            if known.issued > self.judge.floor:
                alive += 1
                key = f"{source}/{dataset}/{sender}/".encode() + UUID(request_id).bytes
                found = self.state.ids.get(known.issued, key)
                assert found is not None
                assert found.body_hash == hashlib.sha256(known.body).digest()
        assert self.state.ids.count_by_second(self.state.floor).total() == alive


def request_step(
    number: int, claim: Any, *, kept: bool = True, issued: int = START, later: int = 0
) -> Step:
    """Return a request of the dataset whose policy halts."""
    body = {
        "version": 1,
        "type": "request",
        "request_id": uuid7(issued, bytes([8] * 8 + [number, 0])),
        "analyst": "ana",
        "dataset": DATASETS[2],
        "claim": claim,
        "unit": "person",
        "neighbours": "add_remove",
    }
    return Step("requests", whole(body, "tight"), later=later, kept=kept)


def governed(number: int, kind: str, **fields: Any) -> Step:
    body = {"version": 1, "type": kind, "dataset": DATASETS[2], "by": "owner"} | fields
    body["request_id"] = uuid7(START, bytes([8] * 8 + [number, 0]))
    return Step("admin", whole(body, "tight"))


HALTED_THEN_CLOSED = [request_step(1, CLAIMS[5]), governed(2, "close"), request_step(3, CLAIMS[0])]
"""Both reasons apply to the last request, and the first of them is reported."""
HALTED_THEN_PAUSED = [
    *(request_step(1, CLAIMS[5]), governed(2, "pause"), request_step(3, CLAIMS[0])),
    *(governed(4, "pause"), governed(5, "resume", by="ana"), governed(6, "resume")),
    *(governed(7, "resume"), request_step(8, CLAIMS[0])),
]
"""The reason is `paused`, and after the pause `halted`."""
PAUSED_THEN_CLOSED = [
    *(governed(1, "pause", by="ana", **{"as": "administrator"}), governed(2, "close")),
    *(governed(3, "resume"), request_step(4, CLAIMS[0])),
]
"""Closing ends a pause: the row says nothing of it any more, and the reason is `closed`."""


UNDOES: Final = {"resume_member": "pause_member"}
"""The kinds of record that have an effect only after another one."""


def around(kind: str) -> list[list[Step]]:
    """Return a kind's examples around grants, pauses and the closing, by owners and by others.

    They include the wrong ones: see `variants`. Each request is the last of its batch: the row
    after it is compared.
    """
    batches: list[list[Step]] = [[]]
    numbers = count()

    def govern(kind: str, **fields: Any) -> None:
        batches[-1].append(governed(next(numbers), kind, **fields))

    def send(**more: Any) -> None:
        for each in examples_of(kind):
            govern(kind, **each.own_fields | more)

    def ask() -> None:
        batches[-1].append(request_step(next(numbers), CLAIMS[0]))
        batches.append([])

    ask()
    for each in examples_of(UNDOES.get(kind, "")):
        govern(each.kind, **each.own_fields)
    send(by="ana")
    send(follows=1)
    send()
    ask()
    for fields in variants(kind):
        govern(kind, **fields)
    ask()
    for other in ("pause", "resume", "pause", "close"):
        govern(other)
        send()
        send(by="ana")
        ask()
    return batches


REWOUND = [
    request_step(1, CLAIMS[0]),
    request_step(2, CLAIMS[0], kept=False),
    request_step(2, CLAIMS[0]),
]
"""The second is undone, charge and id: decided again, it is granted from where the first ended."""


@settings(max_examples=examples(400), deadline=None)
@given(HISTORIES)
@example([(REWOUND, False)])
@example([(HALTED_THEN_CLOSED, False)])
@example([(HALTED_THEN_PAUSED, True)])
@example([(PAUSED_THEN_CLOSED, False)])
def test_the_oracle_predicts_a_decision_on_any_bytes(
    history: list[tuple[list[Step], bool]],
) -> None:
    life = Bytes()
    for steps, fails in [(OPENINGS, False), *history]:
        if fails:
            life.batch(steps, commits=False)
        life.batch(steps, commits=True)


@every_case("kind", KINDS_OF_OWNERS)
def test_the_oracle_predicts_each_kind_around_grants_a_pause_and_the_closing(kind: str) -> None:
    life = Bytes(most_ids=1_000)
    life.batch(OPENINGS, commits=True)
    for steps in around(kind):
        life.batch(steps, commits=False)
        life.batch(steps, commits=True)
    life.finish()
    (outcomes,) = (row.outcomes for row in KINDS if row.name == kind)
    assert life.met.keys() >= REFUSED.get(kind, {*outcomes})
    assert life.met["granted"]


BACK = st.one_of(st.integers(1, 2_000), st.integers(1, 2 * GENESIS.window_ms))


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(st.tuples(st.lists(STEPS, min_size=1, max_size=10), BACK), min_size=1, max_size=5))
def test_the_oracle_predicts_clock_resets_and_later_decisions(
    history: list[tuple[list[Step], int]],
) -> None:
    life = Bytes()
    life.batch(OPENINGS, commits=True)
    for steps, back in history:
        life.batch(steps, commits=True)
        life.reset_clock(life.judge.at - back)
    life.batch([step for steps, _ in history for step in steps], commits=True)


def test_a_full_table_forgets_the_oldest_ids_in_whole_seconds() -> None:
    life, claim = Bytes(), CLAIMS[0]
    life.batch([*OPENINGS, *(request_step(n, claim) for n in range(MAX_IDS))], commits=True)
    assert (life.met["granted"], life.met["overloaded"]) == (4, 2)
    # A minute after the end of the second in which they were issued, and a millisecond before.
    late = [request_step(7, claim, later=60_998), request_step(8, claim, issued=START + 60_000)]
    life.batch(late, commits=True)
    assert life.met["overloaded"] == 4
    again = [request_step(8, claim, issued=START + 60_000, later=1), request_step(0, claim)]
    life.batch(again, commits=True)
    assert (life.met["granted"], life.met["expired"]) == (5, 1)


def test_datasets_that_may_be_apart_are_refused_together() -> None:
    life = Bytes()
    life.batch(OPENINGS, commits=True)
    body = json.loads(request_step(1, CLAIMS[0]).value or b"")
    step = Step("requests", whole({**body, "other_datasets": ["d0", "d9"]}, "tight"))
    life.batch([step, step], commits=True)
    assert (life.met["not_together"], life.met["repeated"]) == (1, 1)
