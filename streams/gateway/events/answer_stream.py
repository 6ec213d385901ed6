"""GET /datasets/{dataset}/answers/events: answers as they are stored, as server-sent events."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Annotated, Final

from litestar import get
from litestar.params import FromPath
from litestar.response.streaming import ASGIStreamingResponse

from accountant.views.visibility import sees_answer
from streams.answers.store import AnswerReader, Answers
from streams.auth.decision_pages import log_reading
from streams.auth.unknown_dataset import unknown_dataset
from streams.auth.visibility import visibility_of
from streams.gateway.answers import reader_of
from streams.gateway.events.route import DESCRIBED, LAST_EVENT_ID, StreamResponse, begin_stream
from streams.gateway.paging import LARGEST_NUMBER, after_parameter, whole_number
from streams.http.context import HttpRequest, context_of
from streams.http.problems import HTTPProblem
from streams.service.visibility import Visibility

_BATCH: Final = 20  # answers read at a time: one may have thousands of values
_KEEP_ALIVE_S: Final = 15.0
_STOP_S: Final = 1.0  # the longest wait before the stream ends with the server


@get("/datasets/{dataset:str}/answers/events", tags=["answers"], responses={200: DESCRIBED})
async def stream_answers(
    request: HttpRequest,
    dataset: FromPath[str],
    after: Annotated[str, after_parameter("only answers after this number")] = "0",
) -> ASGIStreamingResponse:
    """Stream the answers to a dataset's questions: first those there are, then new ones.

    Events are of type `answer`, with the stored bytes as data. An event's `id` is the answer's
    number: a client that reconnects with it as `Last-Event-ID` misses nothing and gets nothing
    twice. 503 when the server has too many open streams, 429 when the caller has.
    """
    last = request.headers.get(LAST_EVENT_ID)
    field, text = ("after", after) if last is None else (LAST_EVENT_ID, last)
    number = whole_number(field, text, 0, LARGEST_NUMBER)
    reader, visibility = reader_of(request), visibility_of(request)
    found = await visibility.dataset(dataset)
    if found is None:
        raise HTTPProblem(await unknown_dataset(request, dataset))
    log_reading(request, dataset, reads_others=found[1].sees_all)
    stream = AnswerStream(
        reader, dataset, visibility, after=number, stopping=context_of(request).stopping
    )
    return StreamResponse(begin_stream(request), stream.pieces())


class AnswerStream:
    """Yields one client's events. What the client may see is looked at before each of them.

    Args:
        after: the number of the client's last answer.
        stopping: set when the server shuts down.
    """

    def __init__(
        self,
        reader: AnswerReader,
        dataset: str,
        visibility: Visibility,
        *,
        after: int,
        stopping: asyncio.Event,
    ) -> None:
        self._reader = reader
        self._dataset = dataset
        self._visibility = visibility
        self._last = after
        self._stopping = stopping
        self._ended = False

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield events until the server stops, or the client may not see the dataset any more."""
        coming = self._reader.subscribe()  # before the first look, so that nothing is missed
        try:
            yield b": answers after %d\n\n" % self._last
            while not self._ended and not self._stopping.is_set():
                stored = await self._reader.page(self._dataset, after=self._last, limit=_BATCH)
                for answer in stored:
                    access = self._visibility.at(self._dataset)
                    if access is None:
                        return
                    self._last = answer.number
                    if sees_answer(access, answer.analyst):
                        yield _event(answer.number, answer.value)
                if not stored and not await self._comes(coming) and not self._ended:
                    yield b": still here\nid: %d\n\n" % self._last
        finally:
            coming.close()

    async def _comes(self, coming: Answers) -> bool:
        """Wait for an answer about the dataset; False if none comes for a while."""
        loop = asyncio.get_running_loop()
        until = loop.time() + _KEEP_ALIVE_S
        while loop.time() < until and not self._stopping.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_STOP_S):
                    async for answer in coming:
                        if answer.dataset == self._dataset:
                            return True
                self._ended = True  # the store is closed
                return False
        return False


def _event(number: int, value: bytes) -> bytes:
    return b"id: %d\nevent: answer\ndata: %s\n\n" % (number, value)
