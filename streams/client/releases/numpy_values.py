"""Encodes numpy values as JSON, in numpy's own file format without pickle."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable
from typing import Any, Final

_MAX_HEADER: Final = 1_000_000  # bytes of the description of a structured type


def encode_numpy(value: Any, to_json: Callable[[Any], Any]) -> list[str] | None:
    """Return a scalar, array or matrix as JSON, None for any other type.

    Raises: TypeError: it contains objects.
    """
    import numpy as np

    kind = type(value)
    if kind is np.ndarray:
        shape = "array"
    elif kind is np.matrix:
        shape = "matrix"
    elif isinstance(value, np.generic) and kind is value.dtype.type:
        shape = "scalar"
    else:
        return None
    buffer = io.BytesIO()
    try:
        np.save(buffer, np.asarray(value), allow_pickle=False)
    except ValueError as error:
        raise TypeError(
            f"a numpy value of dtype {value.dtype} cannot be stored: pass a `codec`"
        ) from error
    return [shape, base64.b64encode(buffer.getvalue()).decode()]


def decode_numpy(plain: list[str]) -> Any:
    """Decode a value of `encode_numpy`."""
    import numpy as np

    shape, data = plain
    buffer = io.BytesIO(base64.b64decode(data))
    array = np.load(buffer, allow_pickle=False, max_header_size=_MAX_HEADER)
    if shape == "matrix":
        return np.asmatrix(array)
    return array[()] if shape == "scalar" else array
