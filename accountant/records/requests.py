"""What is asked of a ledger: an analyst's request, an owner's record."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec
from msgspec import UNSET, UnsetType

from accountant.claims import Claim
from accountant.field_rules import (
    ApproveWithin,
    Grant,
    Hash,
    Horizon,
    Name,
    NoiseAmount,
    Note,
    Owners,
    Ratio,
    RequestId,
    Rule,
    Thresholds,
    Until,
)
from accountant.policy import Access, Neighbours, Policy, Visibility
from accountant.policy.in_force import BudgetInForce
from accountant.policy.lifetime import Lifetime
from accountant.questions.noise import Noise
from accountant.questions.schema import Schema
from accountant.questions.statistics import Question
from accountant.questions.stop import Stop
from accountant.records.asks import AskKind
from accountant.records.limit_records import LimitPolicy, PeriodLimit, Scope
from accountant.records.members import Role, Roles

Version = Literal[1]
VERSION: Final = 1
"""Version of what clients write; decisions and rows have another, `made_by.FORMAT`."""
Source = Literal["requests", "admin"]
"""The two inputs of a partition."""


class Reserve(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Makes a request a reservation: a grant at its maximum, for a mechanism that runs later.

    Attributes:
        until: how long the mechanism may take to begin and to settle: `PT30M`, `PT12H` or `P7D`,
            at most 30 days.
    """

    until: str


class MechanismRequest(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="request"
):
    """An analyst asks to run one mechanism, or one batch of them.

    Attributes:
        version: `1`.
        request_id: a UUIDv7, whose time is the time of issue. Make it once for a request, and send
            the same bytes with every retry.
        analyst: the analyst. With authentication, the caller's own name, unless `via` is there.
        dataset: the dataset.
        claim: what the mechanism promises, for `unit` and `neighbours`.
        unit, neighbours: what the claim is valid for. They must equal the policy's. `neighbours` is
            `add_remove` or `replace`.
        question, noise, stop: instead of these, what is asked of the data: the ledger derives the
            claim, for the unit and the neighbours of the dataset's policy. `stop` says when a
            session of a question stops; it is given with `reserve`, and for sessions alone.
        purpose: for people, at most 200 characters.
        reserve: makes it a reservation: `{"until": "PT30M"}`. The request has at most 8,192 bytes
            then.
        other_datasets: up to 15 further datasets of the same partition that the mechanism reads,
            all charged or none. The claim bounds one unit's change in all of them at once, and each
            is charged it in full.
        via: the engine that asks for `analyst`. It needs the role `engine`. Analysts who ask for
            themselves leave it out.
    """

    version: Version
    request_id: RequestId
    analyst: Name
    dataset: Name
    claim: Claim | UnsetType = UNSET
    unit: str | UnsetType = UNSET
    neighbours: Neighbours | UnsetType = UNSET
    purpose: Note = ""
    via: Name | UnsetType = UNSET
    reserve: Reserve | UnsetType = UNSET
    other_datasets: tuple[str, ...] | UnsetType = UNSET
    question: Question | UnsetType = UNSET
    noise: Noise | UnsetType = UNSET
    stop: Stop | UnsetType = UNSET

    @property
    def datasets(self) -> tuple[str, ...]:
        """Every dataset that it names, the one that keys it first."""
        return (self.dataset, *(self.other_datasets or ()))


