"""Fields that break their rules: each named, with its rule and value, and nothing charged."""

from __future__ import annotations

import json

import pytest

from accountant.errors import RequestInvalid
from accountant.records.inputs import Undecodable, check
from accountant.records.outcomes import Outcome
from tests.accountant.world import World, code, opened
from tests.every_case import check_each, check_rows

PURE = b'{"type": "pure", "epsilon": "0.01"}'


def body(world: World, claim: bytes) -> bytes:
    return world.request().replace(PURE, claim)


BAD_NUMBERS = [
    "1e-400",
    "1e999",
    "NaN",
    "nan",
    "Infinity",
    "-0",
    "-1",
    "+1",
    "0x1p3",
    " 1",
    "1 ",
    "1_000",
    "01",
    ".5",
    "5.",
    "1E3",
    "1e+3",
    "1e003",
    "",
    "1" * 100_00,
    "0." + "1" * 41,
    "١",
    "1e10",
    "9999999999",
    "1e-13",
    "1001",
    "1,5",
]


def test_a_number_that_is_no_plain_decimal_is_refused_by_field_rule_and_value() -> None:
    def check_case(number: str) -> None:
        world = opened()
        decision = world.ask({"type": "pure", "epsilon": number})
        assert code(decision) == "invalid_field"
        assert decision.error is not None
        assert decision.error.field == "claim.epsilon"
        assert decision.error.rule.startswith("must be")
        assert decision.error.value[:80] == number[:80]
        assert world.ledger().mechanisms == 0

    check_each(check_case, BAD_NUMBERS)


def test_a_number_that_is_no_string_is_refused() -> None:
    def check_case(raw: bytes) -> None:
        world = opened()
        decision = world.send("requests", body(world, PURE.replace(b'"0.01"', raw)))
        assert decision.outcome is Outcome.INVALID
        assert world.ledger().mechanisms == 0

    check_each(
        check_case,
        [b"1", b"0.1", b"1e400", b"NaN", b"-Infinity", b"1" * 60_000, b"true", b"null", b"[]"],
    )


def test_plain_decimals_are_taken() -> None:
    def check_case(number: str) -> None:
        world = opened(filter="basic", epsilon="2")
        assert code(world.ask({"type": "pure", "epsilon": number})) == "granted"

    check_each(check_case, ["1e-12", "0.1e1", "1.0", "0.0", "0", "0e5", "1e-6", "0.10"])


INVALID_CLAIMS: list[tuple[dict[str, object], str]] = [
    ({"type": "laplace", "scale": "0", "sensitivity": "1"}, "claim.scale"),
    ({"type": "gaussian", "sigma": "0", "sensitivity": "1"}, "claim.sigma"),
    (
        {"type": "gaussian", "sigma": "1e-9", "sensitivity": "1"},
        "claim.sensitivity^2 / (2 sigma^2)",
    ),
    ({"type": "laplace", "scale": "1e9", "sensitivity": "1e-9"}, "claim.sensitivity / scale"),
    ({"type": "approximate", "epsilon": "0.1", "delta": "1"}, "claim.delta"),
    ({"type": "repeat", "times": 0, "claim": {"type": "pure", "epsilon": "0.1"}}, "claim.times"),
    (
        {"type": "repeat", "times": 1_000_001, "claim": {"type": "pure", "epsilon": "0.1"}},
        "claim.times",
    ),
    (
        {"type": "repeat", "times": 2, "claim": {"type": "pure", "epsilon": "x"}},
        "claim.claim.epsilon",
    ),
    ({"type": "all_of", "claims": []}, "claim.claims"),
    ({"type": "all_of", "claims": [{"type": "zcdp", "rho": "0.1"}] * 101}, "claim.claims"),
    (
        {"type": "all_of", "claims": [{"type": "zcdp", "rho": "0"}, {"type": "gdp", "mu": "-1"}]},
        "claim.claims[1].mu",
    ),
    ({"type": "pure"}, "claim.epsilon"),
    ({"type": "pure", "epsilon": "1", "delta": "0"}, "claim.delta"),
    ({"type": "psychic", "epsilon": "1"}, "claim.type"),
    ({"epsilon": "1"}, "claim.type"),
]


def test_a_claim_that_breaks_a_rule_names_its_field() -> None:
    def check_case(claim: dict[str, object], field: str) -> None:
        decision = opened().ask(claim)
        assert code(decision) == "invalid_field"
        assert decision.error is not None
        assert decision.error.field == field

    check_rows(check_case, INVALID_CLAIMS)


