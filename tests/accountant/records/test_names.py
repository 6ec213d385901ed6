"""Names: what they may hold by which rules, and that no key made of them stands for two things.

A joined key has an inverse: what it was made of can be read back, whatever the names, so no two
join to the same. Tried on every short name over one letter, one digit and every separator that
names may hold, and on random ones over the whole grammar.
"""

from __future__ import annotations

import base64
import itertools
import json
from typing import Any, Final
from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from accountant.errors import RequestInvalid
from accountant.partition.ids import id_key
from accountant.records import (
    Source,
    decode_decision,
    decode_partition_row,
    decode_snapshot,
    encode,
    partition_row_key,
)
from accountant.records.inputs import MAX_BYTES, Undecodable, check
from accountant.records.names import _NAME, check_name, is_name
from accountant.replay.replay import state_rows
from accountant.views.datasets import alerts, view_of_ledger
from accountant.views.usage import OTHERS
from tests.accountant.world import World, code, opened
from tests.every_case import check_each, check_rows

SEPARATORS: Final = "._-@:"
SHORT: Final = [
    first + "".join(rest)
    for first in "a0"
    for length in range(3)
    for rest in itertools.product("a0" + SEPARATORS, repeat=length)
]
names = st.from_regex(_NAME, fullmatch=True)
NEVER: Final = "/+ %{}\"\\\n\t,;=()[]<>?#&|'`~!$^*é١\x00"


def test_the_tested_separators_are_all_those_of_the_grammar() -> None:
    allowed = {each for each in map(chr, range(0x3000)) if is_name(f"a{each}a")}
    assert {each for each in allowed if not each.isalnum()} == set(SEPARATORS)
    assert allowed - set(SEPARATORS) == {each for each in map(chr, range(128)) if each.isalnum()}
    assert all(map(is_name, SHORT))
    assert not any(is_name(f"a{each}a") for each in NEVER)
    assert not any(map(is_name, ["", *SEPARATORS, ":a", "@a", "a" * 101]))


def inverse_of_id_key(source: Source, dataset: str, caller: str) -> bool:
    """Tell whether the parts of an id's key can be read back from it."""
    request_id = "019a0000-0000-7000-8000-000000000000"
    parts = (source, dataset, caller, request_id)
    *names, packed = id_key(*parts).split(b"/", maxsplit=3)
    return (*[name.decode() for name in names], str(UUID(bytes=packed))) == parts


@pytest.mark.parametrize("source", ["requests", "admin"])
def test_an_id_key_can_be_split_into_its_parts_for_short_names(source: Source) -> None:
    assert all(itertools.starmap(inverse_of_id_key, itertools.product([source], SHORT, SHORT)))


@given(st.sampled_from(["requests", "admin"]), names, names)
def test_an_id_key_can_be_split_into_its_parts_for_all_names(
    source: Source, dataset: str, caller: str
) -> None:
    assert inverse_of_id_key(source, dataset, caller)


def test_an_alert_id_can_be_split_into_dataset_generation_and_threshold() -> None:
    thresholds = ["0.001", "0.5", "1"]
    for name in SHORT:
        world = World()
        world.open(name, filter="basic", epsilon="1", alert_at=thresholds)
        world.ask("pure:1", dataset=name)
        found = alerts(None, view_of_ledger(world.ledger(name)))
        assert [tuple(each.alert_id.split("/")) for each in found] == [
            (name, "1", threshold) for threshold in thresholds
        ]


def test_no_datasets_row_has_the_key_of_a_partitions_row() -> None:
    # The key of a dataset's row, and of its records on Kafka, is its name.
    keys = {name.encode() for name in SHORT}
    assert len(keys) == len(SHORT)
    assert not keys & {partition_row_key(partition) for partition in range(1000)}
    assert not any(is_name(partition_row_key(partition).decode()) for partition in range(1000))


def test_no_analyst_is_called_as_the_row_of_all_others() -> None:
    assert not is_name(OTHERS)


@given(names, names)
def test_records_written_without_the_codec_decode_to_the_same_names(
    dataset: str, analyst: str
) -> None:
    # A grant's record and a dataset's row are put together without escapes.
    world = World()
    policy = {"filter": "basic", "epsilon": "1"}
    world.send("admin", world.admin("open", dataset=dataset, by=analyst, policy=policy))
    world.ask("pure:0.5", dataset=dataset, analyst=analyst)
    grant = decode_decision(world.log[-1])
    assert code(grant) == "granted"
    assert grant.dataset == dataset
    assert encode(grant) == world.log[-1]
    rows = dict(world.rows())
    assert decode_snapshot(rows[dataset.encode()]).dataset == dataset
    assert decode_partition_row(rows[partition_row_key(0)]).datasets == 1
    assert state_rows(world.replayed()) == world.rows()


