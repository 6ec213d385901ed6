"""The questions that wait in the process that runs them: an owner lists and ends them.

A gateway has these routes, too, and says where to send the request: it runs no questions.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated

from litestar import Response, get, post
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath, QueryParameter

from accountant.members.permits import has_role
from accountant.records import encode
from accountant.times import iso
from streams.answers.waiting import QuestionQueue
from streams.auth.principal import principal_of
from streams.clock import Clock
from streams.gateway.submit import wrong_content_type
from streams.http.context import HttpRequest
from streams.http.problems import JSON, HTTPProblem, problem
from streams.http.refusal import forbidden
from streams.service.ledger_service import LedgerService
from streams.telemetry.logs import get_logger

_log = get_logger(__name__)
_NOT_HERE = (
    "this server runs no questions. On Kafka send this to the curator, with its address as --url; "
    "for a ledger in a file, to `accountant serve` with ACCOUNTANT_DATA_SOURCES"
)


def question_queue_routes(
    service: LedgerService, queue: QuestionQueue | None, clock: Clock
) -> list[HTTPRouteHandler]:
    """Return the handlers of `/datasets/NAME/questions` and `/datasets/NAME/questions/end`."""

    @get("/datasets/{dataset:str}/questions", include_in_schema=False)
    async def list_waiting(request: HttpRequest, dataset: FromPath[str]) -> Response[bytes]:
        """Return by analyst how many questions wait, and since when. For owners."""
        found = _queue_for(request, dataset)
        waiting = [
            {"analyst": analyst, "questions": count, "since": iso(since)}
            for analyst, (count, since) in sorted(found.waiting.of_dataset(dataset).items())
        ]
        return Response(encode({"dataset": dataset, "waiting": waiting}), media_type=JSON)

    @post("/datasets/{dataset:str}/questions/end", include_in_schema=False, status_code=200)
    async def end_waiting(
        request: HttpRequest,
        dataset: FromPath[str],
        analyst: Annotated[str | None, QueryParameter(description="end only theirs")] = None,
    ) -> Response[bytes]:
        """End the questions that wait on a dataset, of one analyst or of all. For owners.

        Each has the answer `failed` from the next tick on, and its charge stays. A session that
        never began can still be voided. What runs already gets its answer.
        """
        wrong = wrong_content_type(request)
        if wrong is not None:
            return wrong
        found = _queue_for(request, dataset)
        assert found.end is not None, "another process runs them"
        caller, ended = principal_of(request), found.end(dataset, analyst)
        _log.warning(
            "questions_ended",
            dataset=dataset,
            analyst=analyst,
            by=None if caller is None else caller.name,
            questions=ended,
            then="they failed, and stay charged",
        )
        return Response(encode({"dataset": dataset, "ended": ended}), media_type=JSON)

    def _queue_for(request: HttpRequest, dataset: str) -> QuestionQueue:
        """Return the queue of this process for an owner of a dataset, or an administrator.

        Raises: HTTPProblem: anybody else asks (403), or this process runs no questions (404).
            Unavailable.
        """
        caller = principal_of(request)
        if caller is not None and not caller.administrator:
            lookup = partial(service.member, dataset)
            # As everywhere, a clock that was set back brings no former owner back.
            now = max(clock.now(), service.decided_at(dataset))
            if not has_role(lookup, caller.name, "owner", now):
                # The same words for a hidden dataset and for an unknown one.
                what = (
                    f"only owners of dataset {dataset} and administrators may list and end its "
                    f"questions; you are signed in as {caller.name}"
                )
                raise forbidden(request, "questions", what, field="dataset", value=dataset)
        if queue is None or queue.end is None:
            raise HTTPProblem(problem(404, "no_curator", _NOT_HERE))
        if service.policy(dataset) is None:
            what = f"dataset {dataset[:100]} was never opened"
            raise HTTPProblem(problem(404, "unknown_dataset", what))
        return queue

    return [list_waiting, end_waiting]
