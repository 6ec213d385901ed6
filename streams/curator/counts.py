"""Counts what a curator does."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class CuratorCounts:
    """What a curator has done since its start. Only its event loop writes it.

    Attributes:
        answered, failed: answers that it has published, by whether they have values.
        claim_differs: grants whose claim this process does not derive.
        is_running: False once it has ended, whatever the process still does.
        unexpected_datasets: by source, how many open datasets name it and were not named for it.
        waiting_since: when each grant without an answer was decided, milliseconds since 1970.
    """

    answered: int = 0
    failed: int = 0
    claim_differs: int = 0
    is_running: bool = True
    unexpected_datasets: dict[str, int] = field(default_factory=dict)
    waiting_since: dict[str, int] = field(default_factory=dict)

    def count(self, *, failed: bool) -> None:
        """Count an answer that was published."""
        if failed:
            self.failed += 1
        else:
            self.answered += 1

    def oldest_waiting_ms(self, now: int) -> int:
        """Return the age of the oldest grant without an answer, in milliseconds; 0 without any."""
        return max(0, now - min([*self.waiting_since.values()], default=now))
