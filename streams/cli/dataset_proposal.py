"""`accountant dataset open --for`: the policy to open a dataset under, by what will be asked."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, NoReturn

import typer
from msgspec import UNSET, UnsetType

from accountant.advice.choose_filter import mix
from accountant.advice.fit import fit, unspent
from accountant.advice.propose_filter import propose_filter
from accountant.claims import Claim, check_claim
from accountant.claims.text import claim_text, parse_claim
from accountant.display.opening_previews import (
    OpeningBeside,
    lifetime_words_of,
    opening_beside,
)
from accountant.display.other_filter import open_options, proposal_words, proposed_fields
from accountant.policy.compiled_policy import CompiledPolicy, plan_of_opening
from accountant.policy.lifetime import Lifetime, check_lifetime
from accountant.policy.proposal import propose_defaults
from accountant.questions import Schema
from accountant.records import VERSION
from accountant.records.requests import Open
from accountant.views.confirmations import (
    Confirmation,
    confirmation_words,
    confirmations_of_opening,
)
from streams.address import ledger_url
from streams.cli.admin_command import AdminOptions
from streams.cli.printing.exit_codes import Exit
from streams.cli.printing.exits import fail
from streams.cli.printing.output import print_json, stdout
from streams.cli.printing.preview import preview_json, preview_table
from streams.cli.printing.say import say
from streams.cli.reading.dataset_reader import reader
from streams.cli.reading.policy_options import is_typed, named_options, policy_of
from streams.client import NoSuchLedger
from streams.client.requests.requests import new_id
from streams.clock import SystemClock

_BESIDE: Final = frozenset(
    {"ceiling", "lifetime", "lifetime_delta", "lifetime_shared", "owner", "schema", "spent"}
)


class OpeningDraft(NamedTuple):
    """An opening that is shown, and not sent.

    Attributes:
        new: what would be asked back is meant.
        lifetime: unchecked.
    """

    name: str
    schema: Schema | None
    new: bool
    admin: AdminOptions
    lifetime: Lifetime | UnsetType = UNSET


def propose_for(
    context: typer.Context,
    opening: OpeningDraft,
    expected: list[str],
    typed: Mapping[str, Any],
    ceiling: str | None,
) -> None:
    """Print the policy that fits the expected requests, and the command that opens it.

    Args:
        expected: claims, which together are one round of requests.
        typed: the options of the policy that were typed; the proposal leaves them as they are.
        ceiling: as of `plan_of_opening`.
    """
    name = opening.name
    claim = check_claim(mix([parse_claim(text) for text in expected])).claim
    with named_options(context):
        found = propose_filter(policy_of(typed), claim, typed.get("filter"))
        if found is None:
            _fail_without_filter(claim, typed)
        fields = {**proposed_fields(found), **typed}
        plan = plan_of_opening(policy_of(propose_defaults(fields)), ceiling)
    options = [*open_options(fields), *_typed_beside(context)]
    command = shlex.join(["accountant", "dataset", "open", name, *options])
    count = fit(claim, unspent(plan)).count
    more = {"expected": claim_text(claim), "expected_fits": count, "command": command}
    print_policy(opening, plan, more)
    if opening.admin.json:
        return
    say(f"{proposal_words(found, claim, count)} Open the dataset with\n\n    {command}")


def _typed_beside(context: typer.Context) -> list[str]:
    """Return what was typed beside the policy, and belongs to the opening, as it is typed."""
    words = list[str]()
    for parameter in context.command.params:
        name, value = str(parameter.name), context.params.get(str(parameter.name))
        if name not in _BESIDE or not is_typed(context, name):
            continue
        option = max(parameter.opts, key=len)
        if value is True:
            words.append(option)
        else:
            for each in value if isinstance(value, list | tuple) else [value]:
                words += [option, str(each)]
    return words


def print_policy(
    opening: OpeningDraft, plan: CompiledPolicy, more: Mapping[str, Any] | None = None
) -> None:
    """Print what a policy would promise and admit, and what its opening would be asked.

    Args:
        more: fields for JSON.
    """
    beside, asked = _compare_with_ledger(opening, plan)
    not_added, lifetime = beside.not_added, beside.lifetime
    if opening.admin.json:
        found = preview_json(opening.name, plan, not_added=not_added)
        found |= {} if lifetime is None else {"lifetime": lifetime}
        print_json({**found, "asked_back": [each._asdict() for each in asked], **(more or {})})
        return
    stdout().print(preview_table(opening.name, plan, not_added=not_added))
    if beside.refused:
        say(f"warning: the opening would be refused: {not_added}", err=True)
    if note := lifetime_words_of(beside, plan.policy, asked):
        say(f"note: {note}", err=True)
    if asked:
        words = f"{confirmation_words(asked)} Add --new if it is meant"
        say(f"warning: the opening would be asked back: {words}", err=True)


def _compare_with_ledger(
    opening: OpeningDraft, plan: CompiledPolicy
) -> tuple[OpeningBeside, Sequence[Confirmation]]:
    """Return an opening beside what is in the ledger, and what would be asked back."""
    name, admin = opening.name, opening.admin
    if opening.lifetime is not UNSET:
        check_lifetime(opening.lifetime, plan.policy)
    record = Open(
        version=VERSION,
        request_id=new_id(SystemClock()),
        dataset=name,
        by=admin.by or "owner",
        policy=plan.policy,
        schema=UNSET if opening.schema is None else opening.schema,
        lifetime=opening.lifetime,
    )
    try:
        with reader(admin.url, admin.token_file) as ledger:
            views, ordered = ledger.datasets(), ledger.ordered_before()
    except NoSuchLedger:  # the opening creates it
        return opening_beside(record, (), None), ()
    beside = opening_beside(record, views, ordered)
    if beside.refused or opening.new:
        return beside, ()
    # A server alone knows which datasets its sources are for.
    listed = ledger_url(admin.url).kind != "sqlite"
    asked = confirmations_of_opening(record, views, ordered=ordered, sources_are_listed=listed)
    return beside, asked


def _fail_without_filter(claim: Claim, typed: Mapping[str, Any]) -> NoReturn:
    if not typed.keys() & {"epsilon", "rho"}:
        fail(Exit.USAGE, "--for needs the budget that it is for", hint="add --epsilon")
    which = f"filter {typed['filter']} does not grant" if "filter" in typed else "no filter grants"
    fail(
        Exit.FAILED,
        f"{which} {claim_text(claim)} under this budget",
        hint="`accountant fits --filter all` with the same options shows what each filter admits",
    )
