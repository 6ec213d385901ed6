"""Characters that no text of a record may have: they act on, or hide in, what shows it."""

from __future__ import annotations

from typing import Final

from accountant.errors import RequestInvalid
from accountant.foreign_text import CONTROL

# A search for one byte by its number takes a tenth of one by a text of that byte.
_BACKSLASH: Final = ord("\\")
_DELETE: Final = 0x7F
_RULE: Final = "must have no control character, direction mark or line separator"


def check_text(field: str, text: str) -> None:
    """Check one text that a record would repeat for ever.

    Raises: RequestInvalid: naming the first character that it may not have.
    """
    found = CONTROL.search(text)
    if found is not None:
        raise RequestInvalid(field, _RULE, found[0])


def check_texts(value: object, path: str = "") -> None:
    """Check every text of a record, whatever the field; names of fields, too.

    Args:
        value: the record as plain values, nested at most `inputs.MAX_NESTED` deep.
    Raises: RequestInvalid.
    """
    if isinstance(value, str):
        check_text(path, value)
    elif isinstance(value, dict):
        for name, each in value.items():
            check_text(path, name)
            check_texts(each, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for i, each in enumerate(value):
            check_texts(each, f"{path}[{i}]")


def may_break_text_rule(body: bytes) -> bool:
    """Tell whether a body must be checked text by text; most need not."""
    if _BACKSLASH in body:  # which may be an escape of such a character
        return True
    if body.isascii():
        return _DELETE in body  # JSON has the other ones of ASCII as escapes alone
    return CONTROL.search(body.decode()) is not None
