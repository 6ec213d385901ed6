"""`accountant dataset open --for`: the policy to open a dataset under, by what will be asked."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from math import ceil
from typing import Any, NoReturn

from accountant.advice.choose_filter import mix
from accountant.advice.propose_filter import Proposal, propose_filter
from accountant.claims import Claim, check_claim
from accountant.claims.text import claim_text, parse_claim
from accountant.display.other_filter import chosen_fields, chosen_words, open_options, share_words
from accountant.policy import resolve
from accountant.policy.compiled_policy import CompiledPolicy, open_plan
from accountant.policy.proposal import propose_defaults
from accountant.views.population import not_added_words
from streams.cli.admin_command import AdminOptions
from streams.cli.printing.exits import Exit, fail
from streams.cli.printing.output import print_json, stdout
from streams.cli.printing.preview import preview_json, preview_table
from streams.cli.printing.say import say
from streams.cli.reading.dataset_reader import reader
from streams.cli.reading.policy_options import named_options, policy_of
from streams.client import NoSuchLedger


def propose_for(
    name: str, expected: list[str], typed: Mapping[str, Any], admin: AdminOptions
) -> None:
    """Print the policy that fits the expected requests, and the command that opens it.

    Args:
        expected: claims, which together are one round of requests.
        typed: the options of the policy that were typed; the proposal leaves them as they are.
    """
    claim = check_claim(mix([parse_claim(text) for text in expected])).claim
    with named_options():
        found = propose_filter(policy_of(typed), claim, typed.get("filter"))
        if found is None:
            _fail_without_filter(claim, typed)
        fields = {**_options_of(found), **typed}
        plan = open_plan(resolve(policy_of(propose_defaults(fields))))
    command = shlex.join(["accountant", "dataset", "open", name, *open_options(fields)])
    assert found.choice.fit is not None
    count = found.choice.fit.count
    if admin.json:
        more = {"expected": claim_text(claim), "expected_fits": count, "command": command}
        print_json(preview_json(name, plan, not_added=_why_not_added(name, plan, admin)) | more)
        return
    print_policy(name, plan, admin)
    fits = "any number" if count is None else f"{count:,}"
    say(
        f"For {claim_text(claim)}: filter {chosen_words(found.choice)}. The budget admits {fits} "
        f"of them, and each uses {share_words(found)} of it. Open the dataset with\n\n"
        f"    {command}"
    )


def print_policy(name: str, plan: CompiledPolicy, admin: AdminOptions) -> None:
    """Print what a policy would promise and admit."""
    not_added = _why_not_added(name, plan, admin)
    if admin.json:
        print_json(preview_json(name, plan, not_added=not_added))
    else:
        stdout().print(preview_table(name, plan, not_added=not_added))


def _why_not_added(name: str, plan: CompiledPolicy, admin: AdminOptions) -> str:
    """Return why a budget would not add up with those of its population, "" if it would.

    The ledger knows: it is read where the policy names a population.
    """
    if not plan.policy.population:
        return ""
    try:
        with reader(admin.url, admin.token_file) as ledger:
            views = [view for view in ledger.datasets() if view.dataset != name]
            return not_added_words(name, plan.policy, views, ledger.ordered_before())
    except NoSuchLedger:  # the opening creates it
        return ""


def _fail_without_filter(claim: Claim, typed: Mapping[str, Any]) -> NoReturn:
    which = f"filter {typed['filter']} does not grant" if "filter" in typed else "no filter grants"
    fail(
        Exit.FAILED,
        f"{which} {claim_text(claim)} under this budget",
        hint="`accountant fits --filter all` with the same options shows what each filter admits",
    )


def _options_of(found: Proposal) -> dict[str, str]:
    """Return the proposed fields of the policy."""
    fields = chosen_fields(found.choice)
    if found.delta_for_claims is not None:
        fields["delta_for_claims"] = found.delta_for_claims
    cap = ceil(found.part * 10)
    if cap > 1:  # the usual cap would refuse the expected request
        fields["most_per_request"] = f"0.{cap}" if cap < 10 else "1"
    return fields
