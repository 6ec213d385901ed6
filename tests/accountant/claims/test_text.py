from __future__ import annotations

import pytest
from hypothesis import given, settings

from accountant import claims as c
from accountant.claims.text import claim_text, parse_claim
from accountant.errors import RequestInvalid
from tests.accountant.strategies import claims
from tests.every_case import check_each, check_rows
from tests.nightly import examples


@settings(max_examples=examples(300))
@given(claims())
def test_a_claim_reads_back_from_its_text(claim: c.Claim) -> None:
    assert parse_claim(claim_text(claim)) == claim


def test_typed_text_parses_as_the_claim() -> None:
    def check_case(text: str, claim: c.Claim) -> None:
        assert parse_claim(text) == claim

    check_rows(
        check_case,
        [
            ("pure:0.01", c.Pure("0.01")),
            (" pure:epsilon=0.01 ", c.Pure("0.01")),
            ("gaussian:sigma=20,sensitivity=1", c.Gaussian("20", "1")),
            ("gaussian:20,1", c.Gaussian("20", "1")),
            ("gaussian:sensitivity=1, sigma=20", c.Gaussian("20", "1")),
            ("randomized_response:1", c.RandomizedResponse("1", "0")),
            ("ex_post:0.2", c.ExPost("0.2", "0")),
            ("ex_post:0.2,1e-9", c.ExPost("0.2", "1e-9")),
            ("brownian:900,1", c.Brownian("900", "1")),
            ("brownian:variance=900,sensitivity=1,previous=1600", c.Brownian("900", "1", "1600")),
            ("10*pure:0.1", c.Repeat(c.Pure("0.1"), 10)),
            ("pure:0.1+zcdp:0.1", c.AllOf((c.Pure("0.1"), c.Zcdp("0.1")))),
            ("pure:0.1+", c.AllOf((c.Pure("0.1"),))),
            ("(pure:0.1)", c.Pure("0.1")),
            (
                "2*(pure:0.1+3*zcdp:0.1)",
                c.Repeat(c.AllOf((c.Pure("0.1"), c.Repeat(c.Zcdp("0.1"), 3))), 2),
            ),
        ],
    )


def test_text_that_is_not_a_claim_is_refused() -> None:
    def check_case(text: str) -> None:
        with pytest.raises(RequestInvalid):
            parse_claim(text)

    check_each(
        check_case,
        [
            "",
            "+",
            "pure",
            "pure:",
            "pure:x",
            "pure:-1",
            "pure:0.1,0.2",
            "pure:rho=1",
            "psychic:1",
            "gaussian:1",
            "gaussian:sigma=1,sigma=2",
            "approximate:0.1",
            "brownian:900",
            "brownian:900,1,800",
            "brownian:900,1,",
            "ex_post:0.1,1",
            "0*pure:0.1",
            "9999999999*pure:0.1",
            "x*pure:0.1",
            "(pure:0.1",
            "pure:0.1)",
            "(pure:1)(pure:2)",
            "pure:0.1++pure:0.1",
            "((((((pure:0.1))))))",
            "1*" * 5000 + "pure:1",
            "(" * 5000,
            "2*2*2*2*pure:0.1",
        ],
    )


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("0.1", "pure:0.1"),
        ("epsilon=0.1", "pure:0.1"),
        ("rho:0.1", "zcdp:0.1"),
        ("rho=0.1", "zcdp:0.1"),
        ("exponential:0.1", "bounded_range:0.1"),
        ("mu=0.5", "gdp:0.5"),
        ("pur:0.1", "pure"),
        ("pure:0,1", "pure:0.1"),
        ("pure:0,01", "pure:0.01"),
    ],
)
def test_an_amount_without_a_kind_suggests_a_claim(text: str, meant: str) -> None:
    with pytest.raises(RequestInvalid) as raised:
        parse_claim(text)
    assert raised.value.hint == f"did you mean {meant}?"


@pytest.mark.parametrize(
    ("text", "form"),
    [("pure", "pure:epsilon=..."), ("gaussian", "gaussian:sigma=...,sensitivity=...")],
)
def test_a_kind_without_a_value_shows_the_form(text: str, form: str) -> None:
    with pytest.raises(RequestInvalid) as raised:
        parse_claim(text)
    assert raised.value.hint == f"write {form}"


@pytest.mark.parametrize(
    "text", ["gaussian:sigma=2,5,sensitivity=1", "gaussian:20,1,5", "pure:0.1,0.2"]
)
def test_a_decimal_comma_in_a_claim_is_explained(text: str) -> None:
    with pytest.raises(RequestInvalid, match=r"with a point, as in 0\.1, not with a comma"):
        parse_claim(text)
