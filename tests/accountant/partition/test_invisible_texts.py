"""Records repeat invisible characters as they were sent: a replay writes the same bytes again."""

from __future__ import annotations

from accountant.records.outcomes import Outcome
from tests.accountant.world import opened

INVISIBLE = "a\u200b\ufe0f\U000e0041"


def test_a_record_repeats_invisible_characters_as_they_were_sent() -> None:
    world = opened()
    # JSON with characters as they are, and a DEL, which a decision escapes.
    sent = world.request().replace(b'"unit"', f'"purpose": "{INVISIBLE}", "unit"'.encode())
    assert world.send("requests", sent).outcome is Outcome.GRANTED
    assert INVISIBLE.encode() in world.log[-1]
    field = f'"x{INVISIBLE}": "\x7f{INVISIBLE}", "unit"'
    wrong = world.request().replace(b'"unit"', field.encode())
    decision = world.send("requests", wrong)
    assert decision.outcome is Outcome.INVALID
    assert decision.error is not None
    assert INVISIBLE in world.log[-1].decode()
    assert f'"\\u007f{INVISIBLE}"' in bytes(decision.request).decode()
    assert world.replayed().head == world.state.head
