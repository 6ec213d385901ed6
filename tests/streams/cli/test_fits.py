from __future__ import annotations

import pytest

from tests.every_case import every_case

# One test runs commands for many cases.
pytestmark = pytest.mark.timeout(600)

BUDGET = ("--epsilon", "1", "--delta", "1e-6")
SAMPLED = "subsampled_gaussian:sigma=2,sensitivity=1,rate=0.01"


def test_zcdp_tight_fits_487_requests_of_a_hundredth(accountant):
    done = accountant("fits", "--filter", "zcdp_tight", *BUDGET, "--claim", "pure:0.01")
    assert (done.code, done.out) == (0, "487\n")


@every_case(
    ("kind", "budget", "claim", "fits"),
    [
        ("basic", ("--epsilon", "1"), "pure:0.1", "10"),
        ("basic", ("--epsilon", "1"), "10*pure:0.1", "1"),
        ("basic", ("--epsilon", "1"), "pure:0", "unlimited"),
        ("advanced_2016", BUDGET, "pure:0.01", "147"),
        ("advanced_2016", BUDGET, "pure:0.1", "1"),
        ("fully_adaptive", BUDGET, "pure:0.01", "349"),
        ("fully_adaptive", BUDGET, "pure:0.1", "3"),
        ("zcdp_tight", BUDGET, "pure:0.1", "4"),
        ("zcdp", ("--rho", "0.1"), "zcdp:0.01", "10"),
        ("unified_brownian", BUDGET, "brownian:variance=1000,sensitivity=1", "48"),
        ("unified_brownian", ("--rho", "0.1"), "zcdp:0.01", "10"),
        ("ex_post", ("--epsilon", "1"), "ex_post:0.1", "10"),
        ("split", (*BUDGET, "--epsilon-ex-post", "0.5"), "ex_post:0.1", "5"),
        ("split", (*BUDGET, "--epsilon-ex-post", "0.5"), "pure:0.01", "487"),
        ("renyi", (*BUDGET, "--order", "23"), "pure:0.01", "490"),
        ("renyi", (*BUDGET, "--order", "22"), "pure:0.1", "7"),
        ("renyi", BUDGET, "pure:0.01", "490 at order 22"),
        ("renyi", BUDGET, "pure:0.1", "10 at order 1584"),
        ("renyi", BUDGET, SAMPLED, "1608 at order 21"),
        ("renyi_weighted", (*BUDGET, "--orders", "22"), "pure:0.01", "490"),
        ("renyi_weighted", (*BUDGET, "--orders", "22, 2000"), "pure:0.01", "460"),
        ("renyi_weighted", (*BUDGET, "--orders", "22,2000"), "pure:0.1", "10"),
        (
            "renyi_weighted",
            (*BUDGET, "--orders", "22,2000", "--weights", "0.9,0.1"),
            "pure:0.01",
            "486",
        ),
        ("renyi_mixture", (*BUDGET, "--orders", "16,22,32,64"), "pure:0.01", "449"),
        (
            "renyi_mixture",
            (*BUDGET, "--orders", "22,2000", "--weights", "0.9,0.1"),
            "pure:0.01",
            "486",
        ),
        ("gdp_residue", BUDGET, "pure:0.01", "558"),
        ("gdp_residue", BUDGET, "pure:0.1", "4"),
        ("optimal_homogeneous", BUDGET, "pure:0.01", "562 at epsilon 0.01 each"),
        ("optimal_homogeneous", (*BUDGET, "--epsilon-each", "0.02"), "pure:0.01", "142"),
    ],
)
def test_counts_of_every_filter(accountant, kind, budget, claim, fits):
    done = accountant("fits", "--filter", kind, *budget, "--claim", claim)
    assert (done.code, done.out.strip()) == (0, fits)


@every_case("kind", ["zcdp_tight", "gdp_residue"])
@every_case(("claim", "fits"), [("pure:0.1", 10), ("pure:0.2", 5)])
def test_basic_beside_a_filter_fits_what_basic_fits(accountant, kind, claim, fits):
    done = accountant("fits", "--filter", kind, "--beside", "basic", *BUDGET, "--claim", claim)
    assert (done.code, done.out) == (0, f"{fits}\n")
    assert f"filter {kind} ends after" in done.err


