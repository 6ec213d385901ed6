"""The colour of an outcome on a terminal."""

from __future__ import annotations

import pytest

from accountant.records.outcomes import Outcome
from streams.cli.printing.output import outcome_text


@pytest.mark.parametrize(
    ("outcome", "colour"),
    [
        (Outcome.GRANTED, "green"),
        (Outcome.RESERVED, "green"),
        (Outcome.REFUSED, "red"),
        (Outcome.REPEATED, "cyan"),
        (Outcome.CONFLICT, "magenta"),
        (Outcome.PAUSED, "yellow"),
        (Outcome.RESUMED, "blue"),
        (Outcome.LIMIT_SET, "blue"),
        (Outcome.SETTLED, "blue"),
        (Outcome.SEALED, ""),
    ],
)
def test_an_outcome_has_the_colour_of_what_it_did(outcome: Outcome, colour: str) -> None:
    found = outcome_text(outcome)
    assert (found.plain, found.style) == (outcome, colour)
