"""A number that stands beside a setting is its default, and each setting that is named exists."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from streams.settings import Settings
from tests.docs.blocks import pages, text

OPENS = ("README.md", "SECURITY.md", "docs/**", "deploy/**")

# Read by commands and clients alone; the others show what a misspelt name does.
OTHERS: Final = {"ANALYST", "OWNER", "ANSWERS", "TOKNES", "ULR", "SERVICE_HOST"}
_BESIDE: Final = re.compile(r"`ACCOUNTANT_([A-Z_]+)`(?:\]\([^)]*\))?(?: \(|, )(\d[\d,]*)(?![\d.])")
_NAMED: Final = re.compile(r"\bACCOUNTANT_([A-Z]+(?:_[A-Z]+)*)\b(?!_)")


def defaults(page: str) -> Iterator[tuple[str, int]]:
    """Yield the settings of a text with the number beside each; a mode of a file is none."""
    for name, number in _BESIDE.findall(page):
        if not number.startswith("0"):
            yield name, int(number.replace(",", ""))


def test_a_number_beside_a_setting_is_its_default() -> None:
    settings = Settings()
    found = [(page, *each) for page in pages() for each in defaults(text(page))]
    assert len(found) >= 5
    wrong = [each for each in found if getattr(settings, each[1].lower()) != each[2]]
    assert not wrong


def test_each_setting_that_a_page_names_exists() -> None:
    every = {name for page in pages() for name in _NAMED.findall(text(page))}
    assert {name for name in every if name.lower() not in Settings.model_fields} == OTHERS


def test_a_number_is_found_in_either_form() -> None:
    assert list(defaults("[`ACCOUNTANT_BATCH`](x.md), 2,000 records")) == [("BATCH", 2000)]
    assert list(defaults("`ACCOUNTANT_BATCH` (2,000 records)")) == [("BATCH", 2000)]
    assert not list(defaults("`ACCOUNTANT_TOKENS`, 0600"))
