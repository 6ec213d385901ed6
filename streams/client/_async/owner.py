"""`AsyncOwner`, `AsyncAdministrator`: the calls of those who decide about datasets."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Any, Final

from accountant.claims import Claim
from accountant.errors import RequestInvalid
from accountant.policy import Access, Policy, Visibility
from accountant.questions.schema import Schema
from accountant.records import Decision
from accountant.records.asks import AskKind
from accountant.records.coerce import coerce_policy, coerce_text
from accountant.records.outcomes import Outcome, Reason
from accountant.views.datasets import DatasetView
from streams.client._async.sender import AsyncRequestSender
from streams.client.requests.admin_requests import (
    AdminContext,
    AdminRequest,
    amend_fields,
    ask_fields,
    budget_fields,
    like,
    limit_fields,
    member_fields,
    open_fields,
    record_fields,
    removed_limit_fields,
    removed_member_fields,
    renew_fields,
    resolve_fields,
)
from streams.client.requests.requests import PreparedRequest, new_id
from streams.client.requests.succession import DatasetState, Following, following
from streams.clock import Clock
from streams.errors import AccountantWarning
from streams.replies.reply import Call

_AS_IT_IS: Final = frozenset(
    {Reason.ALREADY_PAUSED, Reason.NOT_PAUSED, Reason.PERSON_ALREADY_PAUSED}
)
"""The reasons of records that have nothing to change."""


class AsyncAdministrator:
    """An administrator's calls about datasets; `as_administrator` of a client makes it.

    Each call sends one admin request, and returns the decision on it, a refusal included.

    Raises: RequestInvalid: nothing was sent. Unanswered: call again with its `request_id`.
    """

    def __init__(self, sender: AsyncRequestSender, context: AdminContext, clock: Clock) -> None:
        self._sender = sender
        self._context = context
        self._clock = clock

    def pause(self, dataset: str) -> Call[Decision]:
        """Pause a dataset: it grants nothing until it is resumed.

        Repeated requests, members, limits and amendments are decided as before. A paused dataset
        is refused as `already_paused`.
        """
        return self._send("pause", dataset)

    def resume(self, dataset: str) -> Call[Decision]:
        """Resume a paused dataset: its requests are decided again.

        A dataset that is not paused is refused as `not_paused`.
        """
        return self._send("resume", dataset)

    def set_member(
        self,
        dataset: str,
        member: str,
        *,
        roles: Sequence[str],
        team: str | None = None,
        until: str | date | datetime | None = None,
        new: bool = False,
        answers: int | None = None,
    ) -> Call[Decision]:
        """Set the roles of a member on a dataset, replacing the earlier ones.

        Args:
            roles: some of `owner`, `analyst`, `engine`, `auditor`, `curator`, `lead` (of `team`).
            team: the member's team on this dataset.
            until: when the membership expires: a day, at its start in UTC, or a time with a
                zone; not for owners.
            new: the team is meant, although it is nearly another one of the dataset.
            answers: the number of the member's ask that this accepts.

        Raises: SimilarName: the team is nearly another one, and limits would not hold for it.
        """
        fields = member_fields(member, roles=roles, team=team, until=until)
        fields["answers"] = answers
        return self._send("member", dataset, fields, new=new)

    def remove_member(self, dataset: str, member: str) -> Call[Decision]:
        """Remove a member; removing the last owner is refused (`last_owner`)."""
        return self._send("member", dataset, removed_member_fields(member))

    def pause_member(
        self,
        dataset: str,
        member: str | None = None,
        *,
        team: str | None = None,
        new: bool = False,
    ) -> Call[Decision]:
        """Pause one person or one team: they cannot ask and not begin until they are resumed.

        They still settle, void and read; membership, limits and history stay. They read the
        `reason` of `as_owner` or `as_administrator`, which must say why.

        Args:
            member: the person, who need not be a member; or
            team: the team.
            new: the name is meant, although it is nearly another one of the dataset.

        Raises: SimilarName: nobody has the name, and it is nearly a member's or a team's.
        """
        return self._send("pause_member", dataset, {"member": member, "team": team}, new=new)

    def resume_member(
        self, dataset: str, member: str | None = None, *, team: str | None = None
    ) -> Call[Decision]:
        """End the pause of one person or of one team; nothing else ends it.

        Args:
            member, team: as of `pause_member`.
        """
        return self._send("resume_member", dataset, {"member": member, "team": team})

    def _send(
        self,
        kind: str,
        dataset: str,
        fields: Mapping[str, object] | None = None,
        *,
        new: bool = False,
    ) -> Call[Decision]:
        record = AdminRequest.of(kind, dataset, fields or {}, self._context, self._clock, new=new)
        call = record.prepare()  # wrong fields raise here
        return Call(self._sender.send_record(record, call))


class AsyncOwner(AsyncAdministrator):
    """An owner's calls about datasets, with those of an administrator; `as_owner` makes it."""

    def open(
        self,
        dataset: str,
        policy: Policy | Mapping[str, Any] | None = None,
        *,
        like: str | None = None,
        owners: Sequence[str] | None = None,
        schema: Schema | Mapping[str, Any] | None = None,
        ceiling: object = None,
        lifetime: Mapping[str, object] | None = None,
        spent: Mapping[str, Any] | None = None,
        as_given: bool = False,
        new: bool = False,
    ) -> Call[Decision]:
        """Open a dataset under a policy; the first grant fixes the budget, or its ceiling.

        As with `accountant dataset open`, the policy gets defaults: a request may use at most 0.1
        of the budget (`most_per_request`; "1" means no cap), basic composition counts in addition
        to the filter (`beside`; "none" turns it off), one analyst or engine may have 1,000 open
        reservations (`open_per_holder`; 10,000 means all), and with a token only members may ask
        (`access`). A dataset that is open under this policy stays as it is, so a program can
        start with its opening each time.

        Args:
            policy: such as `{"epsilon": "1", "delta": "1e-6"}`; amounts are decimal strings.
            like: another dataset, whose limits and members it gets; without `policy` also its
                policy, schema and budget in force. Both budgets are added to each other only where
                they have one population.
            owners: the owners of the dataset; by default the caller alone. They are not compared
                with those of an open dataset, which `members` of the client shows.
            schema: what questions may name, for ever; without one, no question can be asked.
            ceiling: the most that the budget may ever be raised to, in the policy's epsilon, or
                rho. It is what the dataset guarantees, from the first day.
            lifetime: what this dataset and all that will renew it may promise together, such as
                `{"epsilon": "10", "delta": "1e-5"}`; with `"shared": True`, what all datasets of
                the policy's population may. Without one, it can never be renewed, unless its
                population has one: then it is renewed within that.
            spent: what was released before: `{"claim": "pure:0.2", "evidence": "table 3"}`, which
                the opening is charged; with `"fixed_before": True` the guarantee covers it, too:
                this budget was fixed before the first of it.
            as_given: add none of the defaults but `access`.
            new: what is asked back otherwise is meant as it is.

        Raises:
            PolicyDiffers: the dataset is open under another policy, or with another schema.
            SimilarDataset, SimilarName: it is not open, and its name, population or source is
                nearly one that is there: a misspelt one would begin a second budget.
            SecondDataset: it is not open, and another one reads the source of `schema`: a second
                budget on the same data. With authentication the server decides.
            EndsJointGuarantee: it is not open, and its population would have no joint guarantee
                any more, such as after a grant on another dataset.
            TakesFromLifetime: it is not open, and takes from the lifetime of its population.
            SourceDiffers: it is not open, and its schema does not match its source, as far as the
                server reads that.
        """
        fields = open_fields(
            policy,
            as_given=as_given,
            owners=owners,
            schema=schema,
            ceiling=ceiling,
            lifetime=lifetime,
            spent=spent,
        )
        record = AdminRequest.of("open", dataset, fields, self._context, self._clock, new=new)
        if like is None:
            return Call(self._sender.send_record(record, record.prepare()))
        # What depends on a policy that is not read yet is checked before it is sent.
        later = {"lifetime": None, "spent": None} if policy is None else {}
        call = record._replace(fields={**record.fields, **later}).prepare()
        other = coerce_text("like", like)
        return Call(self._open_like(record, call, other, is_like=policy is None))

    async def _open_like(
        self, record: AdminRequest, call: PreparedRequest, other: str, *, is_like: bool
    ) -> Decision:
        name = record.dataset
        before, opened = await self._find(other, call), await self._find(name, call)
        if before is None:
            raise RequestInvalid("like", "must be a dataset that you may see", other)
        given = like(before) if is_like else {}
        record = record._replace(fields={**record.fields, **given})
        access = _access_of(record) or before.policy.access or "anyone"
        done = opened is not None and opened.policy.access == access
        record = record._replace(fields=_with_access(record, access if done else "members"))
        decision = await self._sender.send_record(record, record.prepare())
        await self._bring_along(other, name, access, call)
        return decision

    def renew(
        self,
        dataset: str,
        renewed_as: str,
        policy: Policy | Mapping[str, Any] | None = None,
        *,
        owners: Sequence[str] | None = None,
        schema: Schema | Mapping[str, Any] | None = None,
        ceiling: object = None,
        as_given: bool = False,
    ) -> Call[Decision]:
        """Close a dataset and open its next generation, with its limits, members and access.

        The lifetime that its opening has fixed is charged what the new policy guarantees: what the
        dataset has not used does not come back. Its reservations that have begun still settle on
        it. If an answer is lost, or a limit or a member, renew again: that completes it.

        Args:
            renewed_as: the name of the next generation, in the same group.
            policy: another policy; by default that of the dataset, with its schema and the budget
                in force.
            owners: by default those of the dataset.
            schema: of the new policy; without one, no question can be asked.
            ceiling, as_given: as of `open`.

        Warns: AccountantWarning: a limit or a member was not brought along.
        """
        fields = renew_fields(
            renewed_as, policy, as_given=as_given, owners=owners, schema=schema, ceiling=ceiling
        )
        record = AdminRequest.of("renew", dataset, fields, self._context, self._clock)
        return Call(self._renew(record, record.prepare(), is_like=policy is None))

    async def _renew(
        self, record: AdminRequest, call: PreparedRequest, *, is_like: bool
    ) -> Decision:
        old, new = record.dataset, str(record.fields["renewed_as"])
        before = await self._find(old, call)
        if is_like and before is None:
            raise RequestInvalid("dataset", "must be a dataset that you may see", old)
        access: Access = "anyone" if before is None else before.policy.access or "anyone"
        if is_like and before is not None:
            record = record._replace(fields={**record.fields, **like(before)})
            call = record.prepare()
        elif not is_like:
            access = _access_of(record) or access
        decision = await self._sender.send_record(record, call)
        after = await self._find(old, call)
        if after is not None and after.renewed_as == new:
            await self._bring_along(old, new, access, call)
        return decision

    async def _bring_along(self, old: str, new: str, access: Access, call: PreparedRequest) -> None:
        one, other = await self._state(old, call), await self._state(new, call)
        if one is None or other is None:
            return
        for each in following(one, other, access, self._clock.now()):
            decision = await self._send_following(each, other.view, each.id_after(other.view))
            is_late = decision.outcome is Outcome.EXPIRED and each.may_be_sent_late
            if is_late and not other.view.totals.get("mechanisms"):
                decision = await self._send_following(each, other.view, new_id(self._clock))
            if decision.outcome.is_refusal or decision.outcome is Outcome.EXPIRED:
                why = decision.reason or decision.outcome
                if why not in _AS_IT_IS:
                    text = f"{each.what} of {old} was not brought along to {new}: {why}"
                    warnings.warn(text, AccountantWarning, 4)

    async def _send_following(
        self, each: Following, opened: DatasetView, request_id: str
    ) -> Decision:
        reason = str(each.fields.get("reason", self._context.reason))
        context = self._context._replace(request_id=request_id, follows=None, reason=reason)
        record = AdminRequest.of(
            each.kind, opened.dataset, each.fields, context, self._clock, new=True
        )
        return await self._sender.send_record(record, record.prepare())

    async def _find(self, dataset: str, call: PreparedRequest) -> DatasetView | None:
        wait = self._context.wait
        return await self._sender.look_up(lambda service: service.dataset(dataset), call, wait)

    async def _state(self, dataset: str, call: PreparedRequest) -> DatasetState | None:
        view = await self._find(dataset, call)
        if view is None:
            return None
        wait = self._context.wait
        members = await self._sender.look_up(lambda service: service.members(dataset), call, wait)
        limits = await self._sender.look_up(lambda service: service.levels(dataset), call, wait)
        return DatasetState(view, members, limits)

    def amend(
        self,
        dataset: str,
        *,
        alert_at: Sequence[object] | None = None,
        horizon: str | None = None,
        most_per_request: object = None,
        policy: Policy | Mapping[str, Any] | None = None,
        as_given: bool = False,
        access: Access | None = None,
        visibility: Visibility | None = None,
        open_per_holder: int | None = None,
        approve_above: object = None,
        approve_within: str | None = None,
    ) -> Call[Decision]:
        """Change thresholds, horizon, cap or access; before any grant, also lower the budget.

        Args:
            alert_at: ratios of the budget, increasing, such as `["0.5", "0.9"]`; None
                changes nothing, here and in the others.
            horizon: how long the budget is to last, such as `P365D`.
            most_per_request: the largest ratio of the budget for one request.
            access: `members` may ask, or `anyone`.
            visibility: an analyst sees `own` decisions, or those of all `members`.
            open_per_holder: the most open reservations of one analyst or engine; 0: no limit.
            approve_above: a request above this ratio of the budget waits until an owner approves
                it; 1: none waits.
            approve_within: how long it may wait, `P1D` to `P30D`; together with `approve_above`.
            policy: the whole policy with a lower budget, and no other argument; refused after
                the first grant. It gets the defaults of `open`.
            as_given: add no defaults.
        """
        fields = amend_fields(
            alert_at=alert_at,
            horizon=horizon,
            most_per_request=most_per_request,
            policy=policy,
            as_given=as_given,
            access=access,
            visibility=visibility,
            open_per_holder=open_per_holder,
            approve_above=approve_above,
            approve_within=approve_within,
        )
        return self._send("amend", dataset, fields)

    def close(self, dataset: str) -> Call[Decision]:
        """Close a dataset: it grants nothing more."""
        return self._send("close", dataset)

    def ask_for_more(
        self,
        dataset: str,
        wants: AskKind,
        *,
        role: str | None = None,
        part: object = None,
        epsilon: object = None,
        rho: object = None,
        team: str | None = None,
    ) -> Call[Decision]:
        """Ask a dataset's owners for more; the reason is that of the calls.

        Args:
            wants: `access`, with `role`; `limit`, with `part`, `epsilon` or `rho`; or `budget`,
                with `epsilon` or `rho`.
            team: with `limit`, the person's own team, whose limit it is.

        Raises: PassedOnToOwners: the caller does not see the dataset, or there is none.
        """
        return self._send("more", dataset, ask_fields(wants, role, part, epsilon, rho, team))

    def decline(self, dataset: str, ask: int, asker: str) -> Call[Decision]:
        """Decline an ask for more; the reason of the calls is for the person who asked.

        To accept one, pass its number as `answers` to `set_member`, `set_limit` or `set_budget`.

        Args:
            ask: its number, of `asks`. `asker`: the person who asked.
        """
        return self._send("decline", dataset, {"ask": ask, "asker": asker})

    def set_budget(
        self,
        dataset: str,
        *,
        epsilon: object = None,
        rho: object = None,
        answers: int | None = None,
    ) -> Call[Decision]:
        """Set the budget in force, at most the ceiling of the opening; it stays the guarantee.

        A raise lets more requests in. A smaller budget stops grants, and promises nothing less.

        Args:
            epsilon, rho: a decimal string; the one that the policy has.
            answers: the number of the ask that this accepts.
        """
        fields = budget_fields(epsilon, rho) | {"answers": answers}
        return self._send("budget", dataset, fields)

    def label(self, dataset: str, text: str) -> Call[Decision]:
        """Say in a public text what a dataset is; an empty text removes it.

        Everybody who may see the dataset sees it. A closed dataset takes it, too.

        Args:
            text: for people, at most 200 characters; it replaces an earlier one.
        """
        return self._send("label", dataset, {"label": text})

    def remark(self, dataset: str, decision: int, text: str) -> Call[Decision]:
        """Say something public about a decision; nothing is charged or returned.

        Everybody who may see the dataset sees the text, for ever. A closed dataset takes it, too.

        Args:
            decision: its number in the dataset, `sequence` of a decision.
            text: for people, 1 to 200 characters; earlier remarks stay beside it.
        """
        return self._send("remark", dataset, {"decision": decision, "remark": text})

    def record(
        self,
        dataset: str,
        claim: str | Claim | Mapping[str, Any],
        *,
        released_at: str | date | datetime,
        evidence: str,
        team: str | None = None,
        evidence_hash: str | None = None,
        new: bool = False,
    ) -> Call[Decision]:
        """Charge a release that was made about the data elsewhere, without a request.

        No cap, limit, pause or suspension refuses it. What fits the budget is charged, and the
        guarantee then holds if its size was bounded before anything was released. What does not
        fit leaves no guarantee (`guarantee` of the decision is `void`), for ever. Reserved shares
        that it leaves no room for are cut, the newest first.

        Args:
            claim: what was released; several releases are one `all_of`.
            released_at: a day, at its start in UTC, or a time with a zone.
            evidence: what says so, 1 to 200 characters; everybody who may see the dataset sees
                it, for ever.
            team: by which team; its limits count the release.
            evidence_hash: `sha256:...` of a document that says so.
            new: as of `set_member`.

        Raises: SimilarName: the team is nearly another one, whose limits would not count it.
        """
        fields = record_fields(claim, released_at, evidence, team, evidence_hash)
        return self._send("record", dataset, fields, new=new)

    def resolve(
        self,
        dataset: str,
        grant: str,
        *,
        claim: str | Claim | Mapping[str, Any] | None = None,
        mistaken: str | None = None,
    ) -> Call[Decision]:
        """End a suspension: say what a reservation released beyond its maximum.

        Args:
            grant: the broken reservation: the hash of its decision `reserved`.
            claim: what was released beyond the maximum; it is charged to the dataset. Or
            mistaken: why nothing was, at most 200 characters; nothing is charged.
        """
        return self._send("resolve", dataset, resolve_fields(grant, claim, mistaken))

    def approve(self, dataset: str, pending: str) -> Call[Decision]:
        """Approve a request that waits: the decision is its grant.

        It is decided as if it were sent now; what does not fit now is refused, and waits on.

        Args:
            pending: the hash of its decision `pending`, see `pending` of a ledger.
        """
        return self._send("approve", dataset, {"pending": pending})

    def deny(self, dataset: str, pending: str) -> Call[Decision]:
        """Deny a request that waits; the analyst sees the owner's `reason`.

        Args:
            pending: as of `approve`.
        """
        return self._send("deny", dataset, {"pending": pending})

    def set_limit(
        self,
        dataset: str,
        scope: str,
        name: str | None = None,
        *,
        part: object = None,
        policy: Mapping[str, Any] | None = None,
        pace: tuple[object, str] | None = None,
        reserved: object = None,
        until: object = None,
        new: bool = False,
        answers: int | None = None,
    ) -> Call[Decision]:
        """Set a limit on the use of a budget, replacing the earlier one.

        Args:
            scope: `team`, `analyst`, `each` (every analyst of a team without a limit of their
                own) or `dataset`, which allows only a pace.
            name: the team or the analyst.
            part: a ratio of each sum of the dataset's budget.
            policy: instead of `part`, a filter and budget of its own.
            pace: a ratio of the dataset's budget and a period: `("0.01", "P1D")`.
            reserved: a ratio of the dataset's budget that nobody else may use.
            until: when the limit ends: a day, which begins in UTC, or a time with its zone. From
                then on the per-analyst default holds in its place, else nothing.
            new: the name is meant, although it is nearly another one of the dataset.
            answers: the number of the analyst's ask that this accepts.

        Raises: SimilarName: the team is nearly another one, and the limit would not hold for it.
        Warns: AccountantWarning: no member is in the team, whose name may be misspelt.
        """
        fields = limit_fields(
            scope, name, part=part, policy=policy, pace=pace, reserved=reserved, until=until
        )
        return self._send("limit", dataset, fields | {"answers": answers}, new=new)

    def remove_limit(self, dataset: str, scope: str, name: str | None = None) -> Call[Decision]:
        """Remove a limit with its pace and its reserved share; the usage stays counted.

        Args:
            scope, name: as of `set_limit`.
        """
        return self._send("limit", dataset, removed_limit_fields(scope, name))


def _access_of(record: AdminRequest) -> Access | None:
    """Return the access that the policy of a record names."""
    return coerce_policy(record.fields["policy"]).get("access") or None


def _with_access(record: AdminRequest, access: Access) -> dict[str, object]:
    """Return the fields of an opening with another access."""
    policy = coerce_policy(record.fields["policy"])
    return {**record.fields, "policy": {**policy, "access": access}}
