"""`AsyncAccountant`: a ledger for programs with an event loop."""

from __future__ import annotations

import os
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import date, datetime
from functools import wraps
from typing import Any, Final, ParamSpec, Self, TypeVar, cast, get_args
from uuid import UUID

import msgspec
from msgspec import UNSET

from accountant.advice.preview import Preview
from accountant.claims import Claim
from accountant.errors import RequestInvalid
from accountant.policy import Access, Neighbours, Policy, Visibility
from accountant.records import Decision, decode_decision
from accountant.records.coerce import coerce_id, coerce_seconds, coerce_text, optional_text
from accountant.records.http_bodies import Me
from accountant.records.members import Member
from accountant.records.previews import preview_request_of
from accountant.views.datasets import Alert, DatasetView
from accountant.views.heads import Head
from accountant.views.limit_views import AnalystBudget, LevelView
from accountant.views.overview import Overview
from accountant.views.usage import By, UsageRow, UsageView
from accountant.views.why import Why
from streams.client.admin_requests import (
    AdminRequest,
    amend_fields,
    check_same_policy,
    is_already_open,
    limit_fields,
    member_fields,
    open_fields,
)
from streams.client.async_sender import AsyncRequestSender
from streams.client.connect import client_settings
from streams.client.connection import AsyncConnection
from streams.client.grants import (
    PER_CALL_ARGUMENTS,
    TAGGED_JSON,
    AsyncGrant,
    Codec,
    Release,
    check_run_and_codec,
    check_shared_arguments,
    parse_once,
)
from streams.client.lookups import (
    UnitAndNeighbours,
    get_budget,
    get_budgets,
    get_ledger_id,
    get_me,
    get_ordered_before,
    missing_fields,
    own_name,
)
from streams.client.reply import Call, Reply, awaitable_call
from streams.client.request_notes import NOT_SENT, noting_errors
from streams.client.requests import (
    PLACEHOLDER_NAME,
    PreparedRequest,
    RequestDraft,
    ScopedClaim,
    default_analyst,
    draft_request,
    new_id,
    prepare_body,
)
from streams.client.results.store import ResultStore
from streams.client.retry import CONNECT_S, WAIT_S
from streams.clock import Clock, SystemClock
from streams.errors import AccountantWarning
from streams.settings import Settings

T = TypeVar("T")
Parameters = ParamSpec("Parameters")

_PREVIEW_NAME: Final = "preview"  # is not sent
_USUAL_UNIT: Final[UnitAndNeighbours] = ("person", "add_remove")
_PAGE: Final = 500  # decisions