class _Step(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type"):
    """A step of a reservation: it names the grant by its decision's hash.

    Attributes:
        analyst: the analyst of the reservation, or an owner who voids it.
        grant: `sha256:...`, the hash of the decision `reserved`.
        via: the engine that sends it for the analyst, or the curator that runs a question; left
            out where the analyst sends it.
    """

    version: Version
    request_id: RequestId
    analyst: Name
    dataset: Name
    grant: Grant
    via: Name | UnsetType = UNSET


class Begin(_Step, frozen=True, tag="begin"):
    """The mechanism of a reservation begins: it may read the data once the outcome is `begun`."""


class Settle(_Step, frozen=True, tag="settle"):
    """The mechanism of a reservation is over: it is charged what it showed, and shows no more.

    That is a session's last level, and everything else in full.

    Attributes:
        shown: of a session, the variance or scale of its last answer; left out where the whole
            maximum stays charged.
    """

    shown: NoiseAmount | UnsetType = UNSET


class Void(_Step, frozen=True, tag="void"):
    """A reservation that never began is given back: exactly what it was charged comes back."""


ReservationStep = Begin | Settle | Void


class _Admin(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type"):
    """What the records of owners have in common.

    Attributes:
        version, request_id, dataset: as in a request.
        by: the owner. With authentication the HTTP server verifies that this is the caller.
        reason: for people, at most 200 characters.
    """

    version: Version
    request_id: RequestId
    dataset: Name
    by: Name


class SpentBefore(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True
):
    """What was released about the data before its dataset was opened.

    Attributes:
        claim: what was released, for the policy's `unit` and `neighbours`; several releases are
            one `all_of`, in their order. It must fit the policy's budget.
        evidence: what says so, 1 to 200 characters; it stays public for ever.
        fixed_before: whether the owner says that the policy's budget was fixed before the first of
            these releases. The guarantee covers them only then.
    """

    claim: Claim
    evidence: Note
    fixed_before: bool = False


class Open(_Admin, frozen=True, tag="open"):
    """An owner opens a dataset under a policy; its budget is fixed from the first grant on.

    Attributes:
        policy: the policy, which its defaults complete.
        schema: what is declared about the data, for questions. Its `neighbours` are the policy's.
            It is never amended; left out, no question can be asked.
        owners: 1 to 100 names, each once. Left out, `by` is the only owner.
        budget: the budget in force, `{"epsilon": "1"}` or `{"rho": "0.1"}`: the policy is its
            ceiling then. Left out, all of the policy's budget is in force.
        lifetime: what all its generations may promise together, `{"epsilon": "10", "delta":
            "1e-5"}` or `{"rho": "1"}`, at least what the policy guarantees. It is what the dataset
            guarantees then. With `shared` it is that of the policy's population, which has no
            dataset yet. Left out, the dataset takes from the lifetime of its population, if that
            has one, or can never be renewed.
        spent: what was released before. It is charged at the opening, whatever caps say. Not where
            the policy has a population.
    """

    policy: Policy
    reason: Note = ""
    owners: Owners | UnsetType = UNSET
    schema: Schema | UnsetType = UNSET
    budget: BudgetInForce | UnsetType = UNSET
    lifetime: Lifetime | UnsetType = UNSET
    spent: SpentBefore | UnsetType = UNSET


class Renew(_Admin, frozen=True, tag="renew"):
    """An owner renews a dataset: it is closed, and the next generation opens under another name.

    The lifetime is charged what the new policy guarantees, whatever was used so far. Reservations
    that have begun still settle on the dataset that is renewed; others cannot begin any more.

    Attributes:
        renewed_as: name of the next generation, which no dataset has.
        policy: of the next generation, with the same unit, neighbours and population. Its access is
            `members` until an owner amends it, after limits and members have followed.
        schema, budget: as of `Open`; the schema may be another one.
        owners: as of `Open`. Left out, they are the owners of the dataset that is renewed.
        follows: as of `Amend`.
    """

    renewed_as: Name
    policy: Policy
    reason: Note = ""
    follows: int | None = None
    owners: Owners | UnsetType = UNSET
    schema: Schema | UnsetType = UNSET
    budget: BudgetInForce | UnsetType = UNSET


class Amend(_Admin, frozen=True, tag="amend"):
    """An owner changes thresholds, horizon, cap or access, or lowers the budget before any grant.

    Attributes:
        follows: number of the dataset's last decision that the owner has read. If another
            decision has come since, the record is refused as `out_of_date`: read the dataset and
            send a new record. So an admin request cannot act twice after the ledger has forgotten
            its id.
        policy: the whole policy, with a lower budget and the same filter, unit and neighbours;
            without any of the fields below.
        alert_at, horizon, most_per_request, access, visibility, open_per_holder: fields of the
            policy to change. What is left out stays; `open_per_holder` 0 removes that limit.
        approve_above, approve_within: likewise; `approve_above` 1 lets no request wait.
    """

    alert_at: Thresholds | None = None
    horizon: Horizon | None = None
    reason: Note = ""
    follows: int | None = None
    most_per_request: Ratio | None = None
    policy: Policy | None = None
    access: Access | None = None
    visibility: Visibility | None = None
    open_per_holder: int | None = None
    approve_above: Ratio | None = None
    approve_within: ApproveWithin | None = None


class Close(_Admin, frozen=True, tag="close"):
    """An owner closes a dataset: nothing more is granted.

    Attributes:
        follows: as of `Amend`.
    """

    reason: Note = ""
    follows: int | None = None


class _Brake(_Admin, frozen=True, rename={"as_": "as"}):
    reason: Note = ""
    follows: int | None = None
    as_: Literal["administrator"] | None = None


class Pause(_Brake, frozen=True, tag="pause"):
    """An owner, or an administrator, pauses a dataset: nothing is granted until it is resumed.

    Attributes:
        follows: as of `Amend`.
        as_: as of `SetMember`.
    """


class Resume(_Brake, frozen=True, tag="resume"):
    """An owner, or an administrator, ends a dataset's pause.

    Attributes:
        follows: as of `Amend`.
        as_: as of `SetMember`.
    """


class _PersonBrake(_Admin, frozen=True, rename={"as_": "as"}):
    member: Name | None = None
    team: Name | None = None
    reason: Note = ""
    follows: int | None = None
    as_: Literal["administrator"] | None = None


class PauseMember(_PersonBrake, frozen=True, tag="pause_member"):
    """An owner, or an administrator, pauses one person or one team of a dataset.

    They cannot ask and not begin a reservation until they are resumed. They still settle, void and
    read, and their membership, limits and history stay. The person need not be a member.

    Attributes:
        member, team: the person, or the team instead. A team's pause is for those who are in it
            when they ask.
        reason: why, 1 to 200 characters: those who are paused read it.
        follows: as of `Amend`.
        as_: as of `SetMember`.
    """


class ResumeMember(_PersonBrake, frozen=True, tag="resume_member"):
    """An owner, or an administrator, ends the pause of one person or of one team.

    Nothing else ends it: neither a removal of the member nor a new membership.

    Attributes:
        member, team: as of `PauseMember`.
        follows: as of `Amend`.
        as_: as of `SetMember`.
    """


class Label(_Admin, frozen=True, tag="label"):
    """An owner says in a public text what a dataset is; an empty text removes it.

    A closed dataset takes it, too.

    Attributes:
        label: for people, at most 200 characters; the record replaces an earlier one.
        follows: as of `Amend`.
    """

    label: Note
    reason: Note = ""
    follows: int | None = None


class Remark(_Admin, frozen=True, tag="remark"):
    """An owner says something public about a decision, such as that a grant never ran.

    Nothing is charged or returned, and the decision stays as it is. A closed dataset takes it, too.

    Attributes:
        decision: the number of an earlier decision in the dataset.
        remark: for people, 1 to 200 characters. It stays public for ever; later remarks on the
            decision stand beside it.
        follows: as of `Amend`.
    """

    decision: int
    remark: Note
    reason: Note = ""
    follows: int | None = None


class SetBudget(_Admin, frozen=True, tag="budget"):
    """An owner sets the budget in force, at most the ceiling: the budget of the policy.

    The guarantee stays the ceiling's. A raise lets more requests in, and its thresholds are
    reported again; a smaller budget stops grants.

    Attributes:
        budget: `{"epsilon": "1"}` or `{"rho": "0.1"}`, the one that the policy has.
        follows: as of `Amend`.
        answers: number of the ask that it accepts.
    """

    budget: BudgetInForce
    reason: Note = ""
    follows: int | None = None
    answers: int | None = None


class RecordRelease(_Admin, frozen=True, tag="record"):
    """An owner charges what was released about the data elsewhere, without a request.

    No cap, limit, pause or suspension refuses it. Its texts stay public for ever.

    Attributes:
        claim: what was released, as a claim for the policy's `unit` and `neighbours`; several
            releases are one `all_of`. What fits the budget is charged, and the guarantee holds if
            its size was bounded before anything was released. What does not fit is charged to the
            team's limits alone, and the dataset guarantees nothing any more, for ever.
        released_at: when it was released, such as `2026-11-21T10:00:00.000Z`; at the latest the
            time of `request_id`.
        evidence: what says so, 1 to 200 characters: a publication, a ticket.
        team: by which team; its limits count the release, and may stand above their amount.
        evidence_hash: SHA-256 of a document that says so, `sha256:...`.
        follows: as of `Amend`.
    """

    claim: Claim
    released_at: Until
    evidence: Note
    team: Name | None = None
    evidence_hash: Hash | None = None
    reason: Note = ""
    follows: int | None = None


class AskMore(_Admin, frozen=True, tag="more"):
    """Somebody asks a dataset's owners for a role, a larger limit, or a larger budget.

    Nothing is charged, set or raised. Who does not see the dataset may ask for access alone. A
    person has at most 10 open asks in a dataset, a dataset 500.

    Attributes:
        wants: `access`, `limit` or `budget`.
        role: with `access`, the role, which the person does not have yet.
        part: with `limit`, the part of each sum of the dataset's budget.
        budget: with `limit` instead of `part` an amount, and with `budget` the budget in force, at
            most the ceiling.
        team: with `limit`, the person's own team, whose limit it is; left out, the person's own.
        reason: for the owners, 1 to 200 characters. It stays in the log for ever; owners, auditors
            and the person see it.
        nonce: random text of a server, for a person who does not see the dataset: from a hash in
            the log nobody can tell what was decided.
        follows: as of `Amend`.
    """

    wants: AskKind
    role: Role | None = None
    part: Ratio | None = None
    budget: BudgetInForce | UnsetType = UNSET
    team: Name | None = None
    reason: Note = ""
    nonce: Note = ""
    follows: int | None = None


class DeclineAsk(_Admin, frozen=True, tag="decline"):
    """An owner declines an ask. To accept one, its `answers` is in the record that gives more.

    A closed dataset takes it, too.

    Attributes:
        ask: the number of the decision that took the ask.
        asker: the person who asked.
        reason: for the person, 1 to 200 characters.
        follows: as of `Amend`.
    """

    ask: int
    asker: Name
    reason: Note = ""
    follows: int | None = None


class Resolve(_Admin, frozen=True, tag="resolve"):
    """An owner ends a suspension: says what a broken reservation released beyond its maximum.

    With `claim` that is charged; with `mistaken` nothing was.

    Attributes:
        grant: the broken reservation, as of `Begin`.
        claim: what was released beyond the maximum, to be charged; or
        mistaken: why nothing was, for people.
        follows: as of `Amend`.
    """

    grant: Grant
    claim: Claim | None = None
    mistaken: str | None = None
    reason: Note = ""
    follows: int | None = None


class Approve(_Admin, frozen=True, tag="approve"):
    """An owner approves a request that waits: this decision is its grant.

    It is decided as if the request were sent now: what does not fit now is refused, and waits on.

    Attributes:
        pending: `sha256:...`, the hash of the decision `pending`.
    """

    pending: Grant
    reason: Note = ""


class Deny(_Admin, frozen=True, tag="deny"):
    """An owner denies a request that waits.

    Attributes:
        pending: as of `Approve`.
    """

    pending: Grant
    reason: Note = ""


class SetMember(_Admin, frozen=True, tag="member", rename={"as_": "as"}):
    """An owner, or an administrator, sets or removes a member of a dataset.

    The roles replace the earlier ones; without roles the member is removed. A lead adds, sets and
    removes those whose sole role is analyst, and whose team is the lead's.

    Attributes:
        member: the name; the record replaces an earlier one.
        roles: any of `owner`, `analyst`, `engine`, `auditor`, `curator`, `lead`, each once, in any
            order. `[]` removes the member.
        team: the one that they belong to in this dataset. Not with empty `roles`; needed with
            `lead`, who leads it.
        until: when the membership ends. Not with empty `roles`, and not with `owner`: an owner
            does not expire, so that a dataset always has one.
        follows: as of `Amend`.
        as_: `administrator`: an administrator of the installation acts in an owner's place. An
            HTTP server accepts it from administrators only; the decision has `administrator`.
        answers: the member's ask for one of the roles that it accepts, by its number.
    """

    member: Name
    roles: Roles
    team: Name | None = None
    until: Until | None = None
    reason: Note = ""
    follows: int | None = None
    as_: Literal["administrator"] | None = None
    answers: int | None = None


class SetLimit(_Admin, frozen=True, tag="limit"):
    """An owner sets limits: how much a scope may use, how fast, and what is reserved for it.

    With none of part, policy, pace and reserved, it removes the limit.

    Attributes:
        scope, name: `dataset`, without `name` and with `pace` alone; `team` and the team; `analyst`
            and the analyst; `each` and a team: the default of each of its analysts without an
            `analyst` limit in force (not with `reserved`).
        part: a ratio in (0, 1] of each sum of the dataset's filter, rounded down, under that
            filter's rule. Not under `gdp_residue`.
        policy: instead of `part`: a budget of its own, with fields of a policy: `filter`,
            `epsilon` or `rho`, `delta`, `delta_for_claims`, and parameters of the filter; nothing
            else. Claims have that filter's cost there.
        pace: the period limit: `part` of the dataset's budget in each `period` of `P1D` to
            `P36500D`. Not under `gdp_residue`. With `each`, each analyst has their own.
        reserved: the reserved share: a ratio in (0, 1] of each sum of the dataset's budget, which
            nobody else may use. Needs a filter of `basic`, `ex_post`, `zcdp`, `zcdp_tight`,
            `fully_adaptive`, `unified_brownian`, `renyi`, and no `beside`.
        until: when the limit ends, in the future. From then on the per-analyst default holds in its
            place, else nothing.
        follows: as of `Amend`.
        answers: the analyst's ask for a larger limit that it accepts, by its number.
    """

    scope: Scope
    name: Name | None = None
    part: Ratio | None = None
    policy: LimitPolicy | None = None
    pace: Annotated[PeriodLimit, Rule("PeriodLimit")] | None = None
    reserved: Ratio | None = None
    until: Until | None = None
    reason: Note = ""
    follows: int | None = None
    answers: int | None = None

    @property
    def removes(self) -> bool:
        """Whether it removes the limit."""
        said = (self.part, self.policy, self.pace, self.reserved)
        return all(each is None for each in said)


AdminRecord = (
    Open
    | Amend
    | Close
    | Renew
    | Pause
    | Resume
    | Label
    | Remark
    | SetBudget
    | RecordRelease
    | AskMore
    | DeclineAsk
    | Resolve
    | Approve
    | Deny
    | SetMember
    | PauseMember
    | ResumeMember
    | SetLimit
)
Body = MechanismRequest | ReservationStep | AdminRecord
