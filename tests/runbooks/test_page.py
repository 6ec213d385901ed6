"""Each block of the runbooks is marked, and the few that no test runs are listed here."""

from __future__ import annotations

import re

from tests.runbooks.expected import EXPECTED
from tests.runbooks.page import BLOCKS, BOX, PAGE, RUN, blocks_of, variables

ELSEWHERE: dict[str, str] = {}
"""Blocks that need what no test has, such as kubectl or systemctl, with the reason; at most ten."""
MOST_ELSEWHERE = 10


def unmarked(page: str) -> list[str]:
    """Return the blocks of a page without a mark, or with another one."""
    return [
        each.name for each in blocks_of(page) if not re.fullmatch(r"run|elsewhere: .+", each.mark)
    ]


def test_each_block_is_marked_as_run_or_says_why_not() -> None:
    assert unmarked(PAGE) == []
    assert PAGE.count("```") == 2 * len(BLOCKS), "no block is missed"
    page = "# Page\n\n## Here\n\n<!-- run -->\n```sh\ntrue\n```\n\n```sh\nfalse\n```\n"
    assert unmarked(page) == ["Here-1"]
    assert unmarked(page.replace("run", "elsewhere:")) == ["Here-0", "Here-1"]


def test_blocks_that_are_run_elsewhere_are_few_and_listed() -> None:
    found = {
        each.name: each.mark.removeprefix("elsewhere: ")
        for each in BLOCKS
        if each.mark.startswith("elsewhere: ")
    }
    assert found == ELSEWHERE
    assert len(ELSEWHERE) <= MOST_ELSEWHERE


def test_blocks_use_the_variables_of_the_box_alone() -> None:
    used = {
        name
        for each in BLOCKS
        if each.name != BOX
        for name in re.findall(r"\$\{?([A-Z_]+)", each.text)
    }
    assert used <= variables() | {"USER"}
    # The others are settings that the commands read.
    unused = variables() - used
    assert all(each.startswith("ACCOUNTANT_") or each == "SSL_CERT_FILE" for each in unused)


def test_no_command_names_its_author_and_none_shows_a_token() -> None:
    for each in BLOCKS:
        assert not re.search(r"dataset \w+ .*--by|--by \"", each.text), each.name
        assert "curl" not in each.text, each.name
        assert "Authorization" not in each.text, each.name


def test_each_block_that_is_run_has_an_expected_output() -> None:
    assert [each.name for each in RUN] == list(EXPECTED)
