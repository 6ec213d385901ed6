"""Random histories of one partition: requests, repeats, owners' records, noise, clocks."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import strategies as st

from accountant.partition.decide import decide_internal_error
from accountant.records.inputs import Input
from tests.accountant.strategies import POLICIES, claims
from tests.accountant.world import World

DATASETS = ("census", "census", "census", "survey", "nowhere")

steps = st.one_of(
    st.tuples(st.just("ask"), st.sampled_from(DATASETS), claims(), st.sampled_from("ab")),
    st.tuples(st.just("ask"), st.sampled_from(DATASETS), claims(large=0), st.sampled_from("ab")),
    st.tuples(st.just("mismatch"), st.sampled_from(DATASETS)),
    st.tuples(st.just("again"), st.integers(0, 1000)),
    st.tuples(st.just("conflict"), st.integers(0, 1000)),
    st.tuples(st.just("late"), st.integers(0, 5_000_000)),
    st.tuples(st.just("noise"), st.binary(max_size=20)),
    st.tuples(st.just("poison")),
    st.tuples(st.just("amend"), st.sampled_from(DATASETS), st.sampled_from(["0.1", "0.7"])),
    st.tuples(st.just("close"), st.just("survey")),
    st.tuples(st.sampled_from(["pause", "resume", "resume"]), st.sampled_from(DATASETS)),
    st.tuples(st.just("open"), st.just("survey"), st.sampled_from(POLICIES)),
    st.tuples(st.just("clock"), st.integers(-400_000, 4_000_000)),
    st.tuples(st.just("commit")),
)


def play(world: World, history: list[tuple[Any, ...]]) -> list[bytes]:
    """Send a history to a world; return the request bodies that were sent."""
    sent: list[bytes] = []
    for kind, *rest in history:
        world.now += 700
        match kind:
            case "ask":
                dataset, claim, analyst = rest
                body = world.request(msgspec.to_builtins(claim), dataset=dataset, analyst=analyst)
                sent.append(body)
                world.send("requests", body)
            case "mismatch":
                world.ask(dataset=rest[0], unit="household")
            case "again" if sent:
                world.send("requests", sent[rest[0] % len(sent)])
            case "conflict" if sent:
                body = sent[rest[0] % len(sent)]
                world.send("requests", body[:-1] + b', "purpose": "x"}')
            case "late":
                world.ask(request_id=world.new_id(world.now - rest[0]))
            case "noise":
                world.send("requests", rest[0])
            case "poison":
                record = Input("requests", world.draft.next["requests"], None, b"{}", world.now)
                world.took(decide_internal_error(world.draft, record, world.now))
            case "amend":
                world.send("admin", world.admin("amend", dataset=rest[0], alert_at=[rest[1]]))
            case "pause" | "resume":
                world.send("admin", world.admin(kind, dataset=rest[0]))
            case "close":
                world.close(rest[0])
            case "open":
                world.open(rest[0], **rest[1])
            case "clock":
                world.now = max(0, world.now + rest[0])
            case "commit":
                world.commit()
    return sent


@st.composite
def worlds(draw: st.DrawFn, *, minimum: int = 4, maximum: int = 40) -> tuple[World, list[bytes]]:
    """A world with a history, and the bodies of its requests."""
    world = World(
        batch=draw(st.sampled_from([1, 3, 100])), most_ids=draw(st.sampled_from([8, 999]))
    )
    world.open("census", **draw(st.sampled_from(POLICIES)))
    sent = play(world, draw(st.lists(steps, min_size=minimum, max_size=maximum)))
    return world, sent
