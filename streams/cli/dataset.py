"""`accountant dataset`: open, change, remark on, close, show and list datasets."""

from __future__ import annotations

import shlex
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from msgspec import UNSET

from accountant.display.numbers import counted, exact_percent
from accountant.policy import PARAMETERS
from accountant.policy.proposal import PROPOSED_CAP, propose_defaults
from streams.cli.admin_command import AdminOptions, admin_command
from streams.cli.dataset_budget import set_budget
from streams.cli.dataset_columns import columns
from streams.cli.dataset_outside import Name, record, releases, remark
from streams.cli.printing.exit_codes import Exit
from streams.cli.printing.exits import IF_MEANT, ask_back, explain_errors, fail
from streams.cli.printing.say import say
from streams.cli.reading.dataset_reader import policy_notes
from streams.cli.reading.options import DEFAULT_URL, Json, ReplaceLedger, TokenFile, Url
from streams.cli.reading.policy_options import (
    check_excluded,
    check_words,
    is_typed,
    named_options,
    policy_of,
    policy_options,
    read_policy,
    read_schema,
    read_spent,
    whole_per_holder,
)

if TYPE_CHECKING:
    from accountant.policy import Policy
    from accountant.policy.compiled_policy import CompiledPolicy
    from accountant.questions import Schema
    from accountant.records import Decision

app = typer.Typer(help="Open, change, show and list datasets.", no_args_is_help=True)

_OF_A_POLICY = (
    *("epsilon", "delta", "filter", "rho", "delta_for_claims"),
    *PARAMETERS,
    *("unit", "neighbours", "horizon", "most_per_request", "approve_above", "approve_within"),
    *("open_per_holder", "beside"),
    *("access", "visibility", "population"),
)
"""The options of `open` that --policy replaces."""
_IS_FIXED: Final = "a dataset's budget and what it is for are fixed when it is opened"
_OF_FIXED: Final = (
    "lower the budget with --lower-to FILE, before the first grant; move it below its ceiling with "
    "`accountant dataset set-budget`; or open another dataset with `accountant dataset open`"
)
_CAP_EXPLAINED = (
    "cap: one request may take at most {cap} of the budget, so that a typing error cannot use it\n"
    "up. To remove the cap, or to set another part, run\n"
    "`accountant dataset amend {name} --most-per-request 1{by}`."
)

_ACCESS_EXPLAINED = (
    "access: only members may ask, and there is no analyst yet; {owners} can add one with\n"
    "`accountant member set {name} NAME --role analyst{by}`.\n"
    "With --access anyone, everyone may ask."
)
_DELTA_EXPLAINED = (
    "delta: the filter needs all of it, so claims with a delta of their own will be refused.\n"
    "To allow them, open a dataset with --delta-for-claims, a part of --delta."
)

_BESIDE_EXPLAINED = (
    "beside: basic composition counts next to the filter, so no share can be reserved for a team\n"
    "or an analyst. To reserve shares, open a dataset with --beside none."
)
_QUESTIONS_EXPLAINED = (
    "questions: accuracy-first ones need a curator; {owners} can add the server's with\n"
    "`accountant member set {name} curator --role curator{by}`."
)
_NOT_COPIED: Final = ("policy", "expected", "preview", "ceiling", "schema", "spent", *_OF_A_POLICY)
_ROWS = frozenset(("row", "record"))
"""Units of which each row is one."""
_NO_UNIT = (
    "warning: the schema names no unit, so each row counts as one {unit}. If a {unit} may have\n"
    "several rows, close this dataset, and open another whose schema has `unit`."
)

_OTHER_SCHEMA = "A schema is fixed by the opening: to change it, open another dataset."


