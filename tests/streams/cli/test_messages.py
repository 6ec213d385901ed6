"""What a command says where it cannot do what was typed."""

from __future__ import annotations

import signal

import pytest

from accountant.filters import FILTERS
from accountant.times import issued_at, uuid7
from tests.every_case import every_case
from tests.patience import PATIENCE_S

ASK = ("ask", "census", "pure:0.01", "--analyst", "ana")


def test_every_outcome_shows_the_id(opened):
    granted = opened(*ASK)
    name = granted.out.split("  id ", 1)[1].split()[0]
    assert issued_at(name) is not None
    retried = opened(*ASK, "--id", name)
    assert (retried.code, retried.out.count(name)) == (5, 1)
    refused = opened("ask", "census", "pure:3", "--analyst", "ana")
    assert "\n  id    0" in refused.out
    conflict = opened("ask", "census", "pure:0.02", "--analyst", "ana", "--id", name)
    assert (conflict.code, conflict.out[:8]) == (1, "conflict")
    assert (
        f"  next  id {name} belongs to another request, which was decided before. " in conflict.out
    )
    assert_asks_again(opened, conflict.out, name)


def test_an_expired_id_says_how_to_ask_and_where_its_first_answer_is(opened):
    old = uuid7(1_600_000_000_000, bytes(10))
    done = opened(*ASK, "--id", old)
    assert (done.code, done.out[:7]) == (1, "expired")
    assert f"  next  request {old} is too old, and is never granted from now on. " in done.out
    assert_asks_again(opened, done.out, old)


def assert_asks_again(opened, said, name):
    """Check that a hint says how to ask, and that it works."""
    assert "run the same command without --id" in said
    assert f"Where the log is, `accountant log export --id {name}` shows" in said
    assert opened(*ASK).code == 0


READING = [
    ("dataset", "list"),
    ("dataset", "show", "census"),
    ("watch", "--once"),
    ("audit",),
    ("log", "export"),
    ("plan", "--error", "1", "--sensitivity", "1", "--dataset", "census"),
]
ASKING = [
    ASK,
    ("dataset", "close", "census", "--yes"),
    ("dataset", "amend", "census", "--horizon", "P1D"),
]
OPENING = ("dataset", "open", "census", "--epsilon", "1", "--delta", "1e-6")


@every_case("arguments", [*READING, *ASKING, OPENING])
def test_a_directory_is_no_ledger(accountant, arguments):
    directory = accountant.directory / "there"
    directory.mkdir(exist_ok=True)
    done = accountant(*arguments, "--url", f"sqlite:///{directory}")
    assert (done.code, done.out) == (4, "")
    assert done.err == f"error: {directory} is a directory. Name the ledger's file in it\n"
    assert [path.name for path in accountant.directory.iterdir()] == ["there"]


@every_case("arguments", [*READING, *ASKING])
def test_a_mistyped_path_is_the_same_error_everywhere_and_makes_nothing(accountant, arguments):
    done = accountant(*arguments, "--url", "sqlite:///mistyped.db")
    assert (done.code, done.out) == (4, "")
    why = "no such ledger: mistyped.db. Check the path, or open a dataset to create the ledger"
    assert done.err == f"error: {why}\n"
    assert list(accountant.directory.iterdir()) == []


def test_a_log_to_audit_that_is_not_there_is_wrong_usage(accountant):
    done = accountant("audit", "nowhere.jsonl")
    assert (done.code, done.err) == (2, "error: no such file: nowhere.jsonl\n")


def test_a_request_without_an_answer_names_its_id_once(accountant):
    done = accountant(*ASK, "--url", "http://127.0.0.1:9", "--wait", "0")
    assert (done.code, done.out) == (3, "")
    name = done.err.split("--id ", 1)[1].split(";")[0]
    assert issued_at(name) is not None
    assert done.err.count(name) == 1


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_a_decision_that_cannot_be_printed_is_reported_with_its_id(opened, more):
    done = opened(*ASK, *more, out="/dev/full")
    assert done.code == 0
    assert "was decided (granted)" in done.err
    name = done.err.split("request ", 1)[1].split()[0]
    exported = opened("log", "export", "--id", name)
    assert [row["outcome"] for row in exported.rows] == ["granted"]


@pytest.mark.parametrize("arguments", [("log", "export"), ("dataset", "list"), ("audit",)])
def test_a_closed_pipe_is_no_error(opened, arguments):
    process = opened.start(*arguments)
    process.stdout.close()
    assert process.wait(PATIENCE_S) == 0
    assert process.stderr.read() == ""
    process.stderr.close()


def test_watch_prints_a_table_for_each_look_where_there_is_no_terminal(opened):
    process = opened.start("watch", "--every", "0.1")
    seen = 0
    for line in process.stdout:
        seen += "census" in line
        if seen == 2:
            break
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=PATIENCE_S)
    assert (seen, process.returncode) == (2, 130)


