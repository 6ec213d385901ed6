# Generated from _async/accountant.py by `make client`: change that file instead.
"""`Accountant`: the client for notebooks and scripts."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from functools import wraps
from typing import Any, Final, ParamSpec, Self, SupportsIndex, TypeVar, cast
from uuid import UUID

from accountant.advice.preview import Preview
from accountant.claims import Claim
from accountant.errors import BudgetError, RequestInvalid
from accountant.policy import Neighbours
from accountant.records import Decision
from accountant.records.asks import AskKind
from accountant.records.coerce import coerce_seconds, coerce_text, optional_text
from streams.client._sync.owner import Administrator, Owner
from streams.client._sync.questions import Questions
from streams.client._sync.sender import RequestSender
from streams.client._sync.session import MechanismSession
from streams.client.connection.connect import client_settings
from streams.client.connection.connection import Connection
from streams.client.connection.lookups import preview_question
from streams.client.connection.retry import BATCH_WAIT_S, CONNECT_S, WAIT_S
from streams.client.questions.asked_question import AskedQuestion
from streams.client.releases.grants import (
    PER_CALL_ARGUMENTS,
    TAGGED_JSON,
    Codec,
    Grant,
    Release,
    check_codec,
    check_run_and_codec,
    check_shared_arguments,
    parse_once,
)
from streams.client.releases.store import ResultName, ResultStore
from streams.client.requests.admin_requests import admin_context
from streams.client.requests.request_notes import OnError, note_requests
from streams.client.requests.requests import (
    Datasets,
    PreparedRequest,
    RequestDraft,
    batches,
    default_analyst,
    draft_request,
    new_id,
    prepare_body,
)
from streams.client.sessions.session_record import SessionRecord
from streams.clock import Clock, SystemClock
from streams.engines.measurable import engine_mechanism
from streams.engines.scoped_claim import ScopedClaim
from streams.errors import AccountantWarning
from streams.replies.reply import Reply
from streams.settings import Settings

T = TypeVar("T")
Parameters = ParamSpec("Parameters")

_PREVIEW_NAME: Final = "preview"  # is not sent


class Accountant(Questions):
    """A ledger, for notebooks and scripts; connected once made, until `close`.

    Outcomes are values: a refusal is a `Reply` with a reason, and its `fits` is the largest
    claim that would be granted. Errors are raised: RequestInvalid or Undecodable (nothing was
    sent), Unavailable (ask again with the same request_id), Refused (somebody must act first).

    With a sqlite URL the ledger runs in this process, unless another process has the file open
    and serves it at an address. Clients of one process share a file. Only the opening of a
    dataset creates a missing file. A forked process must make its own client.

    Args:
        url: `sqlite:///accountant.db`, `http://host:port` or `kafka://host:port`; by default
            `ACCOUNTANT_URL`, else the first of these. A relative path starts in the directory
            that is current when the client is made.
        token: sent to the server at the address, and nowhere else; by default
            `ACCOUNTANT_TOKEN`, or the content of the file `ACCOUNTANT_TOKEN_FILE`, or else the
            login that `accountant login` has stored for exactly this address, which is renewed
            while the program runs. A local file and Kafka need none.
        analyst: the name in requests without one; by default `ACCOUNTANT_ANALYST`, and with a
            token the name in the token.
        via: the engine that asks for the analyst, in calls without one.
        settings: all settings, instead of those in the environment.
        wait: seconds to wait for a connection to Kafka, at least 2, or for a file that another
            process has locked.
        read_only: read a file without a lock, even while another process has it open. Nothing
            is written, and calls that would write are refused.
        replace_ledger: let the opening of a dataset create the file although another ledger with
            decisions was at its path; that ledger's budgets are given up for ever.

    Attributes:
        settings, url, analyst, via: the arguments, or their defaults.
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
        replace_ledger: bool = False,
    ) -> None:
        self.settings = client_settings(url, token, settings)
        self.url = self.settings.url
        self.analyst = optional_text("analyst", analyst)
        self.via = optional_text("via", via)
        self.clock = clock or SystemClock()
        self._ledger_id = ""
        self._schemas = {}
        self._connection = Connection(
            self.settings,
            self.clock,
            wait=coerce_seconds("wait", wait),
            read_only=read_only,
            replace_ledger=replace_ledger,
        )
        self._sender = RequestSender(self._connection)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.disconnect()

    def disconnect(self) -> None:
        """Close the connection to the ledger; in a forked process, do nothing."""
        self._connection.close()

    def close(self, *dataset: object, **rest: object) -> None:
        """Close the connection, like `disconnect`. `as_owner().close` closes a dataset."""
        if dataset or rest:
            raise TypeError(
                "close() closes the client and takes no arguments. To close a dataset, call "
                "as_owner(...).close(name)"
            )
        self.disconnect()

    def _repr_html_(self) -> str:
        return self._connection.html()

    @property
    def token_source(self) -> str | None:
        """Where the client's token comes from: a setting, a file or a login; None without one."""
        return self._connection.token_source

    def cost(
        self,
        dataset: str,
        claim: str | Claim | ScopedClaim | AskedQuestion | Mapping[str, Any],
        *,
        analyst: str | None = None,
        unit: str | None = None,
        neighbours: Neighbours | None = None,
        via: str | None = None,
        reserve: str | None = None,
        guess: int | None = None,
        wait: float = WAIT_S,
    ) -> Preview:
        """Return how a request would be decided now: granted or not, its cost, what would remain.

        Nothing is written or charged. The arguments are those of `ask`. The role and limits of
        the analyst count if the analyst is known.

        Args:
            reserve: of a reservation, its `until`: gdp_residue charges more for what may be voided.
            guess: of a `question`, how many rows each group may have, by which `expected_errors`
                says the error of a mean, a variance or a standard deviation.

        Raises: RequestInvalid. UnknownDataset: the dataset does not exist.
        """
        wait = coerce_seconds("wait", wait)
        name = optional_text("analyst", analyst) or default_analyst(self.analyst)
        dataset = coerce_text("dataset", dataset)  # a preview is about one
        draft = self._draft(dataset, claim, name or _PREVIEW_NAME, "", unit, neighbours, None, via)
        return self._cost(draft, name, reserve, guess, wait)

    def _cost(
        self,
        draft: RequestDraft,
        name: str | None,
        reserve: str | None,
        guess: int | None,
        wait: float,
    ) -> Preview:
        call = self._sender.prepare(draft, wait)
        asked = preview_question(call.body, name, reserve, guess)
        return self._find(draft.dataset, lambda service: service.preview(draft.dataset, asked))

    def new_request_id(self) -> str:
        """Return a new request id, a UUIDv7, to store before asking."""
        return new_id(self.clock)

    def ask(
        self,
        dataset: Datasets,
        claim: str | Claim | ScopedClaim | AskedQuestion | Mapping[str, Any],
        *,
        analyst: str | None = None,
        purpose: str = "",
        unit: str | None = None,
        neighbours: Neighbours | None = None,
        request_id: str | UUID | None = None,
        via: str | None = None,
        wait: float = WAIT_S,
    ) -> Reply:
        """Ask to run one mechanism on a dataset; check `granted` of the reply.

        `grant` and `release` do the same, and raise if the request is not granted.

        Args:
            dataset: its name; or the names of several, at most 16 of one partition, that the
                mechanism reads. The claim bounds a unit's change in all of them at once, and each
                is charged it in full, or none is.
            claim: the mechanism's privacy guarantee: text (`gaussian:sigma=20,sensitivity=1`), a
                value of `accountant.claims`, a dict as on the wire, a `ScopedClaim` of an engine's
                adapter, or a `question`, whose claim the ledger derives. An inexact amount is
                refused, with the text to write instead.
            analyst: the name in the request; by default the client's own, or that in the token.
            purpose: for people, at most 200 characters.
            unit, neighbours: what the claim is for; by default those of the dataset's policy.
            request_id: of an earlier call, to ask again; by default a new one.
            via: the engine that asks for the analyst: the token's own name. It needs the role
                `engine`, and the analyst must be named.
            wait: seconds to wait for the decision, including retries. A running attempt may take
                about two more seconds.
        Raises: RequestInvalid, Refused, Unanswered (ask again with its `request_id`).
        """
        wait = coerce_seconds("wait", wait)
        draft = self._draft(dataset, claim, analyst, purpose, unit, neighbours, request_id, via)
        return self._ask(draft, wait)

    def _ask(self, draft: RequestDraft, wait: float) -> Reply:
        return self._sender.reply_to(self._sender.prepare(draft, wait), wait)

    def ask_many(
        self, requests: Iterable[Mapping[str, Any] | bytes], *, wait: float = BATCH_WAIT_S
    ) -> list[Reply | BudgetError]:
        """Ask for many mechanisms; each request is decided as if sent alone.

        A server gets up to 1,000 requests at once. That is several times as fast as one by one.
        Nothing is raised for a single request: its error is in its place, and the others are
        decided. Store the ids before you ask (`new_request_id`), to ask again after a crash.

        Args:
            requests: each with the arguments of `ask`, such as `{"dataset": "census", "claim":
                "pure:0.01", "request_id": ...}`; or a whole body, as bytes.
            wait: seconds to wait for each thousand requests, including retries. A running attempt
                may take longer.
        Returns: for each request, in order, its `Reply`, or the error that `ask` would raise.
        Raises: RequestInvalid: `requests` is a single request. An error of the whole call, such as
            an interrupt, has the ids of what may be charged, as `request_ids`.
        """
        is_single = isinstance(requests, Mapping | bytes | bytearray | str)
        if is_single or not isinstance(requests, Iterable):
            rule = "must be a list of requests, not a single one"
            raise RequestInvalid("requests", rule, requests)
        wait = coerce_seconds("wait", wait)
        replies, sent = list[Reply | BudgetError](), list[str]()
        with OnError(lambda error: note_requests(error, sent)):
            for batch in batches(requests):
                calls = self._sender.prepare_many(batch, self._draft, wait)
                sent += [call.request_id for call in calls if isinstance(call, PreparedRequest)]
                replies += self._sender.replies_to(calls, wait)
        return replies

    def submit(self, body: bytes, *, wait: float = WAIT_S, new: bool = False) -> Decision:
        """Send a body of your own: a request or an admin request. Retries send the same bytes.

        Args:
            new: what is asked back otherwise is meant as it is.
        Raises: Unconfirmed: an admin request is probably a slip.
        """
        wait = coerce_seconds("wait", wait)
        if not isinstance(body, bytes | bytearray | memoryview):
            raise RequestInvalid("body", "must be bytes", body)
        call = prepare_body(bytes(body))._replace(new=new)
        return self._sender.submit(call, wait)

    def grant(
        self,
        dataset: Datasets,
        claim: str | Claim | ScopedClaim | Mapping[str, Any],
        *,
        analyst: str | None = None,
        purpose: str = "",
        unit: str | None = None,
        neighbours: Neighbours | None = None,
        request_id: str | UUID | None = None,
        via: str | None = None,
        wait: float = WAIT_S,
    ) -> Grant:
        """Ask, and enter the `with` block only if the mechanism may run: once, inside the block.

        The arguments are those of `ask`. Use `release` for a result that a retry should get
        again.

        Raises: NotGranted: on entry. Unanswered: it is unknown whether the request is granted.
        """
        wait = coerce_seconds("wait", wait)

        def ask() -> tuple[RequestDraft, Reply]:
            draft = self._draft(dataset, claim, analyst, purpose, unit, neighbours, request_id, via)
            return draft, self._ask(draft, wait)

        return Grant(ask)

    def release(
        self,
        dataset: Datasets,
        claim: str | Claim | ScopedClaim | Mapping[str, Any],
        run: Callable[[], T],
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
        new: bool = False,
    ) -> T:
        """Ask, run the mechanism once, and return its result; every retry gets the same result.

        The result is stored before it is returned. A call with the same name (`once`) or the
        same `request_id` returns the stored result and charges nothing. Two calls without either
        are two requests.

        Args:
            once: a name for the result, such as "age-by-district", for programs that run again.
                In a store, the name belongs to one claim, dataset, analyst and ledger. A file
                has the same name for every path, and a server goes by its address; the ledger's
                own id is compared too. Excludes `request_id`.
            new: the name is meant, although it is nearly another one.
            run: draws the result. It is called at most once for a grant, unless it ended without
                a result. What it prints itself is visible. The client for event loops also accepts
                an asynchronous function, and runs any other in a thread.
            store: a `ResultStore`, or the path of its file.
            codec: encodes results of other types than `encode_result` accepts; nothing is
                pickled.
            The others are those of `ask`; `wait` also covers a run of the same grant elsewhere.
        Returns: the result as it is stored.

        Raises:
            NotGranted: nothing ran. Unanswered: release again with its `request_id`.
            ResultMissing: granted before, but the result is not in this store: nothing runs.
            StillRunning: another process is running it.
            NameTaken: `once` belongs to another claim, or to another ledger that was at this
                address before; nothing was charged.
            SimilarName: `once` is nearly another name, whose result was probably meant; nothing
                was charged.
        Warns: AccountantWarning: the result cannot be stored. It is returned this once. If
            warnings are errors, nobody gets it, and the mechanism may run again. Where the disk is
            full, a release again in this process stores it, and returns it.
        """
        check_run_and_codec(run, codec, awaited=False)
        name = parse_once(once, request_id, new=new)
        wait = coerce_seconds("wait", wait)
        draft = self._draft(dataset, claim, analyst, purpose, unit, neighbours, request_id, via)
        return cast("T", self._release(draft, run, wait, store, codec, name))

    def _release(
        self,
        draft: RequestDraft,
        run: Callable[[], Any],
        wait: float,
        store: ResultStore | str | os.PathLike[str] | None,
        codec: Codec,
        name: ResultName | None,
        released: Callable[[], bool] | None = None,
    ) -> Any:
        results = store if isinstance(store, ResultStore) else ResultStore(store)
        call = self._sender.prepare(draft, wait)
        release = Release(results, call, codec, self.url, wait, name, released)
        with release.noting_errors():
            if (repeated := self._connection.run(release.repeat_warning)) is not None:
                warnings.warn(repeated, AccountantWarning, stacklevel=3)
            ledger_id = "" if name is None else self._ledger()
            stored = self._connection.run(release.record_request, ledger_id)
            if stored is not None:
                return release.decode_result(stored)
            reply = self._sender.reply_to(release.call, wait)
            return release.run(reply, run)

    def measure(
        self,
        dataset: Datasets,
        measurement: Any,
        data: Any = None,
        *,
        d_in: SupportsIndex | None = None,
        delta: str | Decimal | float | None = None,
        analyst: str | None = None,
        purpose: str = "",
        neighbours: Neighbours | None = None,
        request_id: str | UUID | None = None,
        via: str | None = None,
        wait: float = WAIT_S,
        store: ResultStore | str | os.PathLike[str] | None = None,
        codec: Codec = TAGGED_JSON,
        once: str | None = None,
        new: bool = False,
    ) -> Any:
        """Claim what an OpenDP measurement's own map says, and `release` that measurement.

        The claim is the loss of the measurement between data sets at distance `d_in`, and the
        same object runs on the data: claim and noise cannot disagree. The unit is that of the
        dataset's policy. A measurement that fails on the data stays charged.

        A training with Opacus is claimed as all of its steps, and its optimizer takes no others.

        Args:
            measurement: a `Measurement` of OpenDP; a `Query` of a Context, which is resolved
                and run in its Context, and counts in the Context's own budget, too; or a
                `streams.engines.opacus.Training`.
            data: what the measurement is called with; of a query, the Context's own; of a training,
                the function that trains, without arguments.
            d_in: how many records one unit adds, removes or replaces at most, 1 by default; of
                a query, its Context's; a training has none.
            delta: where to read a privacy curve; for no other measurement.
            neighbours: `replace` where the dataset's units are replaced and the measurement counts
                records added and removed: `d_in` is then twice a unit's records.
            The others are those of `release`.
        Returns: the result as it is stored.

        Raises:
            RequestInvalid: no claim describes the measurement, or it is not for the dataset's
                neighbours; nothing was asked. TypeError: it is none of the engines' own.
            StepRefused: a training did what it had not claimed.
            Also what `release` raises.
        """
        mechanism = engine_mechanism(
            measurement,
            data,
            d_in=d_in,
            delta=delta,
            neighbours=neighbours,
            name=request_id if once is None else once,
        )
        check_run_and_codec(mechanism.run, codec, awaited=False)
        name = parse_once(once, request_id, new=new)
        wait = coerce_seconds("wait", wait)
        draft = self._draft(dataset, mechanism.claim, analyst, purpose, None, None, request_id, via)
        complete = self._sender.complete(draft, wait)
        mechanism.check_neighbours(complete.neighbours)
        return self._release(complete, mechanism.run, wait, store, codec, name, mechanism.released)

    def reserve(
        self,
        dataset: Datasets,
        claim: str | Claim | ScopedClaim | Mapping[str, Any],
        *,
        until: str,
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
        new: bool = False,
    ) -> MechanismSession:
        """Return a session: its `with` block reserves the maximum, and settles when it is left.

        Nothing is sent before the block is entered. Entering raises `NotGranted` if the maximum
        does not fit, and `StillRunning`, `NameTaken` or `SimilarName` as `release` does.

        Args:
            dataset: its name, or the names of several, as of `ask`: each step acts on all of them.
            until: how long the mechanism may take to begin and to settle: `PT30M`, `P1D`, from
                `PT1M` to `P30D`. Later the maximum stays charged.
            once: a name for the session. A program that runs again under it ends the session
                that it left, and gets the stored answers. Without a name, a session that a crash
                leaves stays charged.
            wait: seconds for each step.
            The others are those of `release`.
        """
        name = parse_once(once, request_id, new=new)
        wait = coerce_seconds("wait", wait)
        check_codec(codec)
        draft = self._draft(dataset, claim, analyst, purpose, unit, neighbours, request_id, via)
        draft = draft._replace(until=coerce_text("until", until))
        draft.check()
        results = store if isinstance(store, ResultStore) else ResultStore(store)

        def open_record() -> SessionRecord:
            call = self._sender.prepare(draft, wait)
            ledger_id = "" if name is None else self._ledger()
            return SessionRecord(results, call, codec, self.url, ledger_id, name, wait, self.clock)

        return MechanismSession(self._sender, self._connection, open_record, wait=wait)

    def released(
        self, dataset: Datasets, claim: str | Claim | ScopedClaim | Mapping[str, Any], **shared: Any
    ) -> Callable[[Callable[Parameters, T]], Callable[Parameters, T]]:
        """Return a decorator that makes each call of a function a `release`.

        Args:
            shared: further arguments of `release`, except `once` and `request_id`: pass these to
                a call of the function, since each call has its own result.
        Raises: RequestInvalid: `shared` has one of these.
        """
        check_shared_arguments(shared)

        def decorate(function: Callable[Parameters, T]) -> Callable[Parameters, T]:
            @wraps(function)
            def call(*args: Parameters.args, **kwargs: Parameters.kwargs) -> T:
                own: dict[str, Any] = {key: kwargs.pop(key, None) for key in PER_CALL_ARGUMENTS}

                def run() -> T:
                    return function(*args, **kwargs)

                return self.release(dataset, claim, run, **own, **shared)

            return call

        return decorate

    def as_owner(
        self,
        by: str | None = None,
        *,
        reason: str = "",
        request_id: str | UUID | None = None,
        follows: int | None = None,
        wait: float = WAIT_S,
    ) -> Owner:
        """Return the calls of an owner, such as `as_owner("olga").pause("census")`.

        Making it sends nothing. The ledger checks at each call that the caller is an owner.

        Args:
            by: the owner's name. By default the name in the token, and a server that
                authenticates accepts no other.
            reason: why, for people, at most 200 characters; recorded with each call.
            request_id: of an earlier call, to send that call again; by default each call has a
                new one.
            follows: the number (`sequence`) of the dataset's last decision. If there is a later
                one, a call is refused as `out_of_date`.
            wait: seconds to wait for each decision, including retries.
        Raises: RequestInvalid: also if neither `by` nor a token names the owner.
        """
        context = admin_context(
            by,
            reason=reason,
            request_id=request_id,
            follows=follows,
            wait=wait,
            needs_name=not self.token_source,
        )
        return Owner(self._sender, context, self.clock)

    def ask_for_more(
        self,
        dataset: str,
        wants: AskKind,
        *,
        reason: str,
        role: str | None = None,
        part: object = None,
        epsilon: object = None,
        rho: object = None,
        team: str | None = None,
        request_id: str | UUID | None = None,
        wait: float = WAIT_S,
    ) -> Decision:
        """Ask a dataset's owners for more, as the client's analyst; `asks` has their answer.

        Args:
            wants: `access`, with `role`; `limit`, with `part`, `epsilon` or `rho`; or `budget`,
                with `epsilon` or `rho`.
            team: with `limit`, the analyst's own team, whose limit it is.
            reason: for the owners, 1 to 200 characters; it stays in the log for ever.

        Raises: PassedOnToOwners: the caller does not see the dataset, or there is none.
        """
        caller = self.as_owner(self.analyst, reason=reason, request_id=request_id, wait=wait)
        return caller.ask_for_more(
            dataset, wants, role=role, part=part, epsilon=epsilon, rho=rho, team=team
        )

    def as_administrator(
        self,
        by: str | None = None,
        *,
        reason: str = "",
        request_id: str | UUID | None = None,
        follows: int | None = None,
        wait: float = WAIT_S,
    ) -> Administrator:
        """Return the calls of an administrator, who pauses datasets and sets their members.

        The log records that an administrator did it. A server accepts it from administrators only.
        The arguments are those of `as_owner`.
        """
        context = admin_context(
            by,
            reason=reason,
            request_id=request_id,
            follows=follows,
            wait=wait,
            needs_name=not self.token_source,
            as_administrator=True,
        )
        return Administrator(self._sender, context, self.clock)

    def _draft(
        self,
        dataset: Datasets,
        claim: object,  # any type that a notebook may pass
        analyst: str | None = None,
        purpose: str = "",
        unit: str | None = None,
        neighbours: Neighbours | None = None,
        request_id: str | UUID | None = None,
        via: str | None = None,
    ) -> RequestDraft:
        """Return a request, checked as far as its fields are known.

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
            needs_analyst=not self.token_source,
        )