@app.command("open")
@policy_options(
    *_OF_A_POLICY,
    after="name",
    order="The order of filter renyi, which needs one; --for proposes it.",
    orders="The orders of filters renyi_weighted and renyi_mixture, as in 22,40. See --for.",
)
@admin_command()
def open_(
    context: typer.Context,
    name: Name,
    policy: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="JSON file with the whole policy, instead of these options.",
        ),
    ] = None,
    preview: Annotated[
        bool,
        typer.Option("--preview", help="Show what it would promise, and open nothing."),
    ] = False,
    expected: Annotated[
        list[str] | None,
        typer.Option(
            "--for",
            metavar="CLAIM",
            help="Propose filter, parameters and cap for such requests; repeat it for several. "
            "Opens nothing, and prints the command that does.",
        ),
    ] = None,
    new: Annotated[
        bool,
        typer.Option(
            "--new",
            help="Open it although its name, population or source is nearly one that is there, or "
            "another dataset is on its source: each would be a second budget. Or although its "
            "population's joint guarantee would end, or it takes from its population's lifetime.",
        ),
    ] = False,
    ceiling: Annotated[
        str | None,
        typer.Option(
            metavar="AMOUNT",
            help="The most to which --epsilon, or --rho, may be raised later: the dataset's "
            "guarantee from the first day. Without it, the budget can never be raised.",
        ),
    ] = None,
    lifetime: Annotated[
        str | None,
        typer.Option(
            metavar="AMOUNT",
            help="What this dataset and all that will renew it may promise together, in epsilon, "
            "or rho. Without it, it can never be renewed.",
        ),
    ] = None,
    lifetime_delta: Annotated[
        str | None, typer.Option(metavar="DELTA", help="The delta of --lifetime; 0 without it.")
    ] = None,
    lifetime_shared: Annotated[
        bool,
        typer.Option(
            "--lifetime-shared",
            help="--lifetime is that of --population, from its first dataset on: all its datasets "
            "and their renewals take from it.",
        ),
    ] = False,
    like: Annotated[
        str | None,
        typer.Option(
            metavar="DATASET",
            help="Copy another dataset: its policy, schema, limits and members, without renewing "
            "it. Without it, --lifetime alone is its own.",
        ),
    ] = None,
    owner: Annotated[
        list[str] | None,
        typer.Option(help="An owner of the dataset; repeat it for several. Default: --by."),
    ] = None,
    schema: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="JSON file with the schema of the data, which questions need. It stays for ever.",
        ),
    ] = None,
    spent: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="JSON file with what was released before: claim, evidence and fixed_before. It "
            "is charged at the opening, and its text stays public for ever.",
        ),
    ] = None,
    replace_ledger: ReplaceLedger = False,
    *,
    admin: AdminOptions,
    **fields: str | None,
) -> None:
    """Open a dataset with a privacy budget, which can never be raised above its ceiling.

    The budget is all that requests may ever spend together. --preview shows what it promises.

    Example: `accountant dataset open survey --epsilon 1 --delta 1e-6`. Exit code 1 if the name was
    opened before.
    """
    from accountant.policy.compiled_policy import plan_of_opening
    from accountant.records.names import check_name
    from streams.cli.dataset_proposal import OpeningDraft, print_policy, propose_for
    from streams.cli.dataset_renewal import TypedLifetime, open_like
    from streams.client import PolicyDiffers

    with explain_errors():
        declared = None if schema is None else read_schema(schema)
        typed_lifetime = TypedLifetime(lifetime, lifetime_delta, lifetime_shared)
        if lifetime is None and (lifetime_delta is not None or lifetime_shared):
            fail(Exit.USAGE, "--lifetime-delta and --lifetime-shared need --lifetime")
        if like is not None:
            check_excluded(context, "--like", _NOT_COPIED, why="the dataset has them")
            open_like(OpeningDraft(name, None, new, admin), like, owner, typed_lifetime)
        before = None if spent is None else read_spent(spent)
        if policy is not None:
            whole = "the file has the whole policy"
            check_excluded(context, "--policy", (*_OF_A_POLICY, "expected"), why=whole)
            wanted = read_policy(policy)
        else:
            if expected:
                check_name("dataset", name)
                typed = {each: fields[each] for each in _OF_A_POLICY if is_typed(context, each)}
                shared = typed_lifetime.declared(fields["rho"])
                draft = OpeningDraft(name, declared, new, admin, shared)
                propose_for(context, draft, expected, typed, ceiling)
                return
            wanted = policy_of(propose_defaults(fields))
            proposes_cap = fields["most_per_request"] is None
        with named_options(context) if policy is None else nullcontext():
            plan = plan_of_opening(wanted, ceiling)
        if preview:
            check_name("dataset", name)
            draft = OpeningDraft(name, declared, new, admin, typed_lifetime.declared(wanted.rho))
            print_policy(draft, plan)
            _warn_of_schema(plan, declared)
            return
        with admin.ledger(replace_ledger=replace_ledger) as (ledger, request):
            try:
                # `wanted` contains the proposed fields already.
                decision = admin.owner(ledger, request).open(
                    name,
                    wanted,
                    owners=owner,
                    schema=declared,
                    ceiling=ceiling,
                    lifetime=typed_lifetime.fields(wanted.rho),
                    spent=before,
                    as_given=True,
                    new=new,
                )
            except PolicyDiffers as error:
                say(str(error), err=True)
                decision = error.decision
            if decision.outcome == "opened":
                _warn_of_schema(plan, declared)
                if not admin.json:
                    cap = policy is None and proposes_cap
                    by = admin.name(ledger)
                    _explain_opening(decision, wanted, plan, declared, by=by, cap=cap)
            notes = partial(policy_notes, ledger, name, decision)
            admin.end(ledger, request, decision, notes=notes)