@every_case(
    "arguments",
    [
        (*ASK, "--url", "accountant.db"),
        (*ASK, "--url", "foo://x"),
        ("dataset", "list", "--url=foo://x"),
        ("serve", "--url", "foo://x"),
        ("gateway", "--url", "foo://x"),
        ("worker", "--url", "foo://x"),
        ("topics", "check", "--url", "foo://x"),
        ("demo", "--url", "foo://x"),
        ("serve", "--port", "99999"),
        ("gateway", "--url", "kafka://x:1", "--port", "-1"),
        ("worker", "--url", "kafka://x:1", "--metrics-port", "99999"),
        ("topics", "check", "--url", "kafka://x:1", "--partitions", "0"),
    ],
)
def test_a_wrong_value_is_wrong_usage_and_its_option_is_named(opened, arguments):
    done = opened(*arguments)
    assert (done.code, done.out) == (2, "")
    named = [word.split("=")[0] for word in arguments if word.startswith("--")][-1]
    assert named in done.err
    assert "ACCOUNTANT_URL:" not in done.err


def test_a_wrong_variable_is_named_as_one(accountant):
    done = accountant("serve", ACCOUNTANT_WINDOW_MS="1")
    assert done.code == 2
    assert "ACCOUNTANT_WINDOW_MS: " in done.err
    assert "ACCOUNTANT_URL must" in accountant(*ASK, ACCOUNTANT_URL="foo://x").err


@every_case(
    ("arguments", "named"),
    [
        (("--epsilon", "1"), "--delta is missing or 0: it must be greater than 0"),
        (("--epsilon", "1"), "add --delta 1e-6, or --filter basic"),
        (("--rho", "1"), "--filter zcdp"),
        (("--filter", "zcdp", "--epsilon", "1", "--rho", "1"), "--epsilon must be left out"),
        (("--filter", "zcdp", "--epsilon", "1"), "zcdp with --rho, or another filter with"),
        (("--filter", "zcdp"), "--rho is missing: it must be given"),
    ],
)
def test_a_budget_that_a_filter_cannot_use_says_what_to_add(accountant, arguments, named):
    for command in (("fits", "--claim", "pure:1"), ("dataset", "open", "census")):
        done = accountant(*command, *arguments)
        assert (done.code, done.out) == (2, "")
        assert named in done.err
        assert "None" not in done.err


def test_a_filter_with_settings_of_its_own_names_options_that_open_it(accountant):
    settings = {
        name: kind.parameters
        for name, kind in FILTERS.items()
        if kind.parameters and not all(each.is_flag for each in kind.parameters.values())
    }
    assert "renyi" in settings
    for name, parameters in settings.items():
        typed = ["--filter", name, "--epsilon", "1", "--delta", "1e-6"]
        for _ in parameters:
            done = accountant("dataset", "open", "census", *typed, "--preview")
            if done.code == 0:
                break
            assert (done.code, done.out) == (2, "")
            advice = done.err.partition("try:   add ")[2]
            assert advice, done.err
            typed += advice.split()
        assert done.code == 0 or accountant("dataset", "open", "c", *typed, "--preview").code == 0


def test_what_an_opening_fixes_cannot_be_amended_and_the_answer_says_so(accountant):
    for options in (("--epsilon", "2"), ("--delta=1e-5",), ("--filter", "basic"), ("--unit", "u")):
        done = accountant("dataset", "amend", "census", *options)
        assert (done.code, done.out) == (2, "")
        assert done.err.startswith(f"error: {options[0].partition('=')[0]} cannot be amended: ")
        assert "--lower-to" in done.err


def test_an_analyst_who_is_not_named_is_missing_and_the_answer_names_the_option(opened):
    done = opened("mine")
    assert done.code == 2
    assert "--analyst" in done.err
    assert "None" not in done.err


def test_an_invalid_opening_cannot_be_previewed(accountant):
    budget = ("--epsilon", "1", "--delta", "1e-6")
    done = accountant("dataset", "open", "two words", *budget, "--preview")
    assert (done.code, done.out) == (2, "")
    assert "NAME must be 1 to 100 letters" in done.err


def test_a_claim_with_delta_but_no_delta_for_claims_names_the_option(accountant):
    claim = ("--claim", "approximate:epsilon=0.1,delta=1e-9")
    budget = ("fits", "--epsilon", "1", "--delta", "1e-6", *claim)
    done = accountant(*budget)
    assert (done.code, done.out) == (1, "")
    assert "--delta-for-claims" in done.err
    assert accountant(*budget, "--delta-for-claims", "1e-7").code == 0


def test_ids_are_new_each_time_and_usable(opened):
    first, second = (opened("id").out.strip() for _ in range(2))
    assert first != second
    assert opened(*ASK, "--id", first).code == 0


def test_help_names_every_filter_and_what_a_policy_is(accountant):
    for command in (("fits",), ("dataset", "open")):
        text = accountant(*command, "--help").out
        assert all(name in text for name in FILTERS)
    assert "FILE" in accountant("dataset", "open", "--help").out


@pytest.mark.parametrize(
    ("claim", "options", "reason", "says"),
    [
        (
            "pure:0.1",
            ("--unit", "household"),
            "unit_mismatch",
            "`accountant dataset show census` prints",
        ),
        ("gaussian:sigma=9,sensitivity=1", (), "claim_not_accepted", "another mechanism"),
    ],
)
def test_a_refusal_that_no_smaller_claim_fixes_names_the_fix(
    accountant, claim, options, reason, says
):
    assert accountant(*OPENING, "--filter", "basic", "--delta-for-claims", "0").code == 0
    done = accountant("ask", "census", claim, "--analyst", "ana", *options)
    assert (done.code, f"({reason})" in done.out) == (1, True), done.out + done.err
    assert says in " ".join(done.out.split())
