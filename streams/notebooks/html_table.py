"""HTML tables for notebooks: escaped, without styles, scripts or links."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape

import msgspec

from accountant.foreign_text import escape_text


def table(caption: str, rows: Iterable[tuple[str, str]]) -> str:
    """Return an HTML table of names and texts, both escaped; rows with empty text are left out."""
    cells = [
        f'<tr><th scope="row">{_html(name)}</th><td>{_html(text)}</td></tr>'
        for name, text in rows
        if text
    ]
    return f"<table><caption>{_html(caption)}</caption><tbody>{''.join(cells)}</tbody></table>"


def grid(caption: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return an HTML table with column names, all escaped."""
    named = "".join(f'<th scope="col">{_html(name)}</th>' for name in head)
    cells = ["".join(f"<td>{_html(text)}</td>" for text in row) for row in rows]
    body = "".join(f"<tr>{row}</tr>" for row in cells)
    return (
        f"<table><caption>{_html(caption)}</caption><thead><tr>{named}</tr></thead>"
        f"<tbody>{body}</tbody></table>"
    )


def _html(text: str) -> str:
    return escape(escape_text(text))


def format_value(value: object) -> str:
    """Return a value as text for people, "" for a missing one."""
    if value is None or value is msgspec.UNSET:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {format_value(each)}" for name, each in value.items())
    if isinstance(value, tuple):
        return ", ".join(map(format_value, value))
    if isinstance(value, msgspec.Struct):
        kind = value.__struct_config__.tag
        fields = msgspec.structs.asdict(value).items()
        present = {name: each for name, each in fields if each not in (None, msgspec.UNSET, ())}
        return " ".join(
            ([str(kind)] if kind else []) + ([format_value(present)] if present else [])
        )
    return str(value)