def _explain_opening(
    decision: Decision,
    wanted: Policy,
    plan: CompiledPolicy,
    schema: Schema | None,
    *,
    by: str | None,
    cap: bool,
) -> None:
    """Print what an opening has chosen, and how to change it.

    Args:
        by: the name that the command sent. `cap`: the command proposed the cap.
    """
    opened, names = decision.policy, decision.owners or ()
    owned = {
        "name": decision.dataset,
        "owners": " or ".join(names or ["its owner"]),
        "by": f" --by {shlex.quote(names[0])}" if names and by is not None else "",
    }
    if opened is not None and wanted.access is UNSET and opened.access == "members":
        say(_ACCESS_EXPLAINED.format(**owned))
    if cap:
        say(_CAP_EXPLAINED.format(cap=exact_percent(PROPOSED_CAP), **owned))
    if _keeps_no_delta(plan):
        say(_DELTA_EXPLAINED)
    if plan.policy.beside is not UNSET:
        say(_BESIDE_EXPLAINED)
    if schema is not None:
        say(_QUESTIONS_EXPLAINED.format(**owned))


def _warn_of_schema(plan: CompiledPolicy, schema: Schema | None) -> None:
    from accountant.display.quantile_steps import columns_without_quantiles, no_quantile_words

    if schema is None:
        return
    if schema.unit is UNSET and plan.policy.unit not in _ROWS:
        say(_NO_UNIT.format(unit=plan.policy.unit), err=True)
    for column in columns_without_quantiles(schema):
        say(f"warning: {no_quantile_words(column)} {_OTHER_SCHEMA}", err=True)


def _keeps_no_delta(plan: CompiledPolicy) -> bool:
    takes_delta = any(name in plan.kind.sums for name in ("delta", "apart_delta"))
    return takes_delta and plan.policy.delta != "0" and plan.policy.delta_for_claims == "0"


_APPROVALS: Final = ("approve_above", "approve_within")
_AMENDED: Final = (
    *("horizon", "most_per_request", *_APPROVALS, "open_per_holder", "access", "visibility"),
)
_FIXED: Final = tuple(field for field in _OF_A_POLICY if field not in _AMENDED)
"""The options of `open` that say what never changes."""


