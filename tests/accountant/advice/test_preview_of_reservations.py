"""The preview of a reservation is the decision that it gets, also where voiding costs more."""

from __future__ import annotations

import json
from typing import Any

import pytest

from accountant.advice.preview import Preview, preview
from accountant.claims.text import parse_claim
from accountant.errors import RequestInvalid
from accountant.records.previews import PreviewRequest, check_preview
from accountant.records.requests import Reserve
from accountant.views.datasets import view_of_ledger
from tests.accountant.reservations.scene import Scene
from tests.accountant.world import code

RESIDUE = {"filter": "gdp_residue", "epsilon": "1", "delta": "1e-6"}


def previewed(scene: Scene, claim: str, *, reserve: bool) -> Preview:
    asked = PreviewRequest(parse_claim(claim), "person", "add_remove")
    if reserve:
        until = Reserve("PT1H")
        asked = PreviewRequest(parse_claim(claim), "person", "add_remove", reserve=until)
    return preview(view_of_ledger(scene.ledger()), asked)


GAUSSIAN = "gaussian:sigma=20,sensitivity=1"


@pytest.mark.parametrize(
    ("policy", "claim"),
    [
        (RESIDUE, "pure:0.1"),
        (RESIDUE, GAUSSIAN),
        (RESIDUE | {"beside": "basic"}, "pure:0.1"),
        (RESIDUE | {"beside": "basic"}, GAUSSIAN),
        ({"filter": "basic", "epsilon": "1"}, "pure:0.1"),
        ({"filter": "zcdp", "rho": "0.01"}, GAUSSIAN),
    ],
)
def test_a_preview_says_what_a_reservation_costs_and_how_many_follow(
    policy: dict[str, Any], claim: str
) -> None:
    scene = Scene(**policy)
    scene.claim = claim  # type: ignore[assignment]
    shown = previewed(scene, claim, reserve=True)
    decision = scene.reserve()
    assert code(decision) == "reserved"
    assert (shown.granted, shown.cost, shown.left) == (True, decision.cost, decision.left)
    more = 0
    while code(scene.reserve()) == "reserved":
        more += 1
    assert shown.more == more


def test_what_may_be_voided_costs_more_under_gdp_residue() -> None:
    scene = Scene(**RESIDUE)
    plain, reserved = (previewed(scene, "pure:0.1", reserve=each) for each in (False, True))
    assert plain.cost is not None
    assert reserved.cost is not None
    assert float(plain.cost["mu_squared"]) < float(reserved.cost["mu_squared"])
    assert plain.more is not None
    assert reserved.more is not None
    assert plain.more > reserved.more


def test_a_time_that_is_too_long_is_invalid_in_a_preview() -> None:
    body = {"claim": {"type": "pure", "epsilon": "0.1"}, "unit": "person"}
    body |= {"neighbours": "add_remove", "reserve": {"until": "P31D"}}
    with pytest.raises(RequestInvalid, match=r"reserve\.until"):
        check_preview(json.dumps(body).encode())
