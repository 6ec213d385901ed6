from __future__ import annotations

import pytest

BUDGET = ("--epsilon", "1", "--delta", "1e-6")


def test_zcdp_tight_fits_487_requests_of_a_hundredth(accountant):
    done = accountant("fits", "--filter", "zcdp_tight", *BUDGET, "--claim", "pure:0.01")
    assert (done.code, done.out) == (0, "487\n")


@pytest.mark.parametrize(
    ("kind", "budget", "claim", "fits"),
    [
        ("basic", ("--epsilon", "1"), "pure:0.1", "10"),
        ("basic", ("--epsilon", "1"), "10*pure:0.1", "1"),
        ("fully_adaptive", BUDGET, "pure:0.01", "349"),
        ("fully_adaptive", BUDGET, "pure:0.1", "3"),
        ("zcdp_tight", BUDGET, "pure:0.1", "4"),
        ("zcdp", ("--rho", "0.1"), "zcdp:0.01", "10"),
        ("basic", ("--epsilon", "1"), "pure:0", "unlimited"),
    ],
)
def test_counts_of_every_filter(accountant, kind, budget, claim, fits):
    done = accountant("fits", "--filter", kind, *budget, "--claim", claim)
    assert (done.code, done.out.strip()) == (0, fits)


def test_json_has_the_cost_and_the_budget(accountant):
    done = accountant(
        "fits", "--filter", "basic", "--epsilon", "1", "--claim", "pure:0.3", "--json"
    )
    assert done.json == {
        "fits": 3,
        "accepted": True,
        "filter": "basic",
        "claim": "pure:0.3",
        "cost": {"epsilon": "0.3", "delta": "0"},
        "budget": {"epsilon": "1", "delta": "0"},
    }


def test_not_even_one_fits(accountant):
    done = accountant("fits", *BUDGET, "--claim", "pure:1")
    assert (done.code, done.out.strip()) == (1, "0")


def test_a_claim_that_the_filter_cannot_take_is_never_counted_as_zero_cost(accountant):
    claim = ("--claim", "gaussian:sigma=20,sensitivity=1")
    done = accountant("fits", "--filter", "basic", "--epsilon", "1", *claim)
    assert (done.code, done.out) == (1, "")
    assert "cannot take gaussian" in done.err
    assert "--filter" in done.err
    as_json = accountant("fits", "--filter", "basic", "--epsilon", "1", *claim, "--json")
    assert (as_json.code, as_json.json["accepted"], as_json.json["fits"]) == (1, False, 0)


@pytest.mark.parametrize(
    "arguments",
    [
        ("--epsilon", "nan", "--claim", "pure:1"),
        ("--epsilon", "1e999", "--claim", "pure:1"),
        ("--epsilon", "-1", "--claim", "pure:1"),
        ("--epsilon", "1", "--claim", "pure:0x1p3"),
        ("--epsilon", "1", "--claim", "pure: 1e400"),
        ("--epsilon", "1", "--claim", "pure:" + "9" * 100_000),
        ("--epsilon", "1", "--claim", "((((((pure:1))))))"),
        ("--epsilon", "1", "--claim", "magic:1"),
        ("--epsilon", "1", "--claim", ""),
        ("--epsilon", "1", "--filter", "magic", "--claim", "pure:1"),
        ("--epsilon", "1", "--filter", "zcdp", "--claim", "pure:1"),
        ("--filter", "basic", "--claim", "pure:1"),
        ("--epsilon", "1", "--delta", "1", "--claim", "pure:1"),
        ("--claim",),
        (),
    ],
)
def test_wrong_values_are_named_without_a_traceback(accountant, arguments):
    done = accountant("fits", *arguments)
    assert done.code == 2
    assert done.out == ""
    assert len(done.err) < 2000
