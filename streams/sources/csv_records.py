"""A CSV file as records: one of each line, and of that line alone.

A line ends at a line feed or at the end of the file; a carriage return before that is not part of
it. Cells are those of Python's csv module, given that line alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec

from streams.files.regular_files import open_regular
from streams.sources.quoted import text_literal

_MOST_BYTES: Final = 2_000_000
"""Of a line, without its end."""
_BLOCK: Final = 2**20
BOM: Final = b"\xef\xbb\xbf"


class LineFlaws(msgspec.Struct, frozen=True, kw_only=True):
    """Lines of CSV that are probably not read as they were meant.

    Attributes:
        open_quotes: lines that end inside quotes: a line break within a cell, or a quote too much.
        not_utf8: lines that are dropped.
    """

    open_quotes: int
    not_utf8: int


class CsvRecords:
    """The lines of a CSV file after its first, for DuckDB to read as often as it needs them.

    SQL splits each line where every delimiter ends a cell and no cell has a quote in it; other
    lines are split here. DuckDB's own reader of CSV keeps a state between lines: a quote without
    its end takes the lines that follow it, and a carriage return moves the end of a line.

    Attributes:
        names: the cells of the file's first line; none if that line is dropped.
        fault: what kept the file from being read; DuckDB's own error names none.
    """

    def __init__(self, path: Path, delimiter: str, *, block_bytes: int = _BLOCK) -> None:
        """Read the first line.

        Args:
            delimiter: one ASCII character.
            block_bytes: to read at once, fewer than a line may have.
        Raises: OSError
        """
        self.fault: OSError | MemoryError | None = None
        self._path = path
        self._delimiter = delimiter
        # Possessive, so that a long line needs no memory to go back.
        quoted = r'"([^"]*+(?:""[^"]*+)*+)"?'
        self._cell = re.compile(rf"(?:\A|[{delimiter}])(?:{quoted})?+([^{delimiter}]*+)")
        plain = rf'[^"{delimiter}\n]*+'
        self._plain = re.compile(rf'(?:(?:"{plain}"|{plain})[{delimiter}\n])*+'.encode())
        self._block_bytes = block_bytes
        with open_regular(path) as file:
            first = _first_line(file)
        text = first.removesuffix(b"\n").removesuffix(b"\r")
        self.names = self._cells(text) if text and _is_utf8(text) else []

    def sql(self, table: str, columns: Sequence[int]) -> str:
        """Return the SQL of columns `x0`, `x1`, ...: NULL for an empty cell, or one that is absent.

        Args:
            table: the name by which DuckDB has these records.
            columns: positions in the file.
        """
        cells = f"coalesce(cells, string_split(line, {text_literal(self._delimiter)}))"
        texts = ["NULL AS x", *(f"nullif(cells[{i + 1}], '') AS x{i}" for i in columns)]
        return f"(SELECT {', '.join(texts)} FROM (SELECT {cells} AS cells FROM {table}))"

    def flaws(self) -> LineFlaws:
        """Count the lines after the first that are probably not read as they were meant.

        Raises: OSError
        """
        open_quotes = not_utf8 = 0
        for block in self._blocks():
            if _is_utf8(block) and (b'"' not in block or self._plain.fullmatch(block)):
                continue
            for line in block.split(b"\n")[:-1]:
                if not _is_utf8(line):
                    not_utf8 += 1
                elif b'"' in line and self._ends_inside_quotes(line.decode()):
                    open_quotes += 1
        return LineFlaws(open_quotes=open_quotes, not_utf8=not_utf8)

    def _ends_inside_quotes(self, line: str) -> bool:
        """Tell whether a line's last quoted cell has no closing quote: it has the line's rest."""
        quoted = [each for each in self._cell.finditer(line) if each[1] is not None]
        return bool(quoted) and not line.startswith('"', quoted[-1].end(1))

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return a new stream from the second line on: what DuckDB asks of an Arrow table."""
        import pyarrow as pa

        schema = pa.schema([("line", pa.string()), ("cells", pa.list_(pa.string()))])
        reader = pa.RecordBatchReader.from_batches(schema, self._noting_faults(schema))
        return reader.__arrow_c_stream__(requested_schema)

    def _noting_faults(self, schema: Any) -> Iterator[Any]:
        try:
            yield from self._batches(schema)
        except (OSError, MemoryError) as error:
            self.fault = error
            raise

    def _batches(self, schema: Any) -> Iterator[Any]:
        """Return batches whose rows have a line for SQL to split, or its cells."""
        import pyarrow as pa

        delimiter, width = self._delimiter.encode(), len(self.names)

        def is_plain(line: bytes) -> bool:
            has_few_cells = line.count(delimiter) < width
            return has_few_cells and self._plain.fullmatch(line + b"\n") is not None

        for block in self._blocks():
            plain, others = block, list[bytes]()
            # SQL splits whole lines: without this bound, lines of delimiters would fill memory.
            has_more_cells = block.count(delimiter) > width * block.count(b"\n")
            is_quoted = b'"' in block and not self._plain.fullmatch(block)
            if is_quoted or has_more_cells or not _is_utf8(block):
                lines = [line for line in block.split(b"\n")[:-1] if _is_utf8(line)]
                others = [line for line in lines if not is_plain(line)]
                plain = b"".join(line + b"\n" for line in lines if is_plain(line))
            if plain:
                lines_of_block = _string_array(plain.replace(b'"', b""), delimiter)
                cells = pa.nulls(len(lines_of_block), schema.field("cells").type)
                yield pa.record_batch([lines_of_block, cells], schema=schema)
            if others:
                texts = [self._cells(line, width) for line in others]
                no_lines = pa.nulls(len(texts), pa.string())
                cells = pa.array(texts, schema.field("cells").type)
                yield pa.record_batch([no_lines, cells], schema=schema)

    def _cells(self, line: bytes, most: int | None = None) -> list[str]:
        """Return the first cells of a line, as Python's csv module does.

        A quote at a cell's start opens it; then a doubled quote is a quote, and a single one
        closes. What follows up to the delimiter is of the cell too. Without a closing quote, it has
        the rest of the line. Any other quote is a character like others.
        """
        found = islice(self._cell.finditer(line.decode()), most)
        return [(each[1] or "").replace('""', '"') + each[2] for each in found]

    def _blocks(self) -> Iterator[bytes]:
        """Return whole lines after the first, without those too long, each with a line feed."""
        with open_regular(self._path) as file:
            _first_line(file)
            while block := file.read(self._block_bytes):
                start = block.rfind(b"\n") + 1
                if start < len(block):
                    block = block[:start] + _line(file, block[start:])
                yield block.replace(b"\r\n", b"\n")


def _first_line(file: BinaryIO) -> bytes:
    if file.read(len(BOM)) != BOM:
        file.seek(0)
    return _line(file)


def _line(file: BinaryIO, start: bytes = b"") -> bytes:
    """Return a line with its end, nothing if it is too long; read to its end in any case."""
    more = file.readline(_MOST_BYTES + 2)
    line = start + more
    while more and not more.endswith(b"\n"):
        more = file.readline(_MOST_BYTES + 2)
    if len(line.removesuffix(b"\n").removesuffix(b"\r")) > _MOST_BYTES:
        return b""
    return line if line.endswith(b"\n") else line + b"\n"


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _string_array(block: bytes, delimiter: bytes) -> Any:
    """Return the lines of a block, each with a delimiter after it: so with an empty cell more."""
    import numpy as np
    import pyarrow as pa

    ends = np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n"))
    offsets = np.zeros(len(ends) + 1, np.int32)
    offsets[1:] = ends + 1
    text = block.replace(b"\n", delimiter)
    return pa.StringArray.from_buffers(len(ends), pa.py_buffer(offsets), pa.py_buffer(text))
