"""No text of any record holds a character that acts where it is shown, or that hides there."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator
from typing import Any, get_args

import msgspec
import pytest
from msgspec.inspect import DictType, LiteralType, StructType, Type, UnionType, type_info

from accountant.errors import RequestInvalid
from accountant.partition.operate import check_note
from accountant.records import Body, decode_decision
from accountant.records.inputs import MAX_BYTES, check
from accountant.times import uuid7
from tests.accountant.world import code, opened
from tests.every_case import check_each
from tests.examples_of_records import EXAMPLES

HIDDEN = [chr(c) for c in (*range(0x20), *range(0x7F, 0xA0), 0x61C, 0x200E, 0x200F)]
HIDDEN += [chr(c) for c in (*range(0x2028, 0x202F), *range(0x2066, 0x206A))]
ID = uuid7(1_795_255_200_000, b"\0" * 10)
WHOLE = [example.whole(ID) for example in EXAMPLES]
"""Records of each kind with every field that they can have."""


def kinds() -> dict[str, type[msgspec.Struct]]:
    return {str(kind.__struct_config__.tag): kind for kind in get_args(Body)}


def test_the_policy_of_an_opening_has_every_field() -> None:
    policy = next(each["policy"] for each in WHOLE if each["type"] == "open")
    (field,) = (f for f in msgspec.structs.fields(kinds()["open"]) if f.name == "policy")
    assert policy.keys() == {f.name for f in msgspec.structs.fields(field.type)}


def texts(value: Any, path: str = "") -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Yield the path of each text within a value, as an error names it and as keys."""
    if isinstance(value, dict):
        for name, each in value.items():
            for inner, keys in texts(each, f"{path}.{name}" if path else name):
                yield inner, (name, *keys)
    elif isinstance(value, list):
        for i, each in enumerate(value):
            for inner, keys in texts(each, f"{path}[{i}]"):
                yield inner, (i, *keys)
    elif isinstance(value, str):
        yield path, ()


def changed(value: Any, keys: tuple[Any, ...], added: str) -> Any:
    if not keys:
        return value + added
    copy = value.copy()
    copy[keys[0]] = changed(value[keys[0]], keys[1:], added)
    return copy


def is_word(kind: Type, keys: tuple[Any, ...]) -> bool:
    """Tell whether a field takes one of some words only, so that any other one is refused."""
    options = kind.types if isinstance(kind, UnionType) else (kind,)
    if not keys:
        return all(isinstance(each, LiteralType) or str(each) == "NoneType()" for each in options)
    for each in options:
        if isinstance(each, StructType):
            if keys[0] == each.tag_field:
                return True
            named = [field for field in each.fields if field.encode_name == keys[0]]
            if named:
                return is_word(named[0].type, keys[1:])
        elif isinstance(each, DictType):
            return False
        elif hasattr(each, "item_type"):
            return is_word(each.item_type, keys[1:])
    return False


def test_a_hidden_character_in_any_text_of_a_record_is_refused() -> None:
    def check_case(record: dict[str, Any]) -> None:
        source = "admin" if "by" in record else "requests"
        kind = type_info(kinds()[record["type"]])
        found = 0
        for path, keys in texts(record):
            for character in ("\x1b", "\x7f", "\u202e", "\u2028", "\n"):
                body = json.dumps(changed(record, keys, character), ensure_ascii=False).encode()
                with pytest.raises(RequestInvalid) as caught:
                    check(source, body)  # type: ignore[arg-type]
                if is_word(kind, keys):
                    continue
                found += 1
                assert caught.value.field == path
                assert caught.value.rule == (
                    "must have no control character, direction mark or line separator"
                )
                assert caught.value.value == f"\\u{ord(character):04x}"
        assert found >= 4 * 5

    check_each(check_case, WHOLE)


def test_each_hidden_character_is_refused_raw_and_as_an_escape() -> None:
    def check_case(ascii_only: bool, character: str) -> None:
        world = opened()
        raw = json.loads(world.request()) | {"purpose": f"a{character}b"}
        decision = world.send("requests", json.dumps(raw, ensure_ascii=ascii_only).encode())
        assert code(decision) == "invalid_field"
        assert decision.error is not None
        assert (decision.error.field, decision.error.value) == (
            "purpose",
            f"\\u{ord(character):04x}",
        )
        # What the log repeats means the same, and acts nowhere.
        assert json.loads(bytes(decision.request)) == raw
        assert world.log[-1].decode().isprintable()
        assert decode_decision(world.log[-1]).request == decision.request

    check_each(check_case, [True, False], HIDDEN)


def test_other_letters_signs_and_pictures_are_taken() -> None:
    world = opened()
    for purpose in ("Größe: 統計 \U0001f600 \u00a0 ẞ", 'a "quoted" \\ text', "עברית", "e\u0301"):
        assert code(world.ask(purpose=purpose)) == "granted"
        assert not any(unicodedata.category(each) == "Cc" for each in purpose)


def test_a_hidden_character_in_a_field_name_is_escaped() -> None:
    world = opened()
    decision = world.ask(**{"pur\u202epose": "x"})
    assert decision.error is not None
    assert decision.error.field == "pur\\u202epose"
    assert world.log[-1].decode().isprintable()


def test_a_body_that_its_escapes_would_make_too_long_is_not_repeated() -> None:
    world = opened()
    raw = world.request(purpose="")[:-2] + b"\x7f" * (MAX_BYTES - 1_000) + b'"}'
    decision = world.send("requests", raw)
    assert (code(decision), bytes(decision.request)) == ("invalid_field", b"")


@pytest.mark.parametrize("character", ["\x1b", "\u2028", "\n"])
def test_a_command_s_reason_has_none_either(character: str) -> None:
    with pytest.raises(RequestInvalid, match="reason must have no control character"):
        check_note(f"a{character}b")
