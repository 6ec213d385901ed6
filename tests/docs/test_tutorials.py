"""README and the tutorials, worked through as their readers do, with the outputs they show."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.tutorial import ROOT, blocks, matches, work_through
from tests.every_case import every_case

OPENS = ("README.md", "docs/tutorials/*", "examples/**")

TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
PAGES = [ROOT / "README.md", *TUTORIALS]
ACTIVATES = ". .venv/bin/activate"


def named(page: Path) -> str:
    return page.stem


@pytest.mark.slow
@pytest.mark.timeout(1_800)  # dozens of commands, on a machine that may be busy
@pytest.mark.parametrize("page", [p for p in PAGES if p.stem != "on-kafka"], ids=named)
def test_a_tutorial_works_as_printed(page: Path, tmp_path: Path) -> None:
    work_through(page, tmp_path)


@every_case("page", TUTORIALS)
def test_a_tutorial_has_steps_with_their_output(page: Path) -> None:
    steps = blocks(page.read_text(encoding="utf-8"))
    assert sum(block.language == "text" for block in steps) >= 3
    assert sum(block.language != "text" for block in steps) >= 3


@every_case("page", PAGES)
def test_a_page_activates_the_environment_before_its_first_command(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    bare = re.search(r"^(?:[A-Z_]+=\S+ )*(?:accountant|python) ", text, re.MULTILINE)
    if bare:
        assert ACTIVATES in text[: bare.start()]


def test_the_question_of_the_readme_is_that_of_the_tutorial() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    tutorial = (ROOT / "docs" / "tutorials" / "first-answer.md").read_text(encoding="utf-8")
    (call,) = re.findall(r'ledger\.count\("(\w+)", where="([^"]+)", epsilon="([^"]+)"\)', readme)
    dataset, where, epsilon = call
    # A larger epsilon would be above the cap that the tutorial's dataset has.
    assert f"accountant ask {dataset} 'count where {where}' --epsilon {epsilon} " in tutorial
    (answer,) = re.findall(rf"`(count where {re.escape(where)}: [^`]+)`", readme)
    drawn = re.escape(answer).replace(re.escape(re.findall(r": (\d+) ", answer)[0]), r"\d+")
    assert re.search(f"^{drawn}$", tutorial, re.MULTILINE)


def test_an_output_that_differs_is_noticed() -> None:
    assert matches("granted\n  cost  1\n", "granted\n  cost 1\n")
    assert matches("granted\n...\nid 2\n", "granted\nleft 5\ncost 1\nid 2\n")
    assert not matches("granted\n", "refused\n")
    assert not matches("granted\ncost 1\n", "granted\ncost 2\n")
    assert not matches("granted\n", "granted\ncost 1\n")


def test_a_command_that_ends_otherwise_is_noticed(tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        work_through_text("```sh\nfalse\n```\n", tmp_path)
    work_through_text("```sh\nfalse   # exit code 1\n```\n", tmp_path / "again")


def work_through_text(text: str, directory: Path) -> None:
    directory.mkdir(exist_ok=True)
    page = directory / "page.md"
    page.write_text(text)
    work_through(page, directory)
