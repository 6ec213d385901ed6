"""A partition as far as limits, pace and reserved shares matter: nothing of the product's rules.

The model decides every body that `limit_loads` makes.
"""

from __future__ import annotations

import copy

from tests.accountant.partition.limits_dataset import Body, Dataset
from tests.faults.oracle.expected import Fields
from tests.faults.oracle.limits import Clock


class Model:
    """A partition, as far as limits matter.

    Attributes:
        clock, floor: milliseconds.
    """

    def __init__(self, start: int, window: int, skew: int) -> None:
        self.datasets: dict[str, Dataset] = {}
        self.clock, self.floor = Clock(start), 0
        self._window, self._skew = window, skew
        self._ids: dict[tuple[str, ...], tuple[int, bytes]] = {}
        self._before: dict[str, Dataset | None] = {}
        self._new_ids: list[tuple[str, ...]] = []
        self.commit()

    def commit(self) -> None:
        """Keep what was decided so far."""
        self._kept = copy.copy(self.clock), self.floor
        self._new_ids.clear()
        self._before.clear()

    def drop(self) -> None:
        """Go back to the last commit."""
        self.clock, self.floor = copy.copy(self._kept[0]), self._kept[1]
        for name, dataset in self._before.items():
            if dataset is None:
                del self.datasets[name]
            else:
                self.datasets[name] = dataset
        for key in self._new_ids:
            del self._ids[key]
        self.commit()

    def touched(self) -> set[str]:
        """Return the datasets of which something was decided since the last commit."""
        return set(self._before)

    def reset_clock(self, at: int) -> None:
        """Take a `clock_reset`."""
        gone = (self.floor + 1) // 1000 * 1000
        self._ids = {key: each for key, each in self._ids.items() if each[0] >= gone}
        self.clock.at, self.floor = at, at + self._skew
        self.clock.resets, self.clock.reset_at = self.clock.resets + 1, at

    def decide(
        self, source: str, body: Body, value: bytes, issued: int, at: int, said: Fields
    ) -> Fields:
        """Return what the decision must say of a body; of `said` it takes budgets alone."""
        self.clock.at = max(self.clock.at, at)
        if body["broken"]:
            return {"outcome": "invalid", "reason": "invalid_field"}
        if source == "requests":
            self.floor = max(self.floor, self.clock.at - self._window)
        if issued <= self.floor:
            return {"outcome": "expired"}
        if issued > self.clock.at + self._skew:
            return {"outcome": "invalid", "reason": "issued_in_future"}
        caller = body["analyst"] if source == "requests" else body["by"]
        key = source, body["dataset"], caller, body["request_id"]
        if key in self._ids:
            return {"outcome": "repeated" if self._ids[key][1] == value else "conflict"}
        self._ids[key] = issued, value
        self._new_ids.append(key)
        found = self._new(body, said)
        if "reason" in found:
            return {"outcome": "refused", **found}
        return {"outcome": "granted", **found}  # unless it says another

    def _new(self, body: Body, said: Fields) -> Fields:
        name = body["dataset"]
        dataset = self.datasets.get(name)
        if name not in self._before:
            self._before[name] = copy.deepcopy(dataset)
        if dataset is None and body["type"] != "open":
            del self._before[name]
            return {"reason": "unknown_dataset"}
        if dataset is None:
            dataset = self.datasets[name] = Dataset(body["policy"], said["budget"], body["by"])
            found: Fields = {"outcome": "opened"}
        elif body["type"] == "request":
            found = dataset.ask(body, self.clock)
        else:
            found = dataset.govern(body, self.clock, said)
        dataset.sequence += 1
        return {**found, "sequence": dataset.sequence}
