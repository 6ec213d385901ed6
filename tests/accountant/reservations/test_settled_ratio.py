"""What is spent for good never falls, whatever reservations hold and give back, in every filter."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any, Final

import msgspec

from accountant.reservations.held import settled_ratio
from tests.accountant.filters.policies import POLICIES
from tests.accountant.reservations.scene import HOUR, Scene
from tests.accountant.world import code
from tests.every_case import check_each

CLAIMS: Final[tuple[dict[str, object], ...]] = (
    {"type": "pure", "epsilon": "0.02"},
    {"type": "gaussian", "sigma": "40", "sensitivity": "1"},
    {"type": "brownian", "variance": "900", "sensitivity": "1", "first": "90000"},
    {"type": "ex_post", "epsilon": "0.05", "sensitivity": "1", "first": "100", "least": "20"},
)
SHOWN: Final[dict[object, tuple[str, ...]]] = {
    "brownian": ("90000", "2000", "900"),
    "ex_post": ("100", "30", "20"),
}
BESIDE: Final[dict[str, Any]] = {
    "zcdp_tight beside basic": {
        "filter": "zcdp_tight",
        "epsilon": "1",
        "delta": "2e-6",
        "delta_for_claims": "1e-6",
        "beside": "basic",
    }
}
EVERY: Final = {name: msgspec.to_builtins(policy) for name, policy in POLICIES.items()} | BESIDE


def test_no_step_and_no_deadline_lowers_what_is_settled() -> None:
    def check_case(name: str) -> None:
        chance, scene = random.Random(name), Scene(**EVERY[name])
        open_ones: dict[str, dict[str, object]] = {}
        before, seen, fell = 0.0, Counter[str](), 0
        for _ in range(150):
            spent = scene.ledger().spent_ratio
            scene.tick(chance.choice((0, 1, 60_000, HOUR // 5)))
            claim = chance.choice(CLAIMS)
            word = chance.choice(("ask", "reserve", "reserve", "begin", "begin", "settle", "void"))
            if word == "ask":
                decision = scene.ask(claim)
            elif word == "reserve":
                decision = scene.reserve(claim)
                if code(decision) == "reserved":
                    open_ones[scene.grant] = claim
            elif open_ones:
                scene.grant = chance.choice(list(open_ones))
                levels = SHOWN.get(open_ones[scene.grant]["type"], ())
                shown = {"shown": chance.choice(levels)} if levels and word == "settle" else {}
                decision = scene.step(word, **shown)
                if code(decision) in {"settled", "voided", "not_open", "lapsed"}:
                    del open_ones[scene.grant]
            else:
                continue
            seen[code(decision)] += 1
            ledger = scene.ledger()
            settled = settled_ratio(ledger)
            assert before <= settled <= ledger.spent_ratio, (name, code(decision))
            fell += ledger.spent_ratio < spent
            before = settled
        assert before > 0
        assert fell  # else this shows nothing
        assert {"reserved", "begun", "settled", "voided"} <= seen.keys()

    check_each(check_case, EVERY)