@app.command("amend")
@policy_options(*_FIXED, after="follows", hidden=True)
@policy_options(
    *_APPROVALS,
    after="most_per_request",
    approve_above="A request above this part of the budget waits until an owner approves it; "
    "1: none waits.",
    approve_within="How long it may wait, P1D to P30D; with --approve-above.",
)
@admin_command()
def amend(
    context: typer.Context,
    name: Name,
    alert_at: Annotated[
        list[str] | None,
        typer.Option(
            help="Alert when this part of the budget is spent, such as 0.5; repeat it, increasing."
        ),
    ] = None,
    horizon: Annotated[
        str | None, typer.Option(help="How long the budget should last, such as P365D.")
    ] = None,
    most_per_request: Annotated[
        str | None,
        typer.Option(help="Largest part of the budget for one request, a ratio; 1: no cap."),
    ] = None,
    lower_to: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="JSON file of the whole policy with a lower budget; refused after a first grant.",
        ),
    ] = None,
    open_per_holder: Annotated[
        str | None,
        typer.Option(
            help="How many reservations an analyst or engine may have open; none: no limit."
        ),
    ] = None,
    access: Annotated[str | None, typer.Option(help="Who may ask: members or anyone.")] = None,
    visibility: Annotated[
        str | None,
        typer.Option(help="Which decisions analysts see: own, or members (those of all members)."),
    ] = None,
    follows: Annotated[
        int | None,
        typer.Option(help="Refuse unless the dataset's last decision has this number."),
    ] = None,
    *,
    admin: AdminOptions,
    **fixed: str | None,
) -> None:
    """Change a dataset's thresholds, horizon, caps or access; or lower its budget before any grant.

    Options that you leave out change nothing.
    """
    approvals = {field: fixed.pop(field) for field in _APPROVALS}
    if typed := [field for field in fixed if is_typed(context, field)]:
        options = " and ".join(f"--{field.replace('_', '-')}" for field in typed)
        fail(Exit.USAGE, f"{options} cannot be amended: {_IS_FIXED}", hint=_OF_FIXED)
    values = (horizon, most_per_request, open_per_holder, lower_to, access, visibility)
    if not alert_at and all(each is None for each in (*values, *approvals.values())):
        hint = "--alert-at 0.5 --alert-at 0.9, --horizon P365D, --most-per-request 0.1"
        fail(Exit.USAGE, "nothing to change", hint=f"{hint} or --access members")
    check_words(access=access, visibility=visibility)
    most_open = None if open_per_holder is None else whole_per_holder(open_per_holder)
    policy = None if lower_to is None else read_policy(lower_to)
    fields: dict[str, Any] = {
        "alert_at": alert_at or None,
        "horizon": horizon,
        "most_per_request": most_per_request,
        "policy": policy,
        "as_given": True,
        "access": access,
        "visibility": visibility,
        "open_per_holder": most_open,
        **approvals,
    }
    admin.send(lambda owner: owner.amend(name, **fields), follows=follows, notes=policy_notes)


@app.command("close")
@admin_command()
def close(
    name: Name,
    yes: Annotated[
        bool,
        typer.Option("--yes", help="Close it at once. Without it, an open dataset stays open."),
    ] = False,
    *,
    admin: AdminOptions,
) -> None:
    """Close a dataset for ever: it grants nothing more, and its name cannot be used again.

    To stop grants for a while, use `accountant dataset pause`. Without --yes the command says what
    would be lost, and closes nothing.
    """
    from accountant.display.one_way_choices import closing_words
    from streams.cli.reading.dataset_reader import find_dataset

    with admin.ledger() as (ledger, request):
        view = None if yes else find_dataset(ledger, name)
        if view is not None and not view.closed:
            hint = f"add --yes if it is meant; `accountant dataset pause {name}` can be taken back"
            ask_back(closing_words(view), hint)
        admin.end(ledger, request, admin.owner(ledger, request).close(name))