@every_case(("kind", "fits"), [("zcdp_tight", 487), ("gdp_residue", 558)])
def test_basic_beside_a_filter_fits_what_the_filter_fits(accountant, kind, fits):
    with_beside = ("--filter", kind, "--beside", "basic")
    done = accountant("fits", *with_beside, *BUDGET, "--claim", "pure:0.01")
    assert (done.code, done.out, done.err) == (0, f"{fits}\n", "")


class TestWhatIsProposed:
    def test_is_the_better_of_the_two_worlds_for_requests_of_one_size(self, accountant):
        found = {}
        for size in ("0.01", "0.1"):
            done = accountant("fits", *BUDGET, "--claim", f"pure:{size}", "--json").json
            assert (done["beside"], done["most_per_request"]) == ("basic", "0.1")
            found[size] = done["fits"]
        assert found == {"0.01": 487, "0.1": 10}

    def test_the_output_says_that_a_claim_exceeds_the_cap_of_one_request(self, accountant):
        done = accountant("fits", *BUDGET, "--claim", "pure:0.2")
        assert (done.code, done.out) == (1, "0\n")
        assert "--most-per-request 1 removes the cap" in done.err

    def test_the_json_says_which_filter_ends_and_when(self, accountant):
        done = accountant("fits", *BUDGET, "--claim", "pure:0.1", "--json").json
        assert (done["ends"], done["ends_after"]) == ("zcdp_tight", 4)

    def test_a_filter_option_compares_that_filter_only(self, accountant):
        done = accountant("fits", "--filter", "zcdp_tight", *BUDGET, "--claim", "pure:0.1")
        assert (done.code, done.out, done.err) == (0, "4\n", "")


class TestAMix:
    MIX = ("--claim", "pure:0.01", "--claim", "gaussian:sigma=100,sensitivity=1")

    def test_rounds_are_counted_and_cost_the_sum_of_their_parts(self, accountant):
        done = accountant("fits", *BUDGET, *self.MIX)
        alone = ("fits", *BUDGET, "--claim")
        pure, gaussian = accountant(*alone, "pure:0.01"), accountant(*alone, self.MIX[3])
        rounds = int(done.out)
        assert (int(pure.out), int(gaussian.out)) == (487, 487)
        assert rounds == 243
        whole = ("fits", *BUDGET, "--most-per-request", "1", "--claim")
        both = accountant(*whole, f"{rounds}*(pure:0.01+{self.MIX[3]})")
        more = accountant(*whole, f"{rounds + 1}*(pure:0.01+{self.MIX[3]})")
        assert (both.out, more.out) == ("1\n", "0\n")

    def test_a_claim_repeated_n_times_is_counted_in_that_ratio(self, accountant):
        done = accountant("fits", *BUDGET, "--claim", "3*pure:0.01", "--claim", "pure:0.02")
        once = accountant("fits", *BUDGET, "--claim", "3*pure:0.01+pure:0.02")
        assert done.out == once.out
        assert done.code == once.code == 0
        assert 487 // 7 - 1 <= int(done.out) <= 487 // 7 + 1

    def test_a_filter_that_cannot_take_one_of_them_takes_no_round(self, accountant):
        done = accountant("fits", "--filter", "basic", "--epsilon", "1", *self.MIX)
        assert (done.code, done.out) == (1, "")
        assert "does not accept pure:0.01+gaussian" in done.err

    def test_renyi_takes_the_best_order_for_the_round(self, accountant):
        done = accountant("fits", *BUDGET, "--filter", "renyi", *self.MIX, "--json")
        assert (done.json["fits"], done.json["order"]) == (244, "22")

    def test_renyi_weighted_takes_an_order_for_each_kind(self, accountant):
        claims = ("--claim", "pure:0.01", "--claim", "pure:0.1")
        done = accountant("fits", *BUDGET, "--filter", "renyi_weighted", *claims, "--json")
        orders = done.json["orders"]
        assert len(orders) == 3
        assert float(orders[0]) < 30 < 1000 < float(orders[-1])
        again = accountant(
            "fits", *BUDGET, "--filter", "renyi_weighted", *claims, "--orders", ",".join(orders)
        )
        assert again.out.strip() == str(done.json["fits"])


