"""Refuses a question of a name that has many without an answer, before anything is appended."""

from __future__ import annotations

from collections import Counter, OrderedDict
from typing import Final, NamedTuple

from litestar import Litestar
from msgspec import UNSET

from accountant.records import Body
from accountant.records.requests import MechanismRequest
from streams.answers.waiting import Waiting, WaitingQuestions, names_of
from streams.clock import steady
from streams.http.context import HttpRequest, context_of
from streams.http.problems import HTTPProblem, problem

_KEY: Final = "waiting_limit"
_SENT_S: Final = 10.0
"""How long a question counts that was sent, and that is not known to be granted."""
_RETRY_AFTER_S: Final = 10


class _Sent(NamedTuple):
    names: frozenset[str]
    until: float


class WaitingLimit:
    """Counts what a name has waiting, and what was sent meanwhile.

    Args:
        waiting: the granted questions.
        most: largest number for one name.
    """

    def __init__(self, waiting: WaitingQuestions, most: int) -> None:
        self._waiting = waiting
        self._most = most
        self._sent = OrderedDict[tuple[str, str, str], _Sent]()  # the oldest is first
        self._names = Counter[str]()
        waiting.on_added = self._on_granted

    def full(self, request: MechanismRequest) -> str | None:
        """Return the name of a question that has too many waiting; None counts it as sent."""
        self._forget_old()
        key, names = (request.dataset, request.analyst, request.request_id), names_of(request)
        if key in self._sent:
            return None  # sent again
        for name in sorted(names):
            if self._waiting.count_of(name) + self._names[name] >= self._most:
                return name
        self._sent[key] = _Sent(names, steady() + _SENT_S)
        self._names.update(names)
        return None

    def _on_granted(self, granted: Waiting) -> None:
        self._forget((granted.dataset, granted.analyst, granted.request_id))

    def _forget_old(self) -> None:
        while self._sent and next(iter(self._sent.values())).until < steady():
            self._forget(next(iter(self._sent)))

    def _forget(self, key: tuple[str, str, str]) -> None:
        sent = self._sent.pop(key, None)
        for name in () if sent is None else sent.names:
            self._names[name] -= 1
            if not self._names[name]:
                del self._names[name]


def add_waiting_limit(app: Litestar, limit: WaitingLimit | None) -> None:
    """Have `check_waiting` refuse by this limit; None refuses nothing."""
    app.state[_KEY] = limit


async def check_waiting(request: HttpRequest, body: Body) -> None:
    """Check that few enough questions of the sender wait for their answers.

    A request that was decided before passes: it is answered with what became of it.

    Raises: HTTPProblem: too many wait (429). Nothing was appended. Unavailable.
    """
    limit = request.app.state.get(_KEY)
    if limit is None or not isinstance(body, MechanismRequest) or body.question is UNSET:
        return
    assert isinstance(limit, WaitingLimit)
    name = limit.full(body)
    if name is None:
        return
    service = context_of(request).service
    if await service.find(body.dataset, body.analyst, body.request_id) is not None:
        return
    most = context_of(request).settings.questions_waiting
    what = (
        f"{most} questions of {name} wait for their answers, and this one was not decided: nothing "
        "is charged. Send the same bytes again once some are answered. An owner of a dataset can "
        "end questions that wait: `accountant question end`"
    )
    headers = {"Retry-After": str(_RETRY_AFTER_S)}
    raise HTTPProblem(problem(429, "too_many_questions", what, headers=headers))