@app.command("renew")
@admin_command()
def renew(
    name: Name,
    renewed_as: Annotated[
        str, typer.Argument(metavar="NEW", help="Name of the next generation, in the same group.")
    ],
    policy: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="JSON file with the whole policy of the next generation. Default: that of the "
            "dataset, with its schema and budget in force.",
        ),
    ] = None,
    schema: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="JSON file with the schema, which goes with --policy."),
    ] = None,
    owner: Annotated[
        list[str] | None,
        typer.Option(help="An owner of the next generation; repeat it. Default: the same ones."),
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Renew it at once. Without it, nothing is renewed.")
    ] = False,
    *,
    admin: AdminOptions,
) -> None:
    """Close a dataset and open its next generation, with its policy, limits and members.

    Without --yes the command says what would become of the dataset, and renews nothing.

    The lifetime of its opening is charged the whole guarantee of the next generation, whatever this
    one has used. If it is interrupted, run it again: that completes it.

    Example: `accountant dataset renew census::2026 census::2027 --yes`. Exit code 1 if refused.
    """
    from accountant.display.renewals import RenewalPlan
    from streams.cli.dataset_renewal import notes_of_warnings
    from streams.cli.reading.dataset_reader import get_dataset, with_joint_guarantee

    if schema is not None and policy is None:
        fail(Exit.USAGE, "--schema goes with --policy", hint="give both, or neither")
    with explain_errors():
        wanted = None if policy is None else read_policy(policy)
        declared = None if schema is None else read_schema(schema)
    with admin.ledger() as (ledger, request):
        view = with_joint_guarantee(get_dataset(ledger, name), ledger)
        renewal = RenewalPlan(view, renewed_as, wanted, len(ledger.pending(name)), declared)
        for words in renewal.words():
            say(f"note: {words}", err=True)
        if not yes and view.lifetime is not UNSET and not view.renewed_as:
            other = f"`accountant dataset show {name}` says what remains; add --policy FILE"
            hint = other if renewal.refusal else IF_MEANT
            ask_back(f"{renewed_as} would take the place of {name}, for ever", hint)
        with notes_of_warnings():
            decision = admin.owner(ledger, request).renew(
                name, renewed_as, wanted, owners=owner, schema=declared, as_given=True
            )
        notes = partial(policy_notes, ledger, renewed_as, decision)
        admin.end(ledger, request, decision, notes=notes)


@app.command("pause")
@admin_command(for_administrators=True)
def pause(
    name: Name,
    *,
    admin: AdminOptions,
) -> None:
    """Pause a dataset: it grants nothing until it is resumed. Nothing else changes.

    Exit code 1 if it is refused, also where the dataset is paused already.
    """
    admin.send_as_administrator(lambda caller: caller.pause(name))


@app.command("resume")
@admin_command(for_administrators=True)
def resume(
    name: Name,
    *,
    admin: AdminOptions,
) -> None:
    """Resume a paused dataset: its requests are decided again.

    Exit code 1 if it is refused, also where the dataset is not paused.
    """
    admin.send_as_administrator(lambda caller: caller.resume(name))


app.command("set-budget")(set_budget)


@app.command("label")
@admin_command()
def label(
    name: Name,
    text: Annotated[
        str,
        typer.Argument(help="What the dataset is, at most 200 characters; empty: remove it."),
    ],
    *,
    admin: AdminOptions,
) -> None:
    """Say in a public text what a dataset is; an empty text removes it. Owners only.

    Everybody who may see the dataset sees it. A closed dataset takes it, too.
    """
    admin.send(lambda owner: owner.label(name, text))


for _name, _command in (("remark", remark), ("record", record), ("releases", releases)):
    app.command(_name)(_command)


