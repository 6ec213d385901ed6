"""README and the tutorials, worked through as their readers do, with the outputs they show."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from tests.docs.blocks import ROOT, blocks
from tests.docs.tutorial import matches, work_through
from tests.every_case import every_case
from tests.nightly import NIGHTLY

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


# What begins a line of an output: `cost` of "  cost  ε 0.05", `cap` of "cap: one request".
LABELS = (
    r"  ([a-z]{2,5}) +(?<=\n.{8})\S",
    r"   ([a-z]{4,}) \S",
    r"([a-z]+):",
    r"(opened|granted|refused|ok)\b",
)
LABEL = re.compile("|".join(f"^{each}" for each in LABELS), re.MULTILINE)
FIRST = [page for page in TUTORIALS if page.stem in {"first-ledger", "first-answer"}]


def unexplained(text: str) -> list[str]:
    """Return the lines of outputs that the text does not explain, in the order printed.

    A line is explained where its first word stands as code after the output, before the next
    one. What an earlier output has need not be explained again, but keeps its place.
    """
    missing: list[str] = []
    known: set[str] = set()
    steps = blocks(text)
    ends = [block.span[0] for block in steps[1:]] + [len(text)]
    for block, end in zip(steps, ends, strict=True):
        if block.language != "text" or "│" in block.body or "─" in block.body:
            continue
        prose, at = text[block.span[1] : end], 0
        for label in dict.fromkeys(map("".join, LABEL.findall(block.body))):
            place = prose.find(f"`{label}`", at)
            if place < 0 and (label not in known or f"`{label}`" in prose):
                missing.append(f"{label} of {block.body.splitlines()[0]}")
            at, known = max(place, at), known | {label}
    return missing


@every_case("page", FIRST)
def test_a_first_tutorial_explains_each_line_in_the_order_printed(page: Path) -> None:
    assert not unexplained(page.read_text(encoding="utf-8"))


def test_a_line_without_an_explanation_is_noticed() -> None:
    output = "```text\ngranted: 95 % left\n  cost  ε 1\n  left  ε 2\n```\n"
    assert not unexplained(f"{output}`granted`, `cost` and `left`.\n")
    assert unexplained(f"{output}`granted` and `left`.\n") == ["cost of granted: 95 % left"]
    assert unexplained(f"{output}`granted`, `left`, then `cost`.\n")
    assert not unexplained(f"{output}`granted`, `cost` and `left`.\n{output}The same.\n")


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


OPENS_A_DATASET: Final = re.compile(
    r"^ *accountant dataset open (\S+) (?!.*--(?:preview|for)\b)", re.MULTILINE
)
ENTERS: Final = re.compile(r"^cd ([\w-]+)$", re.MULTILINE)
# What the other pages say to whoever follows them again is another name of the ledger's file.
AGAIN: Final = {"first-ledger": "export ACCOUNTANT_URL=sqlite:///second.db"}


def code(page: Path, *languages: str) -> str:
    text = page.read_text(encoding="utf-8")
    return "\n".join(each.body for each in blocks(text) if each.language in languages)


def files(page: Path) -> set[str]:
    """Return the files of ledgers that a page names, and those that its reader makes."""
    made = {each.title for each in blocks(page.read_text(encoding="utf-8")) if each.title}
    ledgers = re.findall(r"sqlite:///(\S+?\.db)\b", code(page, "sh", "python"))
    opens = [line for line in code(page, "sh").splitlines() if OPENS_A_DATASET.match(line)]
    if opens and not ledgers and "kafka://" not in code(page, "sh"):
        ledgers = ["accountant.db"]
    made |= {*ledgers, *re.findall(r"(?:>|--out) ([\w.-]+\.\w+)", code(page, "sh"))}
    own = ENTERS.search(code(page, "sh"))
    return {f"{own[1]}/{name}" for name in made} if own else made


def test_no_two_pages_have_a_file_in_common() -> None:
    """So each works whichever others were followed before in the same directory."""
    every = [(name, page.stem) for page in PAGES for name in sorted(files(page))]
    names = [name for name, _ in every]
    assert {"people.py", "people.db", "count.py", "count.db", "shared.db"} <= set(names)
    assert not [each for each in every if names.count(each[0]) > 1]


def test_no_guide_opens_a_dataset_that_a_tutorial_opens_in_the_default_file() -> None:
    guides, tutorials = (
        {name for page in of for name in OPENS_A_DATASET.findall(code(page, "sh"))}
        for of in (
            (ROOT / "docs" / "how-to").glob("*.md"),
            [page for page in PAGES if "accountant.db" in files(page)],
        )
    )
    assert guides
    assert guides.isdisjoint(tutorials)


def followed_again(page: Path) -> tuple[str, str]:
    """Return the text of a page for its second reader in a directory, and the line to begin with.

    The page says so: another directory, another name of the ledger's file, or `AGAIN`.
    """
    text = page.read_text(encoding="utf-8")
    if own := ENTERS.search(code(page, "sh")):
        return re.sub(rf"^((?:mkdir -p|cd) {own[1]})$", r"\1-2", text, flags=re.MULTILINE), ""
    if page.stem in AGAIN:
        return text, AGAIN[page.stem]
    return re.sub(r"\b(\w+)\.db\b", r"\1-2.db", text), ""


@pytest.mark.skipif(not NIGHTLY, reason="minutes: by night")
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("step", [1, -1], ids=["in order", "in reverse"])
def test_the_pages_work_in_any_order_and_twice(step: int, tmp_path: Path) -> None:
    pages = [page for page in PAGES if page.stem != "on-kafka"][::step]
    directory, again = tmp_path / "clone", tmp_path / "again"
    directory.mkdir()
    again.mkdir()
    for page in pages:
        work_through(page, directory)
    (directory / "tokens.json").unlink()
    for page in pages:
        other, (text, line) = again / page.name, followed_again(page)
        other.write_text(text)
        work_through(other, directory, line)
