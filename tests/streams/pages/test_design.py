"""The pages follow one design system, which docs/reference/page-design.md describes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from streams.pages.assets import STYLES
from tests.streams.pages.dataset.pages_server import PagesServer, form_of

OPENS = (
    "docs/pictures/page-*.png",
    "docs/**/*.md",
    "README.md",
    "streams/pages/static/*",
    "streams/pages/templates/**",
)

ROOT = Path(__file__).parents[3]
_PAGES = ROOT / "streams" / "pages"
_DESIGN = (ROOT / "docs" / "reference" / "page-design.md").read_text("utf-8")
_TEMPLATES = sorted((_PAGES / "templates").rglob("*.html"))
_MOST_BYTES = 150_000


def sheet(*names: str) -> str:
    """Return rules of the style sheet, without comments."""
    texts = [(_PAGES / "static" / f"{name}.css").read_text("utf-8") for name in names or STYLES]
    return re.sub(r"/\*.*?\*/", "", "".join(texts), flags=re.DOTALL)


def tokens(scheme: str) -> dict[str, str]:
    """Return the tokens as they are in `light` or `dark`."""
    light, _, dark = sheet("tokens").partition("@media")
    found = dict(re.findall(r"(--[\w-]+): ([^;]+);", light))
    return found | (dict(re.findall(r"(--[\w-]+): ([^;]+);", dark)) if scheme == "dark" else {})


def luminance(colour: str) -> float:
    """Return the relative luminance of `#rrggbb` (WCAG 2.2)."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours (WCAG 2.2)."""
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def test_the_page_about_the_design_names_every_token_and_no_other() -> None:
    assert set(re.findall(r"`(--[\w-]+)`", _DESIGN)) == set(tokens("light"))


def test_every_token_is_used() -> None:
    rules = sheet()
    assert [name for name in tokens("light") if f"var({name})" not in rules] == []


def test_rules_take_their_colours_from_tokens() -> None:
    assert re.findall(r"#[0-9a-f]{3,8}\b|rgba?\(", sheet(*(set(STYLES) - {"tokens"}))) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_of_text_have_the_contrast_of_wcag_aa(scheme: str) -> None:
    found = tokens(scheme)
    grounds = ("ground", "raised", "wash", "accent-wash", "done-wash", "warning-wash", "error-wash")
    texts = ("ink", "faint", "accent", "done", "warning", "error")
    pairs = [(text, ground) for text in texts for ground in grounds]
    weak = {
        (one, other): round(contrast(found[f"--{one}"], found[f"--{other}"]), 2)
        for one, other in [*pairs, ("on-accent", "accent")]
        if contrast(found[f"--{one}"], found[f"--{other}"]) < 4.5
    }
    assert not weak
    for tone in ("done", "warning", "error", "edge"):  # bars, and the edges of inputs
        for ground in ("track", "raised") if tone != "edge" else ("ground", "raised"):
            assert contrast(found[f"--{tone}"], found[f"--{ground}"]) >= 3, (tone, ground)


@pytest.mark.parametrize("path", _TEMPLATES, ids=lambda path: path.stem)
def test_a_template_has_no_inline_style_and_only_classes_of_the_style_sheet(path: Path) -> None:
    text = path.read_text("utf-8")
    assert not re.search(r"\sstyle\s*=|<style", text)
    rules = set(re.findall(r"\.([a-z][\w-]*)", sheet()))
    for value in re.findall(r'class="((?:\{[{%].*?[}%]\}|[^"])*)"', text):
        # What an expression chooses from is quoted in it, beside what it compares.
        plain = re.sub(r"\{%.*?%\}", " ", value)
        for name in re.sub(r"\{\{.*?\}\}", "*", plain).split():
            start, dynamic, _ = name.partition("*")
            known = any(each.startswith(start) for each in rules) if dynamic else start in rules
            assert known, f"{name} has no rule"


def test_only_the_first_field_with_an_error_gets_the_focus(tmp_path: Path) -> None:
    with PagesServer(tmp_path) as server:
        server.furnish()
        shown = server.page("olga").text
        typed = {"member": "cleo", "reason": 'aria-invalid="true"', "action": "set"}
        sent = {k: v for k, v in form_of(shown, "members").items() if not k.startswith("role_")}
        page = server.post_form("olga", "members", sent | typed).text
    assert " autofocus" not in shown
    focused = re.findall(r"<[^>]* autofocus[^>]*>", page)
    invalid = re.findall(r"<[^>]* aria-invalid=\"true\"[^>]*>", page)
    assert len(invalid) > 1  # a box for each role
    assert focused == invalid[:1]


@pytest.mark.parametrize(
    "path", sorted(ROOT.glob("docs/pictures/page-*.png")), ids=lambda p: p.stem
)
def test_a_picture_of_a_page_is_shown_somewhere_and_small(path: Path) -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    assert any(f"pictures/{path.name})" in page.read_text("utf-8") for page in pages)
    assert path.stat().st_size <= _MOST_BYTES
