"""Answers as bytes and back: the same value with the same types, or an error.

JSON, with a tag where JSON has no such type. Nothing in it is ever executed.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

_TAG: Final = "$"
_MOST_DEPTH: Final = 50


def encode_answer(value: Any) -> bytes:
    """Return an answer as bytes.

    Takes None, bool, int, float, str, bytes, Decimal, Fraction, complex, lists, tuples, dicts
    whose keys are text, and numpy's numbers and arrays of numbers.

    Raises: TypeError: it is, or holds, something else.
    """
    return json.dumps(_plain(value, 0), allow_nan=False, separators=(",", ":")).encode()


def decode_answer(data: bytes) -> Any:
    """Return the answer that `encode_answer` made these bytes of."""
    return _whole(json.loads(data))


def _plain(value: Any, depth: int) -> Any:
    if depth > _MOST_DEPTH:
        raise TypeError(f"an answer must not nest more than {_MOST_DEPTH} deep")
    kind = type(value)
    if value is None or kind in {bool, int, str}:
        return value
    if kind is float:
        return value if math.isfinite(value) else {_TAG: "float", "is": repr(value)}
    if kind is list:
        return [_plain(each, depth + 1) for each in value]
    if kind is tuple:
        return {_TAG: "tuple", "is": [_plain(each, depth + 1) for each in value]}
    if kind is dict:
        return _plain_dict(value, depth)
    if kind in {bytes, complex, Decimal, Fraction}:
        text = base64.b64encode(value).decode() if kind is bytes else str(value)
        return {_TAG: kind.__name__.lower(), "is": text}
    if kind.__module__ == "numpy" and hasattr(value, "dtype"):
        return _plain_numpy(value)
    raise TypeError(
        f"an answer of type {kind.__module__}.{kind.__qualname__} cannot be stored: return "
        "numbers, text, lists, dicts or numpy arrays, or pass a `codec`"
    )


def _plain_dict(value: dict[Any, Any], depth: int) -> dict[str, Any]:
    if not all(type(key) is str for key in value):
        raise TypeError("an answer's dicts must have text for keys, or pass a `codec`")
    plain = {key: _plain(each, depth + 1) for key, each in value.items()}
    return {_TAG: "dict", "is": plain} if _TAG in plain else plain


def _plain_numpy(value: Any) -> dict[str, Any]:
    if value.dtype.kind not in "biufc":
        raise TypeError(f"a numpy array of {value.dtype} cannot be stored: pass a `codec`")
    data = base64.b64encode(value.tobytes()).decode()
    shape = list(value.shape) if type(value).__name__ == "ndarray" else None
    return {_TAG: "numpy", "dtype": value.dtype.str, "shape": shape, "is": data}


def _whole(plain: Any) -> Any:
    if isinstance(plain, list):
        return [_whole(each) for each in plain]
    if not isinstance(plain, dict):
        return plain
    tag = plain.get(_TAG)
    if tag is None:
        return {key: _whole(each) for key, each in plain.items()}
    if tag == "dict":
        return {key: _whole(each) for key, each in plain["is"].items()}
    if tag == "tuple":
        return tuple(_whole(each) for each in plain["is"])
    if tag == "numpy":
        return _numpy(plain)
    return _SIMPLE[tag](plain["is"])


_SIMPLE: Final[dict[str, Callable[[str], Any]]] = {
    "float": float,
    "bytes": base64.b64decode,
    "complex": complex,
    "decimal": Decimal,
    "fraction": Fraction,
}


def _numpy(plain: dict[str, Any]) -> Any:
    import numpy as np

    flat = np.frombuffer(base64.b64decode(plain["is"]), dtype=np.dtype(plain["dtype"]))
    return flat[0] if plain["shape"] is None else flat.reshape(plain["shape"]).copy()