@app.command("resolve")
@admin_command()
def resolve(
    name: Name,
    grant: Annotated[
        str,
        typer.Argument(
            help="The broken reservation: the hash of its decision `reserved`, or the hash's first "
            "digits, as `accountant reservation list` prints them."
        ),
    ],
    claim: Annotated[
        str | None,
        typer.Option(help="What was released beyond the maximum; it is charged to the dataset."),
    ] = None,
    mistaken: Annotated[
        str | None,
        typer.Option(
            metavar="WHY",
            help="Instead: why nothing was released beyond the maximum, at most 200 characters.",
        ),
    ] = None,
    *,
    admin: AdminOptions,
) -> None:
    """End a suspension: say what a reservation released beyond its maximum. Owners only.

    With --claim that is charged: if it fits, the guarantee holds if its size was bounded in
    advance; if not, there is no guarantee any more. With --mistaken nothing is charged, and your
    words stand beside the guarantee. Exit code 1 if it is refused.
    """
    from accountant.claims.text import parse_claim
    from streams.cli.reading.grants import whole_grant

    if (claim is None) == (mistaken is None):
        hint = "add --claim CLAIM for a release, or --mistaken WHY if there was none"
        fail(Exit.USAGE, "say what was released beyond the maximum", hint=hint)
    charged = None if claim is None else parse_claim(claim)
    with admin.ledger() as (ledger, request):
        caller = admin.name(ledger) or ledger.me().name or ""
        whole = whole_grant(ledger, name, grant, caller=caller, request_id=admin.request_id)
        owner = admin.owner(ledger, request)
        admin.end(ledger, request, owner.resolve(name, whole, claim=charged, mistaken=mistaken))


@app.command("show")
def show(
    name: Name,
    like: Annotated[
        str | None,
        typer.Option(
            metavar="CLAIM",
            help="Count how many more such requests fit. Default for a ledger's file: the last "
            "granted claim.",
        ),
    ] = None,
    url: Url = DEFAULT_URL,
    token_file: TokenFile = None,
    json: Json = False,
) -> None:
    """Show one dataset: its guarantee, what is spent and left, and its odometers.

    Also shows how many more requests of one claim would be granted.
    """
    from accountant.claims.text import parse_claim
    from accountant.display.datasets import joint_sentence, pause_words
    from streams.cli.printing.limits import limit_table
    from streams.cli.printing.members import member_lines
    from streams.cli.printing.output import print_json, stdout
    from streams.cli.printing.tables import dataset_details
    from streams.cli.reading.dataset_reader import (
        get_dataset,
        last_granted_claim,
        pause_of,
        reader,
        visible_limits,
        visible_members,
        with_joint_guarantee,
    )

    with explain_errors(), reader(url, token_file) as ledger:
        wanted = None if like is None else parse_claim(like)
        found = get_dataset(ledger, name)
        claim = wanted or (None if json else last_granted_claim(ledger, found))
        rollbacks = {each.partition: each.branch for each in ledger.heads() if each.branch}
        found = with_joint_guarantee(found, ledger)
        members = [] if json else visible_members(ledger, name)
        limits = [] if json else visible_limits(ledger, name)
        pause = None if json else pause_of(ledger, found)
    if json:
        print_json(found)
    else:
        more = [] if pause is None else [("paused", pause_words(pause))]
        more += member_lines(found.policy, members)
        if found.joint_guarantee:
            more.append(("together", joint_sentence(found.joint_guarantee)))
        stdout().print(dataset_details(found, like=claim, more=more, has_limits=bool(limits)))
        if limits:
            stdout().print(limit_table(limits, found))
    for partition, count in rollbacks.items():
        say(
            f"warning: the log of partition {partition} has lost decisions "
            f"{counted(count, 'time')}. Their grants are not charged: "
            "`accountant audit` lists them",
            err=True,
        )


app.command("columns")(columns)


@app.command("list")
def list_(url: Url = DEFAULT_URL, token_file: TokenFile = None, json: Json = False) -> None:
    """List every dataset with its budget; with --json one object a line.

    Also shows the joint guarantee of all datasets of one population, hidden ones included.
    """
    from accountant.display.datasets import joint_sentence
    from streams.cli.printing.output import print_json, stdout
    from streams.cli.printing.tables import dataset_table
    from streams.cli.reading.dataset_reader import reader, with_joint_guarantees

    with explain_errors(), reader(url, token_file) as ledger:
        read = ledger.datasets()
        found = with_joint_guarantees(read, read, ledger)
    if json:
        for view in found:
            print_json(view)
        return
    stdout().print(dataset_table(found))
    joint = {each.population: each for view in found if (each := view.joint_guarantee)}
    for name in sorted(joint):
        stdout().print(joint_sentence(joint[name]), soft_wrap=True)
