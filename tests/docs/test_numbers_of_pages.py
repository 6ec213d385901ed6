"""A number that stands beside a setting is its default, and each setting that is named exists."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from msgspec.structs import fields

from streams.auth.provider_keys import BETWEEN_S, REFRESH_S
from streams.auth.token_file import MOST_TOKENS
from streams.curator.log_follower import MAX_OF_A_NAME
from streams.gateway.batch import MAX_BATCHES, MAX_BATCHES_OF_ONE, MAX_LINES
from streams.gateway.events.replay_buffer import MAX_BUFFERED
from streams.gateway.events.route import MAX_STREAMS
from streams.gateway.events.stream import MAX_BEHIND
from streams.pages.login.browser_sessions import IDLE_S, LIFETIME_S
from streams.pages.login.pending_sign_ins import PATIENCE_S as SIGN_IN_S
from streams.server.access_log import MAX_PATH
from streams.server.connection_limits import REQUEST_S, UNREAD_S
from streams.server.probes import MAX_PROBES
from streams.server.rate_limit import MOST_ADDRESSES
from streams.settings import Settings
from streams.sources.source_settings import TIMES_OF_A_READING, CsvSource
from tests.docs.blocks import pages, text

OPENS = ("README.md", "SECURITY.md", "docs/**", "deploy/**")

# Read by commands and clients alone; the others show what a misspelt name does.
OTHERS: Final = {"ANALYST", "OWNER", "ANSWERS", "TOKNES", "ULR", "SERVICE_HOST"}
WORDS: Final = {4: "four", 10: "ten"}
_READING: Final = {each.name: each.default for each in fields(CsvSource)}
# The words around a number, which says `{}`; a page may say it once more in other words.
SAID: Final[tuple[tuple[str, str, float], ...]] = (
    ("how-to/answer-questions", "fails from {} on", MAX_OF_A_NAME),
    ("how-to/data-sources", "(#when-a-source-is-read-in-full): {} by default", _READING["seconds"]),
    ("how-to/data-sources", "A question then has {} times as long", TIMES_OF_A_READING),
    ("how-to/data-sources", "{} and 1024 by default", _READING["threads"]),
    ("how-to/data-sources", "2 and {} by default", _READING["memory_mb"]),
    ("how-to/embedded", "without a complete request | closed after {} s", REQUEST_S),
    ("how-to/embedded", "does not read its answer | closed after {} s", UNREAD_S),
    ("how-to/follow-a-request", "cut after {} characters", MAX_PATH),
    ("how-to/many-requests", "takes up to {} request records", MAX_LINES),
    ("how-to/many-requests", "share the server's {} open batches", MAX_BATCHES),
    ("how-to/many-requests", "each has at most {}", MAX_BATCHES_OF_ONE),
    ("how-to/monitoring", "Its {} connections", MAX_PROBES),
    ("how-to/monitoring", "stores the latest {} decisions", MAX_BUFFERED),
    ("how-to/oidc-sign-in", "{} minutes have passed", SIGN_IN_S / 60),
    ("how-to/oidc-sign-in", "every {} minutes. For an unknown key", REFRESH_S / 60),
    ("how-to/oidc-sign-in", "at most every {} seconds", BETWEEN_S),
    ("how-to/pages", "after {} hours without a visit", IDLE_S / 3600),
    ("how-to/pages", "after {} hours at the latest", LIFETIME_S / 3600),
    ("how-to/rate-limit", "by name | {} |", Settings().limit_per_name),
    ("how-to/rate-limit", "by address | {} |", Settings().limit_per_second),
    ("how-to/rate-limit", "remembers {} addresses", MOST_ADDRESSES),
    ("reference/capacity", "static tokens | {} |", MOST_TOKENS),
    ("reference/http/events", "at most {} back", MAX_BEHIND),
    ("reference/records/alert", "at most {} streams", MAX_STREAMS),
)
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


def with_number(words: str, number: float) -> set[str]:
    """Return how a sentence may write its number."""
    whole = int(number)
    return {words.format(each) for each in (whole, f"{whole:,}", WORDS.get(whole, whole))}


def test_a_limit_in_a_sentence_is_that_of_the_code() -> None:
    wrong = [
        (page, words, number)
        for page, words, number in SAID
        if not any(each in text(f"docs/{page}.md") for each in with_number(words, number))
    ]
    assert not wrong


def test_each_setting_that_a_page_names_exists() -> None:
    every = {name for page in pages() for name in _NAMED.findall(text(page))}
    assert {name for name in every if name.lower() not in Settings.model_fields} == OTHERS


def test_a_number_is_found_in_either_form() -> None:
    assert list(defaults("[`ACCOUNTANT_BATCH`](x.md), 2,000 records")) == [("BATCH", 2000)]
    assert list(defaults("`ACCOUNTANT_BATCH` (2,000 records)")) == [("BATCH", 2000)]
    assert not list(defaults("`ACCOUNTANT_TOKENS`, 0600"))
