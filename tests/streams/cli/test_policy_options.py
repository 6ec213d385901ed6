"""A policy's file is the whole policy, and what is wrong with it is said of its fields."""

from __future__ import annotations

import pytest

from tests.every_case import every_case

# One test runs commands for many cases.
pytestmark = pytest.mark.timeout(600)

POLICY = '{"filter": "basic", "epsilon": "1"}'
OPEN = ("dataset", "open", "census", "--policy", "policy.json")


def write(accountant, text: str | bytes) -> None:
    body = text.encode() if isinstance(text, str) else text
    (accountant.directory / "policy.json").write_bytes(body)


@every_case("more", [(), ("--preview",), ("--json",)])
@every_case(
    ("options", "named"),
    [
        (("--epsilon", "2"), "--epsilon"),
        (("--delta=0",), "--delta"),
        (("--filter", "zcdp_tight"), "--filter"),
        (("--rho", "1"), "--rho"),
        (("--delta-for-claims", "0"), "--delta-for-claims"),
        (("--unit", "person"), "--unit"),
        (("--neighbours", "replace"), "--neighbours"),
        (("--horizon", "P1D"), "--horizon"),
        (
            ("--horizon", "P1D", "--delta", "0", "--epsilon", "1"),
            "--epsilon, --delta and --horizon",
        ),
    ],
)
def test_a_file_and_an_option_of_the_policy_exclude_one_another(accountant, options, named, more):
    write(accountant, POLICY)
    done = accountant(*OPEN, *options, *more)
    assert (done.code, done.out) == (2, "")
    assert done.err == f"error: --policy excludes {named}: the file has the whole policy\n"
    assert [path.name for path in accountant.directory.iterdir()] == ["policy.json"]


def test_options_outside_the_policy_may_be_used_with_a_policy_file(accountant):
    write(accountant, POLICY)
    done = accountant(*OPEN, "--reason", "a trial", "--wait", "5", "--json", ACCOUNTANT_OWNER="ana")
    assert (done.code, done.err) == (0, "")
    assert done.json["policy"]["epsilon"] == "1"
    assert done.json["request"]["by"] == "ana"


@every_case(
    ("text", "field"),
    [
        ('{"epsilon": 1}', "epsilon"),
        ('{"epsilon": "1", "delta": 1e-6}', "delta"),
        ('{"epsilon": "1", "alert_at": ["0.5", 1]}', "alert_at[1]"),
        ('{"odometers": [{"type": "linear", "delta": 0.1, "y": "1"}]}', "odometers[0].delta"),
    ],
)
@every_case(
    "command",
    [OPEN, ("compare", "--policy", "policy.json"), ("decide", "--policy", "policy.json")],
)
def test_an_amount_that_is_a_number_is_named_and_how_to_write_it(accountant, command, text, field):
    write(accountant, text)
    done = accountant(*command)
    assert (done.code, done.out) == (2, "")
    rule = 'must be text, as all amounts, such as "1", got a number'
    assert done.err == f"error: policy.json is not a policy: {field} {rule}\n"


@every_case(
    ("text", "said"),
    [
        ('{"unit": 3}', 'Expected `str`, got `int` - at `$.unit`\ntry:   write it as text: "3"'),
        ('{"epsilon": true}', "Expected `str | null`, got `bool` - at `$.epsilon`"),
    ],
)
def test_other_errors_of_a_policy_file_are_quoted(accountant, text, said):
    write(accountant, text)
    done = accountant(*OPEN)
    assert (done.code, done.out) == (2, "")
    assert done.err == f"error: policy.json is not a policy: {said}\n"


@every_case(
    ("text", "said"),
    [
        ('{"epsilon": 1,', "Expecting property name enclosed in double quotes, line 1"),
        ('{"epsilon":\n1} and more', "Extra data, line 2"),
        ('{"epsilon": "1", "epsilon": "2"}', "key 'epsilon' stands twice in one object"),
        (b'{"unit": "\xff"}', "it must be UTF-8: invalid start byte"),
    ],
)
def test_the_syntax_of_a_policy_file_is_checked_before_its_fields(accountant, text, said):
    write(accountant, text)
    done = accountant(*OPEN)
    assert (done.code, done.out) == (2, "")
    assert done.err == f"error: policy.json is not valid JSON: {said}\n"
