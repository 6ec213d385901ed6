"""Counts what a curator does."""

from __future__ import annotations

from dataclasses import dataclass, field

from streams.answers.waiting import WaitingQuestions
from streams.curator.noted_store import NotStored


@dataclass(slots=True)
class CuratorCounts:
    """What a curator has done since its start. Only its event loop writes it.

    Attributes:
        answered, failed: answers that it has published, by whether they have values.
        claim_differs: grants whose claim this process does not derive.
        is_running: False once it has ended, whatever the process still does.
        unexpected_datasets: by source, how many open datasets name it and were not named for it.
        closed_sources: by source, 1 while it answers nobody.
        source_findings: by source, how many columns and units it lacks of what open datasets
            declare.
        ended: questions that an owner has ended while they waited.
        waiting: the grants without an answer, or whose reservation is not settled.
        not_stored: what it could not store.
    """

    answered: int = 0
    failed: int = 0
    claim_differs: int = 0
    is_running: bool = True
    unexpected_datasets: dict[str, int] = field(default_factory=dict)
    closed_sources: dict[str, int] = field(default_factory=dict)
    source_findings: dict[str, int] = field(default_factory=dict)
    ended: int = 0
    waiting: WaitingQuestions = field(default_factory=WaitingQuestions)
    not_stored: NotStored = field(default_factory=NotStored)

    def count(self, *, failed: bool) -> None:
        """Count an answer that was published."""
        if failed:
            self.failed += 1
        else:
            self.answered += 1
