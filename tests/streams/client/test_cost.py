"""`cost` previews a request without a charge."""

from __future__ import annotations

from pathlib import Path

import pytest

from accountant.errors import RequestInvalid
from streams.client import Accountant, AsyncAccountant
from tests.streams.clock import TestClock
from tests.streams.gateway.local_server import LocalServer

ONE = {"filter": "basic", "epsilon": "1", "unit": "visit", "most_per_request": "0.5"}


@pytest.mark.parametrize("by_http", [False, True])
def test_cost_charges_nothing(file: Path, clock: TestClock, by_http: bool) -> None:
    with LocalServer(file, clock) as server:
        url = server.url if by_http else f"sqlite:///{file}"
        with Accountant(url, clock=clock, analyst="ana") as ledger:
            ledger.as_owner("owner").open("census", ONE, as_given=True)
            preview = ledger.cost("census", "pure:0.25")
            assert (preview.granted, preview.more) == (True, 3)
            assert preview.cost == {"epsilon": "0.25", "delta": "0"}
            assert preview.left["epsilon"] == "0.75"
            above = ledger.cost("census", "pure:0.6")
            assert (above.granted, above.reason, above.fits) == (False, "above_cap", "pure:0.5")
            with pytest.raises(TypeError, match="granted"):
                bool(above)
            with pytest.raises(RequestInvalid, match="no dataset that you may see is named"):
                ledger.cost("nowhere", "pure:0.1")
            with pytest.raises(RequestInvalid, match="claim"):
                ledger.cost("census", "pure:-1")
            view = ledger.dataset("census")
            assert view is not None
            assert view.sequence == 1
            assert ledger.ask("census", "pure:0.25").cost == {"epsilon": 0.25, "delta": 0}


async def test_the_async_client_does_the_same(file: Path, clock: TestClock) -> None:
    async with AsyncAccountant(f"sqlite:///{file}", clock=clock) as ledger:
        await ledger.as_owner("owner").open("census", ONE, as_given=True)
        assert (await ledger.cost("census", "pure:0.25")).granted
