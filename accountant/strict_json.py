"""The JSON reader of what a person wrote or a peer sent: each key stands once in its object.

Of a key that stands twice a decoder takes the last one, and another reader the first.
"""

from __future__ import annotations

import json
from typing import Any, NoReturn

import msgspec


def read_json(content: bytes | str, kind: Any = Any) -> Any:
    """Return the value of a JSON text.

    Args:
        kind: the type to read, any by default.

    Raises:
        msgspec.ValidationError: it is another type.
        msgspec.DecodeError: it is no JSON in UTF-8, has a key twice, or nests too deep.
    """
    try:
        value = msgspec.json.decode(content, type=kind)
        read_plain(content if isinstance(content, str) else content.decode())
    except msgspec.DecodeError as error:
        # A text that ends too early may look like a wrong type: the syntax comes first.
        found = _syntax_error(content)
        raise (msgspec.DecodeError(found) if found else error) from None
    except UnicodeDecodeError as error:
        raise msgspec.DecodeError(f"it must be UTF-8: {error.reason}") from None
    except RecursionError:
        raise msgspec.DecodeError("it nests too deep") from None
    except ValueError as error:
        raise msgspec.DecodeError(str(error)) from None
    return value


def _syntax_error(content: bytes | str) -> str:
    """Return how a text breaks the syntax of JSON, and in which line; "" if it does not."""
    try:
        json.loads(content)
    except json.JSONDecodeError as error:
        return f"{error.msg}, line {error.lineno}"
    except (RecursionError, ValueError):
        return ""
    return ""


def read_plain(text: str) -> object:
    """Return the value of a JSON text, its numbers as their text.

    Raises: ValueError, RecursionError: it is no JSON, has a key twice, or nests too deep.
    """
    return json.loads(
        text,
        object_pairs_hook=_without_repeats,
        parse_int=str,
        parse_float=str,
        parse_constant=_no_constant,
    )


def _without_repeats(pairs: list[tuple[str, object]]) -> dict[str, object]:
    value = dict(pairs)
    if len(value) < len(pairs):
        names: set[str] = set()
        for name, _ in pairs:
            if name in names:
                raise ValueError(f"key {name[:80]!r} stands twice in one object")
            names.add(name)
    return value


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")
