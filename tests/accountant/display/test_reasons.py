"""Each reason has one sentence that says what it means, and one that says what to do."""

from __future__ import annotations

from accountant.display.reasons import REASONS
from accountant.display.texts import capital, shorten
from accountant.records.outcomes import Reason


def test_every_reason_has_words_in_the_order_of_precedence() -> None:
    assert [*REASONS] == [*Reason]
    for words in REASONS.values():
        for sentence in (words.meaning, words.remedy):
            assert sentence[0].isupper()
            assert sentence.endswith(".")
        assert not words.title.endswith(".")


def test_long_texts_are_cut() -> None:
    assert shorten("x" * 300) == "x" * 300
    assert shorten("x" * 301) == "x" * 300 + "…"
    assert capital("team Red") == "Team Red"
