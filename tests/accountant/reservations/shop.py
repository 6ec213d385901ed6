"""Three datasets with one reservation over them, brought to any state by records alone."""

from __future__ import annotations

import json
from typing import Any, Final

from accountant.records import Decision
from accountant.replay.audit import audit
from accountant.replay.replay import Replay, state_rows
from tests.accountant.reservations.scene import Scene
from tests.accountant.world import code

NAMES: Final = ("census", "returns", "visits")
OTHERS: Final = list(NAMES[1:])


class Shop(Scene):
    """A `Scene` whose reservation is over three datasets; `census` is the first.

    Args:
        policies: of each dataset; by default epsilon 1 under filter basic.
    """

    def __init__(
        self, claim: dict[str, object] | None = None, **policies: dict[str, object]
    ) -> None:
        given: dict[str, object] = {"filter": "basic", "epsilon": "1", "delta": "1e-6"}
        super().__init__(claim, **policies.get("census", given))
        for name in OTHERS:
            policy = policies.get(name, given)
            opening = self.admin("open", dataset=name, policy=policy, owners=["owner", "oda"])
            assert code(self.send("admin", opening)) == "opened"

    def reserve(self, claim: dict[str, object] | None = None, **fields: object) -> Decision:
        return super().reserve(claim, **{"other_datasets": OTHERS, **fields})

    def alone(self, name: str, **fields: object) -> Decision:
        """Reserve on one dataset, and leave the reservation over all of them as it is."""
        grant = self.grant
        decision = super().reserve(None, dataset=name, **fields)
        self.grant = grant
        return decision

    def total(self, name: str = "epsilon") -> str:
        """Return a total that all datasets have alike."""
        found = set(self.totals(name).values())
        assert len(found) == 1, found
        return found.pop()

    def totals(self, name: str = "epsilon") -> dict[str, str]:
        """Return a total of each dataset."""
        return {each: str(self.row(each)["totals"][name]) for each in NAMES}

    def reservations(self) -> list[dict[str, Any]]:
        """Return the rows of the reservation, by dataset."""
        rows = {key.decode(): json.loads(value) for key, value in self.rows()}
        keys = [f'{{"dataset":"{name}","grant":"{self.grant}"}}' for name in NAMES]
        return [rows[key] for key in keys if key in rows]

    def check(self) -> None:
        """Check that replay, with rows and without, and audit agree with the live state."""
        assert self.rows() == state_rows(self.replayed())
        report = audit(self.log, genesis=self.genesis)
        assert report.ok, report.first_disagreement
        replay = Replay(self.genesis)
        for key, value in self.rows():
            replay.take_row(key, value)
        for value in self.log:
            replay.take_decision(value)
        assert state_rows(replay.finish()) == self.rows()
