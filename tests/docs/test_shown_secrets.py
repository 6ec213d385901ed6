"""No page tells people to put a token among a command's arguments, where all users see it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SHOWN = re.compile(
    r"(?:-H|--header|--oauth2-bearer|--token)[ =][\"']?(?:Authorization|Bearer|\$|acct_)"
)


def shown_secrets(text: str) -> list[str]:
    blocks = re.findall(r"^ *```.*?^ *```", text, re.MULTILINE | re.DOTALL)
    return [found[0] for block in blocks for found in SHOWN.finditer(block)]


def pages() -> Iterator[Path]:
    yield from sorted(ROOT.glob("*.md"))
    for top in ("docs", "deploy", "examples"):
        yield from sorted((ROOT / top).rglob("*.md"))


def test_no_command_of_a_page_has_a_token_among_its_arguments() -> None:
    wrong = [
        f"{page.relative_to(ROOT)}: {shown}"
        for page in pages()
        for shown in shown_secrets(page.read_text(encoding="utf-8"))
    ]
    assert not wrong, "\n".join(wrong)


def test_such_a_command_is_found() -> None:
    for command in ('curl -H "Authorization: Bearer $TOKEN" x', "x --token $TOKEN"):
        assert shown_secrets(f"```sh\n{command}\n```\n")
    assert not shown_secrets("```sh\ncurl --header @FILE https://x/me\n```\n")
