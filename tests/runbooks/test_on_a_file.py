"""The runbooks' blocks as printed: with tokens and TLS on a file, and without authentication."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.observability.programs import until
from tests.runbooks.expected import check
from tests.runbooks.page import RUN, Block
from tests.runbooks.stack import Stack, on_a_file

ON_A_FILE = [each for each in RUN if not (each.needs_prometheus or each.needs_kafka)]
OF_NAMES = [each for each in ON_A_FILE if re.search(r"accountant me|dataset (?!show)", each.text)]
"""Blocks whose commands have an author, which depends on the authentication."""


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    home = tmp_path_factory.mktemp("secured")
    with on_a_file(home, ON_A_FILE, authenticates=True) as made:
        yield made


@pytest.fixture(scope="module")
def unauthenticated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    home = tmp_path_factory.mktemp("unauthenticated")
    with on_a_file(home, OF_NAMES, authenticates=False) as made:
        yield made


@pytest.mark.parametrize("block", ON_A_FILE, ids=lambda each: each.name)
def test_a_block_works_as_printed_with_tokens_and_tls(secured: Stack, block: Block) -> None:
    check(block, secured.run(block))


@pytest.mark.parametrize("block", OF_NAMES, ids=lambda each: each.name)
def test_a_block_with_an_author_works_without_authentication(
    unauthenticated: Stack, block: Block
) -> None:
    check(block, unauthenticated.run(block), authenticates=False)


def test_the_block_on_lost_authentication_says_why_until_the_file_is_back(tmp_path: Path) -> None:
    (block,) = [each for each in RUN if each.entry == "PrivacyAuthenticationAway"]
    with on_a_file(tmp_path, [], authenticates=True) as stack:
        away = (tmp_path / "tokens.json").rename(tmp_path / "away.json")
        lost = stack.run(block)
        assert lost.returncode == 1, lost.stderr
        assert "reason: every token of the file of tokens is rejected" in lost.stdout
        # What the text says to search the log for, and what it finds there.
        assert "tokens_unreadable" in lost.stdout
        assert re.search(
            r"tokens_unreadable.*does not exist|does not exist.*tokens_unreadable",
            stack.log.read_text(),
        )
        away.rename(tmp_path / "tokens.json")
        until("the file is read again", lambda: stack.run(block).returncode == 0)
