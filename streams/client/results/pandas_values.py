"""Values of pandas as JSON: tables as Arrow's bytes where pyarrow can hold them, else as lists."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

from streams.client.results.equality import same

Convert = Callable[[Any], Any]


def encode_pandas(value: Any, plain: Convert) -> list[Any] | None:
    """Return a Series, DataFrame, Timestamp or Timedelta as JSON, None if it is nothing of these.

    Args:
        plain: makes JSON of what is in it.
    Raises: TypeError: it holds what cannot be stored.
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
        if (data := _arrow(frame)) is not None:
            return ["Series in Arrow", data, plain(value.name)]
        return ["Series", *_listed(value, plain), _index(value.index, plain)]
    if kind is pd.DataFrame:
        if (data := _arrow(value)) is not None:
            return ["DataFrame in Arrow", data]
        columns = [_listed(value.iloc[:, place], plain) for place in range(value.shape[1])]
        return ["DataFrame", columns, _index(value.index, plain), _index(value.columns, plain)]
    return None


def decode_pandas(plain: list[Any], whole: Convert) -> Any:
    """Return the value that `encode_pandas` made this of."""
    import numpy as np
    import pandas as pd

    kind, *parts = plain
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
        return _of_arrow(parts[0]).iloc[:, 0].rename(whole(parts[1]))
    if kind == "DataFrame in Arrow":
        return _of_arrow(parts[0])
    if kind == "Series":
        return _unlisted(parts[:3], _unindexed(parts[3], whole), whole)
    columns, rows, names = parts
    index = _unindexed(rows, whole)
    frame = pd.DataFrame(
        {place: _unlisted(each, index, whole) for place, each in enumerate(columns)}, index=index
    )
    frame.columns = _unindexed(names, whole)
    return frame


def _arrow(frame: Any) -> str | None:
    """Return a frame as Arrow's bytes, None where they would not be the same."""
    try:
        import pyarrow as pa

        table = pa.Table.from_pandas(frame)
        held = pa.BufferOutputStream()
        with pa.ipc.new_stream(held, table.schema) as writer:
            writer.write_table(table)
        data = base64.b64encode(held.getvalue()).decode()
        return data if same(frame, _of_arrow(data)) else None
    except Exception:  # whatever Arrow cannot hold: the lists decide
        return None


def _of_arrow(data: str) -> Any:
    import pyarrow as pa

    return pa.ipc.open_stream(base64.b64decode(data)).read_all().to_pandas()


def _listed(series: Any, plain: Convert) -> list[Any]:
    """Return a column's type, values and name."""
    import numpy as np

    if series.dtype == object:
        return ["object", plain(series.tolist()), plain(series.name)]
    if isinstance(series.dtype, np.dtype):
        return ["numpy", plain(series.to_numpy()), plain(series.name)]
    return [str(series.dtype), plain(series.tolist()), plain(series.name)]


def _unlisted(plain: list[Any], index: Any, whole: Convert) -> Any:
    import pandas as pd

    dtype, values, name = plain
    found = whole(values)
    kept = None if dtype == "numpy" else dtype
    return pd.Series(found, index=index, dtype=kept, name=whole(name))


def _index(index: Any, plain: Convert) -> list[Any]:
    import pandas as pd

    names = plain([*index.names])
    if type(index) is pd.RangeIndex:
        return ["range", [index.start, index.stop, index.step], names]
    if type(index) is pd.MultiIndex:
        return ["multi", plain(index.tolist()), names]
    freq = getattr(index, "freqstr", None)
    return [str(index.dtype), plain(index.tolist()), names, freq]


def _unindexed(plain: list[Any], whole: Convert) -> Any:
    import pandas as pd

    kind, values, *rest = plain
    names = whole(rest[0])
    if kind == "range":
        return pd.RangeIndex(*values, name=names[0])
    if kind == "multi":
        return pd.MultiIndex.from_tuples(whole(values), names=names)
    index = pd.Index(whole(values), dtype=kind, name=names[0])
    if rest[1] is not None:
        index.freq = rest[1]
    return index