class TestEveryFilterSideBySide:
    def test_the_table_names_each_filter_with_the_number_it_admits(self, accountant):
        done = accountant("fits", "--filter", "all", *BUDGET, "--claim", "pure:0.01")
        assert done.code == 0
        rows = [line.split() for line in done.out.splitlines() if line.strip()]
        counts = {row[0]: row[1] for row in rows if len(row) > 1}
        expected = {
            "basic": "100",
            "advanced_2016": "147",
            "fully_adaptive": "349",
            "zcdp": "-",
            "zcdp_tight": "487",
            "ex_post": "0",
            "split": "-",
            "unified_brownian": "487",
            "renyi": "490",
            "renyi_weighted": "490",
            "renyi_mixture": "490",
            "gdp_residue": "558",
            "optimal_homogeneous": "562",
        }
        assert {name: counts[name] for name in expected} == expected
        for note in (
            "ε = 1, δ = 1e-6",
            "needs --rho",
            "--epsilon-ex-post must be given",
            "does not accept this claim",
            "order 22",
        ):
            assert note in done.out

    def test_json_is_a_line_for_each_with_its_own_options(self, accountant):
        done = accountant(
            "fits", "--filter", "all", *BUDGET, "--claim", "gaussian:sigma=100,sensitivity=1",
            "--rho", "0.05", "--epsilon-ex-post", "1", "--order", "30", "--json",
        )  # fmt: skip
        rows = {row["filter"]: row for row in done.rows}
        assert len(rows) == 13
        assert rows["zcdp"]["fits"] == 1000
        assert rows["split"]["fits"] == rows["zcdp_tight"]["fits"] == 487
        assert (rows["renyi"]["order"], "order" in rows["basic"]) == ("30", False)
        assert (rows["basic"]["accepted"], rows["basic"]["cost"]["epsilon"]) == (False, "inf")
        assert rows["optimal_homogeneous"]["accepted"] is False
        assert rows["gdp_residue"]["fits"] == 560
        assert all("why_not" not in row for row in rows.values())

    def test_a_filter_that_cannot_be_opened_says_why(self, accountant):
        done = accountant(
            "fits", "--filter", "all", "--epsilon", "1", "--claim", "pure:0.1", "--json"
        )
        rows = {row["filter"]: row for row in done.rows}
        assert (done.code, rows["basic"]["fits"]) == (0, 10)
        for name in ("zcdp_tight", "renyi", "gdp_residue"):
            assert rows[name]["why_not"].startswith("--delta must be greater than 0")
            assert (rows[name]["fits"], rows[name]["accepted"]) == (0, False)

    def test_nothing_fits_anywhere(self, accountant):
        done = accountant("fits", "--filter", "all", *BUDGET, "--claim", "pure:100")
        assert done.code == 1

    @every_case(
        "budget", [(), ("--epsilon", "nan"), ("--epsilon", "1", "--delta", "2"), ("--rho", "-1")]
    )
    def test_a_budget_invalid_for_all_filters_ends_the_command(self, accountant, budget):
        done = accountant("fits", "--filter", "all", *budget, "--claim", "pure:0.1")
        assert (done.code, done.out) == (2, "")
        assert "--" in done.err


def test_a_sampled_gaussian_is_for_units_added_or_removed(accountant):
    asked = ("fits", *BUDGET, "--filter", "renyi", "--claim", SAMPLED)
    done = accountant(*asked, "--neighbours", "replace")
    assert (done.code, done.out) == (1, "")
    assert "can only be claimed for add_remove" in done.err
    as_json = accountant(*asked, "--neighbours", "replace", "--json")
    assert (as_json.code, as_json.json["accepted"], as_json.json["fits"]) == (1, False, 0)
    wrong = accountant(*asked, "--neighbours", "next_server")
    assert (wrong.code, wrong.out) == (2, "")


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


