"""Every filter works through the client on a file, across a restart."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from accountant import claims as c
from accountant.filters import FILTERS
from accountant.policy import guarantee_of
from accountant.records.outcomes import Outcome, Reason
from accountant.views.datasets import DatasetView
from streams.client import Accountant
from tests.accountant.filters.policies import POLICIES
from tests.streams.clock import TestClock


def stored_view(ledger: Accountant) -> DatasetView:
    view = ledger.dataset("census")
    assert view is not None
    # What is counted, and where the log stood, is of one run.
    return msgspec.structs.replace(view, outcomes={}, reasons={}, partition_sequence=0)


@pytest.mark.parametrize("halts", [False, True])
@pytest.mark.parametrize("name", sorted(FILTERS))
def test_a_filter_resumes_its_state_after_a_restart(
    name: str, halts: bool, file: Path, clock: TestClock
) -> None:
    kind = c.ExPost if name == "ex_post" else c.Pure
    # One counts up to a declared epsilon, and offers none smaller but fewer of it.
    asked = c.Repeat(c.Pure("0.1"), 3) if name == "optimal_homogeneous" else kind("0.15")
    policy = msgspec.structs.replace(POLICIES[name], halt_on_refusal=halts)
    with Accountant(f"sqlite:///{file}", clock=clock) as ledger:
        assert (
            ledger.as_owner("owner").open("census", policy, as_given=True).outcome is Outcome.OPENED
        )
        for _ in range(20):
            last = ledger.ask("census", asked, analyst="ana")
            if last.outcome is not Outcome.GRANTED:
                break
        assert last.reason is Reason.EXHAUSTED
        assert (last.fits is None) is halts
        before = stored_view(ledger)
    with Accountant(f"sqlite:///{file}", clock=clock) as ledger:
        after = stored_view(ledger)
        assert after == before
        assert after.halted is halts
        assert guarantee_of(after.policy) == guarantee_of(policy)
        more = ledger.ask("census", last.fits or kind("1e-9"), analyst="ana")
        assert more.reason is (Reason.HALTED if halts else None)
        again = ledger.ask("census", asked, analyst="ana")
        assert again.reason is (Reason.HALTED if halts else Reason.EXHAUSTED)
