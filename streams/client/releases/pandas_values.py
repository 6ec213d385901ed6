"""Encodes pandas values as JSON: tables as Arrow bytes where pyarrow can, else as lists."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

from streams.client.releases.equality import is_same

Convert = Callable[[Any], Any]


def encode_pandas(value: Any, encode: Convert) -> list[Any] | None:
    """Return a Series, DataFrame, Timestamp or Timedelta as JSON, None for any other type.

    Args:
        encode: makes JSON of a value within it.
    Raises: TypeError: it contains a value that cannot be stored.
    """
    import pandas as pd

    kind = type(value)
    if value is pd.NaT:
        return ["NaT"]
    if value is pd.NA:
        return ["NA"]
    if kind is pd.Timestamp:
        zone = None if value.tz is None else str(value.tz)
        return ["Timestamp", value.unit, int(value.asm8.astype("int64")), zone, value.fold]
    if kind is pd.Timedelta:
        return ["Timedelta", value.unit, int(value.asm8.astype("int64"))]
    if kind is pd.Series:
        frame = value.to_frame(name=0)
        if (data := _encode_arrow(frame)) is not None:
            return ["Series in Arrow", data, encode(value.name)]
        return ["Series", *_encode_column(value, encode), _encode_index(value.index, encode)]
    if kind is pd.DataFrame:
        if (data := _encode_arrow(value)) is not None:
            return ["DataFrame in Arrow", data]
        columns = [
            _encode_column(value.iloc[:, position], encode) for position in range(value.shape[1])
        ]
        return [
            "DataFrame",
            columns,
            _encode_index(value.index, encode),
            _encode_index(value.columns, encode),
        ]
    return None


def decode_pandas(encoded: list[Any], decode: Convert) -> Any:
    """Return the value that `encode_pandas` made this of."""
    import numpy as np
    import pandas as pd

    kind, *parts = encoded
    if kind == "NaT":
        return pd.NaT
    if kind == "NA":
        return pd.NA
    if kind == "Timestamp":
        unit, count, zone, fold = parts
        moment = pd.Timestamp(np.datetime64(count, unit))
        if zone is not None:
            moment = moment.tz_localize("UTC").tz_convert(zone)
        return moment.replace(fold=fold) if fold != moment.fold else moment
    if kind == "Timedelta":
        return pd.Timedelta(np.timedelta64(parts[1], parts[0]))
    if kind == "Series in Arrow":
        return _decode_arrow(parts[0]).iloc[:, 0].rename(decode(parts[1]))
    if kind == "DataFrame in Arrow":
        return _decode_arrow(parts[0])
    if kind == "Series":
        return _decode_column(parts[:3], _decode_index(parts[3], decode), decode)
    columns, rows, names = parts
    index = _decode_index(rows, decode)
    frame = pd.DataFrame(
        {position: _decode_column(each, index, decode) for position, each in enumerate(columns)},
        index=index,
    )
    frame.columns = _decode_index(names, decode)
    return frame


def _encode_arrow(frame: Any) -> str | None:
    """Return a frame as Arrow bytes, None if decoding would return another frame."""
    try:
        import pyarrow as pa

        table = pa.Table.from_pandas(frame)
        buffer = pa.BufferOutputStream()
        with pa.ipc.new_stream(buffer, table.schema) as writer:
            writer.write_table(table)
        data = base64.b64encode(buffer.getvalue()).decode()
        return data if is_same(frame, _decode_arrow(data)) else None
    except Exception:  # Arrow cannot encode it: use lists
        return None


def _decode_arrow(data: str) -> Any:
    import pyarrow as pa

    return pa.ipc.open_stream(base64.b64decode(data)).read_all().to_pandas()


def _encode_column(series: Any, encode: Convert) -> list[Any]:
    """Return the type, values and name of a column."""
    import numpy as np

    if series.dtype == object:
        return ["object", encode(series.tolist()), encode(series.name)]
    if isinstance(series.dtype, np.dtype):
        return ["numpy", encode(series.to_numpy()), encode(series.name)]
    return [str(series.dtype), encode(series.tolist()), encode(series.name)]


def _decode_column(encoded: list[Any], index: Any, decode: Convert) -> Any:
    import pandas as pd

    dtype, values, name = encoded
    decoded = decode(values)
    column_type = None if dtype == "numpy" else dtype
    return pd.Series(decoded, index=index, dtype=column_type, name=decode(name))


def _encode_index(index: Any, encode: Convert) -> list[Any]:
    import pandas as pd

    names = encode([*index.names])
    if type(index) is pd.RangeIndex:
        return ["range", [index.start, index.stop, index.step], names]
    if type(index) is pd.MultiIndex:
        return ["multi", encode(index.tolist()), names]
    freq = getattr(index, "freqstr", None)
    return [str(index.dtype), encode(index.tolist()), names, freq]


def _decode_index(encoded: list[Any], decode: Convert) -> Any:
    import pandas as pd

    kind, values, *rest = encoded
    names = decode(rest[0])
    if kind == "range":
        return pd.RangeIndex(*values, name=names[0])
    if kind == "multi":
        return pd.MultiIndex.from_tuples(decode(values), names=names)
    index = pd.Index(decode(values), dtype=kind, name=names[0])
    if rest[1] is not None:
        index.freq = rest[1]
    return index