def test_a_delta_that_claims_may_not_spend_is_named(accountant):
    claim = ("--claim", "approximate:0.01,1e-9")
    done = accountant("fits", *BUDGET, *claim)
    assert (done.code, done.out) == (1, "")
    assert "its delta exceeds the budget's delta for claims" in done.err
    assert "--delta-for-claims" in done.err
    more = accountant("fits", *BUDGET, "--delta-for-claims", "5e-7", *claim)
    assert (more.code, more.out.strip()) == (0, "458")


def test_a_claim_that_the_filter_cannot_take_is_never_counted_as_zero_cost(accountant):
    claim = ("--claim", "gaussian:sigma=20,sensitivity=1")
    done = accountant("fits", "--filter", "basic", "--epsilon", "1", *claim)
    assert (done.code, done.out) == (1, "")
    assert "does not accept gaussian" in done.err
    assert "--filter" in done.err
    as_json = accountant("fits", "--filter", "basic", "--epsilon", "1", *claim, "--json")
    assert (as_json.code, as_json.json["accepted"], as_json.json["fits"]) == (1, False, 0)


def test_a_filter_s_own_parameters_are_printed(accountant):
    fits = ("fits", *BUDGET, "--json", "--claim", "pure:0.01", "--filter")
    assert "order" not in accountant(*fits, "basic").json
    split = accountant(*fits, "split", "--epsilon-ex-post", "0.5").json
    assert (split["epsilon_ex_post"], "delta_ex_post" in split) == ("0.5", False)
    weighted = accountant(*fits, "renyi_weighted", "--orders", "22, 40").json
    assert (weighted["orders"], "order" in weighted) == (["22", "40"], False)


def test_a_parameter_is_asked_for_only_where_it_is_missing(accountant):
    fits = ("fits", *BUDGET, "--claim", "pure:0.01")
    missing = accountant(*fits, "--filter", "split")
    assert "add --epsilon-ex-post 1" in missing.err
    unwanted = accountant(*fits, "--filter", "basic", "--epsilon-ex-post", "1")
    assert "--epsilon-ex-post must be left out for filter basic" in unwanted.err
    assert "add --epsilon-ex-post" not in unwanted.err
    assert (missing.code, unwanted.code) == (2, 2)


@every_case(
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
        ("--epsilon", "1", "--claim", "pure:1", "--claim", ""),
        ("--epsilon", "1", "--filter", "magic", "--claim", "pure:1"),
        ("--epsilon", "1", "--filter", "zcdp", "--claim", "pure:1"),
        ("--filter", "basic", "--claim", "pure:1"),
        ("--epsilon", "1", "--delta", "1", "--claim", "pure:1"),
        (*BUDGET, "--order", "22", "--claim", "pure:1"),
        (*BUDGET, "--filter", "renyi", "--order", "2", "--claim", "pure:1"),
        (*BUDGET, "--filter", "renyi", "--order", "x", "--claim", "pure:1"),
        (*BUDGET, "--filter", "renyi", "--delta-for-claims", "1e-7", "--claim", "pure:1"),
        (*BUDGET, "--filter", "renyi_weighted", "--orders", "22,,40", "--claim", "pure:1"),
        (*BUDGET, "--filter", "renyi_weighted", "--weights", "1", "--claim", "pure:1"),
        (*BUDGET, "--filter", "split", "--claim", "pure:1"),
        ("--epsilon", "1", "--filter", "renyi", "--claim", "pure:1"),
        ("--epsilon", "1e-9", "--delta", "1e-30", "--filter", "renyi", "--claim", "pure:1"),
        ("--claim",),
        (),
    ],
)
def test_wrong_values_are_named_without_a_traceback(accountant, arguments):
    done = accountant("fits", *arguments)
    assert done.code == 2
    assert done.out == ""
    assert "Traceback" not in done.err
    assert len(done.err) < 2000