def test_a_name_with_a_forbidden_character_is_refused() -> None:
    def check_case(each: str, field: str) -> None:
        decision = opened().ask(**{field: f"a{each}b"})
        assert code(decision) == "invalid_field"
        assert decision.error is not None
        assert decision.error.field == field

    check_each(check_case, NEVER, ["dataset", "analyst"])


def test_a_name_that_can_be_used_is_shown() -> None:
    def check_case(text: str, name: str) -> None:
        with pytest.raises(RequestInvalid) as caught:
            check_name("dataset", text)
        assert str(caught.value).endswith(f": use {name}")

    check_rows(
        check_case,
        [
            ("schema/t", "schema:t"),
            ("a / b\\c", "a:b:c"),
            ("census 2026", "census_2026"),
            ("ann+x@example.org", "ann_x@example.org"),
            ("100 %", "100"),
            ("{name}", "name"),
            ("@ann", "ann"),
            ("René", "Rene"),
            ("census\n", "census"),
            ("c\u0435nsus", "census"),  # a Cyrillic letter
            ("\u0421ensus-2026", "Census-2026"),
        ],
    )


@pytest.mark.parametrize(
    "text",
    ["", "??", "日本", "a" * 101, "ﬃ" * 100, "\u0441\u043e\u0440", "Stra\u00dfe-2026", "r\u0434ta"],
)
def test_a_text_unlike_any_name_gets_no_suggestion(text: str) -> None:
    with pytest.raises(RequestInvalid) as caught:
        check_name("dataset", text)
    assert caught.value.hint == ""


@given(st.text(max_size=120))
def test_a_suggested_name_is_valid_and_a_valid_name_is_accepted(text: str) -> None:
    if is_name(text):
        check_name("dataset", text)
        return
    with pytest.raises(RequestInvalid) as caught:
        check_name("dataset", text)
    hint = caught.value.hint
    assert not hint or is_name(hint.removeprefix("use "))


PEOPLE = ["member", "by", "analyst", "via", "name", "owners[0]"]


@pytest.mark.parametrize("field", PEOPLE)
@given(text=st.text(max_size=120))
def test_no_other_name_is_suggested_for_a_person(field: str, text: str) -> None:
    if is_name(text):
        return
    with pytest.raises(RequestInvalid) as caught:
        check_name(field, text)
    name = "b32." + base64.b32encode(text.encode()).decode().rstrip("=").lower()
    is_shown = bool(text) and is_name(name)
    named = f"if it is a subject of your provider, it is named {name} here"
    assert caught.value.hint.startswith(named) if is_shown else caught.value.hint == ""


@pytest.mark.parametrize("field", PEOPLE)
def test_a_subject_that_is_no_name_gets_its_escaped_name(field: str) -> None:
    with pytest.raises(RequestInvalid) as caught:
        check_name(field, "lab|ana")
    message = str(caught.value)
    assert "lab_ana" not in message
    assert "it is named b32.nrqwe7dbnzqq here (docs/how-to/oidc-sign-in.md" in message


def body(**more: Any) -> bytes:
    return json.dumps(json.loads(World().request()) | more).encode()


@given(names, names, st.booleans())
@example("a:b", "c", True)
@example("a:b", "c:d", False)
def test_a_duplicate_key_is_found_beside_names_with_colons(
    dataset: str, analyst: str, is_escaped: bool
) -> None:
    sound = body(dataset=dataset, analyst=analyst)
    if is_escaped:  # a colon of a name that no colon of the body is
        sound = sound.replace(dataset.encode(), dataset.replace(":", "\\u003a").encode())
    assert check("requests", sound).body.dataset == dataset
    again = [
        b'"analyst": "' + analyst.encode() + b'", ',
        b'"dataset": "x", ',
        b'"dataset": "a:b:c", ',
        b'"claim": {"type": "pure", "epsilon": "1"}, ',
        b'"unit": "", ',
    ]
    for key in again:
        twice = sound.replace(b'"version"', key + b'"version"')
        assert len(twice) < MAX_BYTES
        with pytest.raises(Undecodable, match="stands twice"):
            check("requests", twice)