class AsyncAccountant:
    """A ledger, for programs with an event loop; use it as an `async with` context.

    Outcomes are values: a refusal is a `Reply` with a reason, and `fits` says what would
    still be granted. Raised are RequestInvalid or Undecodable (nothing was sent),
    Unavailable (ask again with the same request_id), and Refused (someone must act).

    With a sqlite URL the ledger runs in this process, unless another process holds the file
    and answers at an address; clients of one process that open the same file share it. A file
    that does not exist is made by the first opening of a dataset, and by nothing else. A fork
    inherits no client: it makes its own.

    Args:
        url: `sqlite:///accountant.db`, `http://host:port` or `kafka://host:port`; without it
            `ACCOUNTANT_URL`, or the first of these. A relative path is one in the directory
            that is the current one when the client is made.
        token: sent to the server at the address, and nowhere else; without it
            `ACCOUNTANT_TOKEN`, or what is in the file `ACCOUNTANT_TOKEN_FILE`. A file that is
            opened here and Kafka ask for none.
        analyst: the name in requests that give none; without it `ACCOUNTANT_ANALYST`, and with
            a token the name that the server knows it by.
        via: the engine that asks for the analyst, where a call names none.
        settings: all of them, instead of those in the environment.
        wait: seconds to wait for a connection to Kafka, at least 2, or for a file that another
            process holds without an address.
        read_only: read a file beside its owner, whoever that is, without a lock and without a
            byte written; what would be written is refused.

    Attributes:
        settings, url, analyst, via: as given.
        clock: dates request ids.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        token: str | None = None,
        analyst: str | None = None,
        via: str | None = None,
        settings: Settings | None = None,
        clock: Clock | None = None,
        wait: float = CONNECT_S,
        read_only: bool = False,
    ) -> None:
        self.settings = client_settings(url, token, settings)
        self.url = self.settings.url
        self.analyst = optional_text("analyst", analyst)
        self.via = optional_text("via", via)
        self.clock = clock or SystemClock()
        self._unit_and_neighbours: dict[str, UnitAndNeighbours] = {}
        self._ledger_id = ""
        self._connection = AsyncConnection(
            self.settings, self.clock, wait=coerce_seconds("wait", wait), read_only=read_only
        )
        self._sender = AsyncRequestSender(self._connection)

    async def __aenter__(self) -> Self:
        await self._connection.connect()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.disconnect()

    @awaitable_call
    async def disconnect(self) -> None:
        """Close the connection to the ledger; in a fork, nothing."""
        await self._connection.close()

    @awaitable_call
    async def close(self, *dataset: object, **rest: object) -> None:
        """Close the connection, as `disconnect`. A dataset is closed by `close_dataset`."""
        if dataset or rest:
            raise TypeError(
                "close() closes the client and takes nothing: a dataset is closed by "
                "close_dataset(name, by=...)"
            )
        await self.disconnect()

    def _repr_html_(self) -> str:
        return self._connection.html()

    @property
    def shows_token(self) -> bool:
        """Whether the client sends a token to the ledger's server."""
        return self._connection.shows_token

    @awaitable_call
    async def datasets(self) -> list[DatasetView]:
        """Return every dataset, by name."""
        return await self._connection.read(lambda service: service.datasets())

    @awaitable_call
    async def dataset(self, name: str) -> DatasetView | None:
        """Return one dataset, None if it was never opened."""
        name = coerce_text("name", name)
        return await self._connection.read(lambda service: service.dataset(name))

    @awaitable_call
    async def ordered_before(self) -> int | None:
        """Return before which time the times of decisions say their order, in milliseconds.

        To be called after `datasets`; None where they never do.
        """
        return await self._connection.read(get_ordered_before)

    @awaitable_call
    async def heads(self) -> list[Head]:
        """Return the end of each partition's log.

        Stored where whoever runs the ledger cannot change them, they show later that nothing was
        cut off or rewritten: `accountant audit --head`, and `--checkpoints` for signed ones.
        """
        return await self._connection.read(lambda service: service.heads())

    @awaitable_call
    async def members(self, dataset: str) -> list[Member]:
        """Return a dataset's members by name, those whose time is over among them.

        A server shows all to owners, auditors and administrators; to others themselves alone.
        """
        dataset = coerce_text("dataset", dataset)
        return await self._connection.read(lambda service: service.members(dataset))

    @awaitable_call
    async def limits(self, dataset: str) -> list[LevelView]:
        """Return a dataset's limits that are in force, by scope and name, with what is used.

        A server shows all to owners, auditors and administrators; to others those that apply to
        them.
        """
        dataset = coerce_text("dataset", dataset)
        return await self._connection.read(lambda service: service.levels(dataset))

    @awaitable_call
    async def budget(self, dataset: str, analyst: str | None = None) -> AnalystBudget:
        """Return what an analyst may still use of a dataset: its rest, and each limit.

        Args:
            analyst: without it the client's own, or the name that the server knows it by.
        Raises: RequestInvalid: no name is known, or the dataset was never opened.
        """
        dataset = coerce_text("dataset", dataset)
        name = optional_text("analyst", analyst) or default_analyst(self.analyst)
        return await self._connection.read(lambda service: get_budget(service, dataset, name))

    @awaitable_call
    async def budgets(self, analyst: str | None = None) -> list[AnalystBudget]:
        """Return what an analyst may still use, dataset by dataset; closed ones are left out.

        A server answers for the token's own name; for others, on the datasets of which the token
        sees all. Of a file or on Kafka, every dataset is there.

        Raises:
            RequestInvalid: no name is known.
            NotPermitted: another's, and there is no dataset of which the token sees all.
        """
        name = optional_text("analyst", analyst) or default_analyst(self.analyst)
        return await self._connection.read(lambda service: get_budgets(service, name))

    @awaitable_call
    async def me(self) -> Me:
        """Return who this client is to the ledger; nobody in a file and on Kafka.

        Raises: Unauthenticated: the server wants a token, or does not know this one.
        """
        return await self._connection.read(get_me)

    @awaitable_call
    async def usage(self, dataset: str) -> list[UsageView]:
        """Return who used a dataset, by analyst, since its log began.

        Raises: Unavailable: the index of usage is still behind; ask again.
        """
        dataset = coerce_text("dataset", dataset)
        return await self._connection.read(lambda service: service.usage(dataset))

    @awaitable_call
    async def usage_by(self, dataset: str, by: By) -> list[UsageRow]:
        """Return who used a dataset, by analyst, purpose, day or month, in the order of the keys.

        Raises:
            NotPermitted: by other than the analyst, and a server hides what others ask.
            Unavailable: the index of usage is still behind; ask again.
        """
        dataset = coerce_text("dataset", dataset)
        if by not in get_args(By):
            raise RequestInvalid("by", f"must be one of {', '.join(get_args(By))}", by)
        return await self._connection.read(lambda service: service.usage_by(dataset, by))

    @awaitable_call
    async def overview(self, dataset: str) -> Overview | None:
        """Return all that is shown of a dataset: what its page has. None if it was never opened.

        A server shows each part as to whom the token stands for; a file and Kafka show all.
        """
        dataset = coerce_text("dataset", dataset)
        return await self._connection.read(lambda service: service.overview(dataset, None))

    @awaitable_call
    async def why(self, dataset: str, *, analyst: str | None = None) -> Why | None:
        """Return who used a dataset, for what and when, and how much longer it lasts.

        Forecasts are arithmetic about the past, and promise nothing. None if it was never opened.

        Args:
            analyst: whose row and forecast are included however little they spent; a server shows
                callers who may not see everybody's requests their own alone.
        Raises: Unavailable: the index of usage is still behind; ask again.
        """
        dataset, analyst = coerce_text("dataset", dataset), optional_text("analyst", analyst)
        return await self._connection.read(lambda service: service.why(dataset, analyst=analyst))

    @awaitable_call
    async def decision(self, dataset: str, analyst: str, request_id: str) -> Decision | None:
        """Return the decision on a request of the last hour, None if it is not known.

        Older ones are in the log: `accountant log export --id`.
        """
        dataset = coerce_text("dataset", dataset)
        analyst = coerce_text("analyst", analyst)
        request_id = coerce_text("request_id", request_id)
        found = await self._connection.read(
            lambda service: service.find(dataset, analyst, request_id)
        )
        if found is None:
            return None
        decision = decode_decision(found)
        self._sender.matching.check_lookup(dataset, analyst, request_id, decision)
        return decision

    async def requests(self, dataset: str, *, after: int = 0) -> AsyncIterator[Decision]:
        """Yield the decisions on a dataset in the order of their numbers, to the last one.

        A decision without a number in the dataset, such as a repeat, is not among them.

        Args:
            after: the number of a decision in the dataset: those after it alone.
        Raises: Gone: the next one is in an archive. Unavailable: the index is behind; resume from
            the last one.
        """
        while found := await self._page(dataset, after):
            for decision in found:
                yield decision
            after = found[-1].sequence or after

    async def _page(self, dataset: str, after: int) -> list[Decision]:
        dataset = coerce_text("dataset", dataset)
        found = await self._connection.read(
            lambda service: service.decisions(dataset, after=after, limit=_PAGE)
        )
        return [decode_decision(value) for value in found]

    def events(self) -> AsyncIterator[Decision]:
        """Yield decisions as they become visible, from now on.

        Through a gateway a stream that is cut resumes where it ended: nothing is lost or comes
        twice. In process, a reader that is too slow loses the oldest.

        Raises: Unavailable: the gateway stays away. Gone: the stream ended so long ago that the
            rest is to be read with `requests`.
        """
        return self._connection.stream(lambda service: service.events())

    def alerts(self) -> AsyncIterator[Alert]:
        """Yield thresholds as they are crossed; `datasets` and `limits` show earlier ones."""
        return self._connection.stream(lambda service: service.alerts())

    def cost(
        self,
        dataset: str,
        claim: str | Claim | ScopedClaim | Mapping[str, Any],
        *,
        analyst: str | None = None,
        unit: str | None = None,
        neighbours: Neighbours | None = None,
        via: str | None = None,
        wait: float = WAIT_S,
    ) -> Call[Preview]:
        """Return what a request would get now: granted or not, its cost, what would remain.

        Nothing is written or charged. The arguments are those of `ask`; the role and the limits of
        the analyst count, where one is known.

        Raises: RequestInvalid: also where the dataset was never opened.
        """
        wait = coerce_seconds("wait", wait)
        name = optional_text("analyst", analyst) or default_analyst(self.analyst)
        draft = self._draft(dataset, claim, name or _PREVIEW_NAME, "", unit, neighbours, None, via)
        return Call(self._cost(draft, name, wait))

    async def _cost(self, draft: RequestDraft, name: str | None, wait: float) -> Preview:
        call = await self._prepare(draft, wait)
        # With a token and no analyst, the server fills in the name.
        asked = preview_request_of(call.body)
        asked = msgspec.structs.replace(asked, analyst=name, via=asked.via if name else UNSET)
        found = await self._connection.read(lambda service: service.preview(draft.dataset, asked))
        if found is None:
            raise RequestInvalid("dataset", "must have been opened", draft.dataset)
        return found

    def new_request_id(self) -> str:
        """Return a new request id, to be stored before asking: a UUIDv7 of this moment."""
        return new_id(self.clock)

    def ask(
        self,
        dataset: str,
        claim: str | Claim | ScopedClaim | Mapping[str, Any],
        *,
        analyst: str | None = None,
        purpose: str = "",
        unit: str | None = None,
        neighbours: Neighbours | None = None,
        request_id: str | UUID | None = None,
        via: str | None = None,
        wait: float = WAIT_S,
    ) -> Call[Reply]:
        """Ask to run one mechanism on a dataset; read `granted` of the reply.

        `grant` and `release` do the same and raise where nothing is granted.

        Args:
            dataset: its name.
            claim: what the mechanism promises, as text (`gaussian:sigma=20,sensitivity=1`),
                as a value of `accountant.claims`, as a dict of the wire, or as an engine's
                adapter states it. Amounts are taken exactly, or refused with how to write them.
            analyst: the name in the request; without it the client's own, which with a token is
                by default the name that the server knows it by.
            purpose: for people, at most 200 characters.
            unit, neighbours: what the promise is for; those of the dataset's policy where they
                are not given.
            request_id: of an earlier call, to ask again; without it a new one.
            via: the name of the engine that asks for the analyst, the token's own: it needs the
                role `engine`, and the analyst must be named.
            wait: seconds to wait for the decision, retries included; a call that is under way
                then takes at most about two more.
        Raises: RequestInvalid, Unanswered (its `request_id` is to ask again with), Refused.
        """
        wait = coerce_seconds("wait", wait)
        draft = self._draft(dataset, claim, analyst, purpose, unit, neighbours, request_id, via)
        return Call(self._ask(draft, wait))

    async def _ask(self, draft: RequestDraft, wait: float) -> Reply:
        return await self._sender.reply_to(await self._prepare(draft, wait), wait)

    def submit(self, body: bytes, *, wait: float = WAIT_S) -> Call[Decision]:
        """Send a body of your own, a request or an admin record; retries send the same bytes."""
        wait = coerce_seconds("wait", wait)
        if not isinstance(body, bytes | bytearray | memoryview):
            raise RequestInvalid("body", "must be bytes", body)
        return Call(self._submit(prepare_body(bytes(body)), wait))

    async def _submit(self, call: PreparedRequest, wait: float) -> Decision:
        reply = await self._sender.reply_to(call, wait)
        return reply.decision

    def grant(
        self,
        dataset: str,
        claim: str | Claim | ScopedClaim | Mapping[str, Any],
        *,
        analyst: str | None = None,
        purpose: str = "",
        unit: str | None = None,
        neighbours: Neighbours | None = None,
        request_id: str | UUID | None = None,
        via: str | None = None,
        wait: float = WAIT_S,
    ) -> AsyncGrant:
        """Ask, and enter the `with` only where the mechanism may run: once, within it.

        The arguments are those of `ask`. What is within it runs for this grant alone: `release`
        is for an answer that a retry is to get again.

        Raises: NotGranted: on entry. Unanswered: whether it is granted is unknown.
        """
        wait = coerce_seconds("wait", wait)

        async def ask() -> tuple[RequestDraft, Reply]:
            draft = self._draft(dataset, claim, analyst, purpose, unit, neighbours, request_id, via)
            return draft, await self._ask(draft, wait)

        return AsyncGrant(ask)

    @awaitable_call
    async def release(
        self,
        dataset: str,
        claim: str | Claim | ScopedClaim | Mapping[str, Any],
        run: Callable[[], T | Awaitable[T]],
        *,
        analyst: str | None = None,
        purpose: str = "",
        unit: str | None = None,
        neighbours: Neighbours | None = None,
        request_id: str | UUID | None = None,
        via: str | None = None,
        wait: float = WAIT_S,
        store: ResultStore | str | os.PathLike[str] | None = None,
        codec: Codec = TAGGED_JSON,
        once: str | None = None,
    ) -> T:
        """Ask, run the mechanism once, and return its answer, to every retry the same.

        The answer is stored before it is returned. Called again with the same name (`once`) or
        the same `request_id`, it returns the stored answer and charges nothing. Two calls without
        either are two requests.

        Args:
            once: a name for the answer, such as "age-by-district", for programs that run again:
                in this store it stands for this claim on this dataset, of this analyst and
                ledger: a file by whatever path, a gateway by its address as given, and of both
                the ledger's own id, since another may be made there. It excludes `request_id`.
            run: draws the answer; it is called at most once for a grant, unless it ended
                without an answer that anybody has seen. What it shows itself is shown. The client
                for event loops also takes an asynchronous one, and runs any other in a thread.
            store: of answers, or the path of its file; see `ResultStore`.
            codec: how answers become bytes, for other types than `encode_result` takes; nothing
                is pickled.
            The others are those of `ask`; `wait` also for another's run of the same grant.
        Returns: the answer as it is stored.

        Raises:
            NotGranted: nothing ran. Unanswered: release again with its `request_id`.
            ResultMissing: granted before, and no answer is stored here: nothing runs again.
            StillRunning: another process runs it.
            NameTaken: `once` stands for another claim, or for an answer of another ledger that
                was at this address before; nothing was asked or charged.
        Warns: AccountantWarning: the answer cannot be stored. It is returned, this once; where
            warnings are errors, nobody gets it, and it may run again.
        """
        check_run_and_codec(run, codec, awaited=True)
        name = parse_once(once, request_id)
        wait = coerce_seconds("wait", wait)
        draft = self._draft(dataset, claim, analyst, purpose, unit, neighbours, request_id, via)
        results = store if isinstance(store, ResultStore) else ResultStore(store)
        call = await self._prepare(draft, wait)
        release = Release(results, call, codec, self.url, wait, name)
        with release.noting_errors():
            if (repeated := await self._connection.run(release.repeat_warning)) is not None:
                warnings.warn(repeated, AccountantWarning, stacklevel=2)
            ledger_id = "" if name is None else await self._ledger()
            stored = await self._connection.run(release.record_request, ledger_id)
            if stored is not None:
                return cast("T", release.decode_result(stored))
            reply = await self._sender.reply_to(release.call, wait)
            return cast("T", await release.run_async(reply, run))

    def released(
        self, dataset: str, claim: str | Claim | ScopedClaim | Mapping[str, Any], **shared: Any
    ) -> Callable[[Callable[Parameters, Awaitable[T]]], Callable[Parameters, Call[T]]]:
        """Return a decorator: each call of the function is a `release` of its own.

        Args:
            shared: further arguments of `release`, but for `once` and `request_id`: a call of the
                function takes those, since its answer is one of its own.
        Raises: RequestInvalid: `shared` has one of these.
        """
        check_shared_arguments(shared)

        def decorate(function: Callable[Parameters, Awaitable[T]]) -> Callable[Parameters, Call[T]]:
            @wraps(function)
            def call(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Call[T]:
                own: dict[str, Any] = {key: kwargs.pop(key, None) for key in PER_CALL_ARGUMENTS}

                async def run() -> T:
                    return await function(*args, **kwargs)

                return self.release(dataset, claim, run, **own, **shared)

            return call

        return decorate

    def open(
        self,
        dataset: str,
        policy: Policy | Mapping[str, Any],
        *,
        by: str | None = None,
        owners: Sequence[str] | None = None,
        as_given: bool = False,
        reason: str = "",
        request_id: str | UUID | None = None,
        wait: float = WAIT_S,
    ) -> Call[Decision]:
        """Open a dataset under a policy; the budget is fixed from the first grant on.

        The policy is the one of `accountant dataset open`: where it names none, no request may
        take more than 0.1 of the budget (`most_per_request`, "1" is none), basic composition
        counts beside the filter (`beside`, "none" is none), and with a token members alone may
        ask (`access`). A dataset that is open under this policy is left as it is, so that a
        program may begin with its opening each time.

        Args:
            policy: such as `{"epsilon": "1", "delta": "1e-6"}`; amounts are decimal strings.
            by: the owner's name, in this and the calls below; with a token by default the name
                that the server knows it by.
            owners: who may decide about it from then on; without them `by` alone. A dataset that
                is open keeps its own, which are not compared: `members` shows them.
            as_given: neither the cap nor basic composition is proposed.
        Raises: PolicyDiffers: the dataset was opened under another policy.
        """
        fields = open_fields(policy, as_given=as_given, owners=owners, reason=reason)
        return self._record("open", dataset, fields, by, request_id, wait)

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
        follows: int | None = None,
        by: str | None = None,
        reason: str = "",
        request_id: str | UUID | None = None,
        wait: float = WAIT_S,
    ) -> Call[Decision]:
        """Change thresholds, horizon, cap or access; or, before any grant, lower the budget.

        Args:
            alert_at: ratios of the budget, increasing, such as `["0.5", "0.9"]`; None keeps
                those there are, as it does for the others.
            horizon: how long the budget is to last, such as `P365D`.
            most_per_request: the most that one request may take, a ratio.
            access: who may ask, `members` or `anyone`.
            visibility: whose decisions an analyst sees, `own` or `members`.
            policy: the whole policy with a lower budget, and nothing beside it; refused once
                anything was granted. What it does not name is proposed, as by `open`.
            as_given: nothing is proposed.
            follows: in this and the calls below, the number (`sequence`) of the dataset's last
                decision; refused as `out_of_date` if another one has come since.
        """
        fields = amend_fields(
            alert_at=alert_at,
            horizon=horizon,
            most_per_request=most_per_request,
            policy=policy,
            as_given=as_given,
            access=access,
            visibility=visibility,
            follows=follows,
            reason=reason,
        )
        return self._record("amend", dataset, fields, by, request_id, wait)

    def close_dataset(
        self,
        dataset: str,
        *,
        follows: int | None = None,
        by: str | None = None,
        reason: str = "",
        request_id: str | UUID | None = None,
        wait: float = WAIT_S,
    ) -> Call[Decision]:
        """Close a dataset: nothing more is granted."""
        fields = {"reason": reason, "follows": follows}
        return self._record("close", dataset, fields, by, request_id, wait)

    def set_member(
        self,
        dataset: str,
        member: str,
        *,
        roles: Sequence[str],
        team: str | None = None,
        until: str | date | datetime | None = None,
        as_administrator: bool = False,
        follows: int | None = None,
        by: str | None = None,
        reason: str = "",
        request_id: str | UUID | None = None,
        wait: float = WAIT_S,
    ) -> Call[Decision]:
        """Set what a member may do on a dataset, in place of what was set before.

        Args:
            roles: some of `owner`, `analyst`, `engine`, `auditor`.
            team: the one that the member belongs to in this dataset.
            until: the first moment at which it is over: a day, which begins in UTC, or a time
                with its zone; an owner has none.
            as_administrator: an administrator's help, not an owner's word; a server takes it from
                its administrators alone.
        """
        fields = member_fields(
            member,
            roles=roles,
            team=team,
            until=until,
            as_administrator=as_administrator,
            follows=follows,
            reason=reason,
        )
        return self._record("member", dataset, fields, by, request_id, wait)

    def remove_member(
        self,
        dataset: str,
        member: str,
        *,
        as_administrator: bool = False,
        follows: int | None = None,
        by: str | None = None,
        reason: str = "",
        request_id: str | UUID | None = None,
        wait: float = WAIT_S,
    ) -> Call[Decision]:
        """Take all roles from a member; the last owner stays (`last_owner`)."""
        return self.set_member(
            dataset,
            member,
            roles=(),
            as_administrator=as_administrator,
            follows=follows,
            by=by,
            reason=reason,
            request_id=request_id,
            wait=wait,
        )

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
        follows: int | None = None,
        by: str | None = None,
        reason: str = "",
        request_id: str | UUID | None = None,
        wait: float = WAIT_S,
    ) -> Call[Decision]:
        """Set a limit on the use of a budget, in place of what was set before.

        With none of part, policy, pace and reserved, the limit is removed.

        Args:
            scope: `team`, `analyst`, `each` (every analyst of a team without a limit of their
                own) or `dataset`, which takes a pace alone.
            name: the team or the analyst.
            part: a ratio of each sum of the dataset's budget.
            policy: instead, filter and budget of its own.
            pace: a ratio of the dataset's budget and the period that it is for: `("0.01", "P1D")`.
            reserved: a ratio of the dataset's budget that nobody else may use.
        """
        fields = limit_fields(
            scope,
            name,
            part=part,
            policy=policy,
            pace=pace,
            reserved=reserved,
            follows=follows,
            reason=reason,
        )
        return self._record("limit", dataset, fields, by, request_id, wait)

    def _record(
        self,
        kind: str,
        dataset: str,
        fields: Mapping[str, object],
        by: str | None,
        request_id: str | UUID | None,
        wait: float,
    ) -> Call[Decision]:
        if by is None and not self.shows_token:
            raise RequestInvalid("by", "must be given, or a token that the door knows", None)
        sent_id = new_id(self.clock) if request_id is None else coerce_id(request_id)
        record = AdminRequest(kind, dataset, fields, sent_id, fresh=request_id is None)
        call = record.prepare(PLACEHOLDER_NAME if by is None else by)  # wrong fields raise here
        return Call(self._send_record(record, call, by, coerce_seconds("wait", wait)))

    async def _send_record(
        self, record: AdminRequest, call: PreparedRequest, by: str | None, wait: float
    ) -> Decision:
        access: Access | None = None
        with noting_errors(call, NOT_SENT):
            if call.opens and self.shows_token:
                me = await self._sender.look_up(get_me, call, wait)
                access = "members" if me.authentication else None
            if by is None:
                by = await self._sender.look_up(lambda service: own_name(service, "by"), call, wait)
            if access is not None or by != call.caller:
                call = record.prepare(by, access=access)
        decision = await self._submit(call, wait)
        if call.opens and is_already_open(decision):
            view = await self._sender.look_up(
                lambda service: service.dataset(call.dataset), call, wait
            )
            if view is not None:
                check_same_policy(call, decision, view.policy)
        return decision

    def _draft(
        self,
        dataset: str,
        claim: object,  # whatever a notebook hands over
        analyst: str | None = None,
        purpose: str = "",
        unit: str | None = None,
        neighbours: Neighbours | None = None,
        request_id: str | UUID | None = None,
        via: str | None = None,
    ) -> RequestDraft:
        """Return a request, checked as far as it is known.

        Raises: RequestInvalid.
        """
        return draft_request(
            dataset,
            claim,
            optional_text("analyst", analyst) or default_analyst(self.analyst),
            purpose,
            unit,
            neighbours,
            request_id,
            optional_text("via", via) or optional_text("via", self.via),
            clock=self.clock,
            needs_analyst=not self.shows_token,
        )

    async def _prepare(self, draft: RequestDraft, wait: float) -> PreparedRequest:
        """Complete a request with the policy's unit and neighbours, and the token's name.

        Raises: Unanswered: they are needed, and cannot be read in time.
        """
        with noting_errors(draft, NOT_SENT):
            if draft.is_complete:
                return draft.prepare()
            known = self._unit_and_neighbours.get(draft.dataset)
            if known is None or draft.analyst is None:
                analyst, known = await self._sender.look_up(
                    lambda service: missing_fields(service, draft, known), draft, wait
                )
                if known is not None:
                    self._unit_and_neighbours[draft.dataset] = known
                return draft._replace(analyst=analyst).prepare(*(known or _USUAL_UNIT))
            return draft.prepare(*known)

    async def _ledger(self) -> str:
        """Return the random id of the ledger in a file or behind a gateway, else nothing.

        Raises: NoSuchLedger: there is no file. Unavailable, LogDamaged: the file cannot be read.
        """
        if not self._ledger_id:
            self._ledger_id = await self._connection.read(get_ledger_id)
        return self._ledger_id
