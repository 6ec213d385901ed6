"""Encodes results as bytes: decoding returns an equal value of the same types, or it fails.

The format is JSON, with a tag for types that JSON lacks. Nothing is executed or pickled. Types are
recognized by identity, not by name. Each encoded value is decoded and compared at once.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import math
import sys
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final
from zoneinfo import ZoneInfo

from streams.client.releases.equality import is_same
from streams.client.releases.numpy_values import decode_numpy, encode_numpy
from streams.client.releases.pandas_values import decode_pandas, encode_pandas

_TAG: Final = "$"
_MAX_DEPTH: Final = 50
_PLAIN_BITS: Final = 64
"""Larger integers are hexadecimal: Python refuses to print thousands of decimal digits."""


def encode_result(value: Any) -> bytes:
    """Return a result as bytes that decode to an equal one of the same type and shape.

    Accepts None, bool, int, float, complex, str, bytes, bytearray, Decimal, Fraction; date, time,
    datetime and timedelta; lists, tuples, sets, frozensets and dicts of these; numpy's
    scalars, arrays and matrices, but not of objects; pandas' Series, DataFrame, Timestamp and
    Timedelta.

    Raises: TypeError: it is of another type, or contains one.
    """
    try:
        data = json.dumps(_to_json(value, 0), allow_nan=False, separators=(",", ":")).encode()
        decoded = decode_result(data)
    except TypeError:
        raise
    except Exception as error:
        raise TypeError(f"{_type_name(value)} cannot be stored: {error}") from error
    if not is_same(value, decoded):
        raise TypeError(
            f"{_type_name(value)} cannot be stored: decoding would return {decoded!r:.80}"
        )
    return data


def decode_result(data: bytes) -> Any:
    """Decode the bytes of `encode_result`."""
    return _from_json(json.loads(data))


def _type_name(value: object) -> str:
    kind = type(value)
    return f"a result of type {kind.__module__}.{kind.__qualname__}"


def _to_json(value: Any, depth: int) -> Any:
    if depth > _MAX_DEPTH:
        raise TypeError(f"a result must not nest more than {_MAX_DEPTH} levels deep")
    kind = type(value)
    if value is None or kind in {bool, str}:
        return value
    if kind is int and value.bit_length() <= _PLAIN_BITS:
        return value
    if kind is float and math.isfinite(value):
        return value
    if kind is list:
        return [_to_json(each, depth + 1) for each in value]
    if kind is dict:
        return _dict_to_json(value, depth)
    if kind in _COLLECTIONS:
        parts = [_to_json(each, depth + 1) for each in value]
        return {_TAG: kind.__name__, "is": parts}
    if kind in _ENCODERS:
        return {_TAG: kind.__name__, "is": _ENCODERS[kind](value)}
    for tag, encode in (("numpy", encode_numpy), ("pandas", encode_pandas)):
        if tag in sys.modules and (
            encoded := encode(value, lambda part: _to_json(part, depth + 1))
        ):
            return {_TAG: tag, "is": encoded}
    raise TypeError(
        f"{_type_name(value)} cannot be stored: return numbers, text, dates, lists, tuples, sets, "
        "dicts, numpy or pandas values, or pass a `codec`"
    )


def _dict_to_json(value: dict[Any, Any], depth: int) -> dict[str, Any]:
    if all(type(key) is str for key in value) and _TAG not in value:
        return {key: _to_json(each, depth + 1) for key, each in value.items()}
    pairs = [[_to_json(key, depth + 1), _to_json(each, depth + 1)] for key, each in value.items()]
    return {_TAG: "dict", "is": pairs}


def _from_json(plain: Any) -> Any:
    if isinstance(plain, list):
        return [_from_json(each) for each in plain]
    if not isinstance(plain, dict):
        return plain
    if _TAG not in plain:
        return {key: _from_json(each) for key, each in plain.items()}
    tag, inner = plain[_TAG], plain["is"]
    if tag == "dict":
        return {_from_json(key): _from_json(each) for key, each in inner}
    if tag in _DECODERS:
        return _DECODERS[tag](inner)
    return _COLLECTION_OF[tag](_from_json(each) for each in inner)


def storable_types() -> tuple[type, ...]:
    """Return the types that can be stored, with numpy's and pandas' if they are imported."""
    kinds = (type(None), bool, str, list, dict, *_COLLECTIONS, *_ENCODERS)
    if (numpy := sys.modules.get("numpy")) is not None:
        kinds += (numpy.ndarray, numpy.matrix)
        kinds += tuple(kind for kind in numpy.sctypeDict.values() if kind is not numpy.object_)
    if (pandas := sys.modules.get("pandas")) is not None:
        kinds += (pandas.Series, pandas.DataFrame, pandas.Timestamp, pandas.Timedelta)
    return kinds


def _encode_bytes(value: bytes | bytearray) -> str:
    return base64.b64encode(value).decode()


def _encode_time(value: dt.datetime | dt.time) -> list[Any]:
    return [value.replace(tzinfo=None).isoformat(), value.fold, encode_zone(value.tzinfo)]


def encode_zone(zone: dt.tzinfo | None) -> str | float | None:
    """Return a time zone as JSON: its key, or its offset in seconds.

    Raises: TypeError: it is of another type.
    """
    if zone is None:
        return None
    if type(zone) is dt.timezone:
        return zone.utcoffset(None).total_seconds()
    if type(zone) is ZoneInfo and zone.key:
        return zone.key
    raise TypeError(
        f"a time with zone {zone!r} cannot be stored: use datetime.timezone or ZoneInfo"
    )


def decode_zone(plain: str | float | None) -> dt.tzinfo | None:
    """Decode a time zone of `encode_zone`."""
    if plain is None:
        return None
    return ZoneInfo(plain) if isinstance(plain, str) else dt.timezone(dt.timedelta(seconds=plain))


def _time_decoder(kind: type[dt.datetime] | type[dt.time]) -> Callable[[list[Any]], Any]:
    def from_json(plain: list[Any]) -> Any:
        return kind.fromisoformat(plain[0]).replace(fold=plain[1], tzinfo=decode_zone(plain[2]))

    return from_json


_COLLECTIONS: Final = (tuple, set, frozenset)
_COLLECTION_OF: Final = {kind.__name__: kind for kind in _COLLECTIONS}
_ENCODERS: Final[dict[type, Callable[[Any], Any]]] = {
    int: hex,
    float: repr,
    complex: lambda value: [repr(value.real), repr(value.imag)],
    bytes: _encode_bytes,
    bytearray: _encode_bytes,
    Decimal: str,
    Fraction: lambda value: [hex(value.numerator), hex(value.denominator)],
    dt.date: dt.date.isoformat,
    dt.datetime: _encode_time,
    dt.time: _encode_time,
    dt.timedelta: lambda value: [value.days, value.seconds, value.microseconds],
}
_DECODERS: Final[dict[str, Callable[[Any], Any]]] = {
    "int": lambda text: int(text, 16),
    "float": float,
    "complex": lambda parts: complex(*map(float, parts)),
    "bytes": base64.b64decode,
    "bytearray": lambda text: bytearray(base64.b64decode(text)),
    "Decimal": Decimal,
    "Fraction": lambda parts: Fraction(*(int(part, 16) for part in parts)),
    "date": dt.date.fromisoformat,
    "datetime": _time_decoder(dt.datetime),
    "time": _time_decoder(dt.time),
    "timedelta": lambda parts: dt.timedelta(*parts),
    "numpy": decode_numpy,
    "pandas": lambda plain: decode_pandas(plain, _from_json),
}
