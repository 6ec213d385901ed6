"""The questions that were granted, and that are not finished yet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from accountant.records.requests import MechanismRequest
from streams.answers.granted import GrantedQuestion


class Waiting(NamedTuple):
    """A question that waits.

    Attributes:
        names: of the analyst, and of the engine that asked for them.
        request_id: of the request.
        since: when its grant was decided, milliseconds since 1970.
    """

    dataset: str
    analyst: str
    names: frozenset[str]
    request_id: str
    since: int


def names_of(request: MechanismRequest) -> frozenset[str]:
    """Return the names that a question counts for: its analyst's, and its engine's."""
    return frozenset({request.analyst} | ({request.via} if isinstance(request.via, str) else set()))


class WaitingQuestions:
    """The waiting questions of a ledger, as far as one process has read its log.

    Only that process's event loop uses it.

    Attributes:
        on_added: called with each question that is added.
    """

    def __init__(self) -> None:
        self.on_added: Callable[[Waiting], None] | None = None
        self._by_grant: dict[str, Waiting] = {}
        self._names = Counter[str]()
        self._datasets = Counter[str]()
        self._running = set[str]()
        self._ended = set[str]()

    def __len__(self) -> int:
        return len(self._by_grant)

    def add(self, question: GrantedQuestion) -> None:
        """Add a question, unless it waits already."""
        if question.grant in self._by_grant:
            return
        request = question.request
        new = Waiting(
            request.dataset,
            request.analyst,
            names_of(request),
            request.request_id,
            question.decided_at,
        )
        self._by_grant[question.grant] = new
        self._names.update(new.names)
        self._datasets[new.dataset] += 1
        if self.on_added is not None:
            self.on_added(new)

    def remove(self, grant: str) -> None:
        """Remove a question, if it waits."""
        old = self._by_grant.pop(grant, None)
        if old is None:
            return
        self._running.discard(grant)
        self._ended.discard(grant)
        self._datasets[old.dataset] -= 1  # 0 stays: its gauge has no gap
        for name in old.names:
            self._names[name] -= 1
            if not self._names[name]:
                del self._names[name]

    def count_of(self, name: str) -> int:
        """Return how many wait that a name asks, or that were asked in its name."""
        return self._names[name]

    def grants(self) -> list[str]:
        """Return the grant of each."""
        return [*self._by_grant]

    def of_dataset(self, dataset: str) -> dict[str, tuple[int, int]]:
        """Return by analyst how many wait on a dataset, and when the oldest was granted."""
        found: dict[str, tuple[int, int]] = {}
        for each in self._by_grant.values():
            if each.dataset == dataset:
                count, since = found.get(each.analyst, (0, each.since))
                found[each.analyst] = count + 1, min(since, each.since)
        return found

    def start(self, grant: str) -> bool:
        """Note that a question runs from now on; False if it was ended before."""
        if grant in self._ended:
            return False
        self._running.add(grant)
        return True

    def is_ended(self, grant: str) -> bool:
        """Tell whether a question was ended while it waited."""
        return grant in self._ended

    def wait(self, grant: str) -> None:
        """Note that a question waits again."""
        self._running.discard(grant)

    def end(self, dataset: str, analyst: str | None) -> int:
        """End what waits on a dataset, of one analyst or of all; return how many these are.

        A question that runs already gets its answer.
        """
        found = {
            grant
            for grant, each in self._by_grant.items()
            if each.dataset == dataset and analyst in {None, each.analyst}
        }
        found -= self._running | self._ended
        self._ended |= found
        return len(found)

    def by_dataset(self) -> dict[str, int]:
        """Return how many wait on each dataset; 0 of those that have none any more."""
        return dict(self._datasets)

    def oldest(self) -> dict[str, int]:
        """Return when the oldest question of each dataset was granted, milliseconds since 1970."""
        found: dict[str, int] = {}
        for each in self._by_grant.values():
            found[each.dataset] = min(found.get(each.dataset, each.since), each.since)
        return found


def _no_note() -> None:
    return None


@dataclass(frozen=True, slots=True)
class QuestionQueue:
    """The questions that wait, as a server knows them.

    Attributes:
        end: ends those on a dataset, of one analyst or of all, and returns how many these are; None
            where another process runs the questions.
        note: returns that they wait for too long, and what to do, or None.
    """

    waiting: WaitingQuestions
    end: Callable[[str, str | None], int] | None = None
    note: Callable[[], str | None] = _no_note