def test_a_field_that_breaks_its_rule_is_named() -> None:
    def check_case(field: str, value: object) -> None:
        decision = opened().ask(**{field: value})
        assert (decision.outcome, code(decision)) == (Outcome.INVALID, "invalid_field")
        assert decision.error is not None
        assert decision.error.field == field

    check_rows(
        check_case,
        [
            ("dataset", "a b"),
            ("dataset", ""),
            ("dataset", "x" * 101),
            ("dataset", "-x"),
            ("dataset", "census/1"),
            ("dataset", "census\n"),
            ("analyst", "é"),
            ("analyst", None),
            ("request_id", "01a1fd8c-6900-4d4c-8e1f-5f3c2b1a0d9e"),
            ("request_id", "01A1FD8C-6900-7D4C-8E1F-5F3C2B1A0D9E"),
            ("request_id", "x"),
            ("version", 2),
            ("version", 1.0),
            ("version", "1"),
            ("type", "open"),
            ("type", "-"),
            ("neighbours", "both"),
            ("purpose", "x" * 201),
            ("extra", 1),
        ],
    )


def test_a_request_without_a_required_field_is_refused() -> None:
    def check_case(field: str) -> None:
        world = opened()
        request = json.loads(world.request())
        del request[field]
        decision = world.send("requests", json.dumps(request).encode())
        assert code(decision) == "invalid_field"
        assert decision.error is not None
        assert decision.error.field == field
        assert decision.error.rule.startswith("must be given")

    check_each(
        check_case,
        ["version", "type", "request_id", "analyst", "dataset", "claim", "unit", "neighbours"],
    )


def test_the_reason_of_an_admin_request_has_at_most_200_characters() -> None:
    world = opened()
    assert code(world.amend(reason="x" * 200, horizon="P1D")) == "amended"
    decision = world.amend(reason="x" * 201, horizon="P1D")
    assert decision.error is not None
    assert decision.error.field == "reason"


@pytest.mark.parametrize("text", ["0", "42", "-1"])
def test_json_in_another_encoding_is_no_json(text: str) -> None:
    body = text.encode("utf-16-le")
    with pytest.raises(Undecodable):
        check("requests", body)


def step_body(**changes: str) -> bytes:
    """Return the body of a settle with a colon in each name."""
    fields = {
        "version": 1,
        "type": "settle",
        "request_id": "01890a5d-ac96-774b-bcce-b302099a8057",
        "analyst": "ana:1",
        "dataset": "group::census",
        "grant": "sha256:" + "0" * 64,
        **changes,
    }
    return json.dumps(fields, separators=(",", ":")).encode()


@pytest.mark.parametrize(
    "more", [{}, {"shown": "1000"}, {"via": "engine:1"}, {"shown": "1000", "via": "engine"}]
)
def test_a_step_with_a_duplicate_key_is_undecodable(more: dict[str, str]) -> None:
    body = step_body(**more)
    assert check("requests", body).caller == "ana:1"
    for key in json.loads(body):
        field = json.dumps({key: json.loads(body)[key]}, separators=(",", ":"))[1:-1].encode()
        # An escape in the second key, or in a name, must not hide it.
        escaped = field.replace(key.encode(), b"\\u%04x" % ord(key[0]) + key[1:].encode(), 1)
        for again in (field, escaped):
            with pytest.raises(Undecodable):
                check("requests", body[:-1] + b"," + again + b"}")
        hidden = body.replace(b"ana:1", b"ana\\u003a1")
        assert check("requests", hidden).caller == "ana:1"
        with pytest.raises(Undecodable):
            check("requests", hidden[:-1] + b"," + field + b"}")


@pytest.mark.parametrize(
    ("claim", "advice"),
    [
        ({"type": "bounded_range", "epsilon": "1"}, "the fields here are eta"),
        ({"type": "gaussian", "sd": "1", "sensitivity": "1"}, "the fields here are sigma, sens"),
        ({"type": "pure", "epsilon": 0.1}, 'write it as text: "0.1"'),
    ],
)
def test_a_wrong_field_says_which_there_are_and_a_number_how_to_write_it(
    claim: dict[str, object], advice: str
) -> None:
    world = opened()
    record = json.loads(body(world, PURE)) | {"claim": claim}
    with pytest.raises(RequestInvalid) as raised:
        check("requests", json.dumps(record).encode())
    assert advice in str(raised.value)
    assert advice not in raised.value.recorded, "records repeat the rule alone"
