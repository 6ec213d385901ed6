"""What commands write as Parquet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from streams.cli.printing.exit_codes import Exit
from streams.cli.printing.exits import fail


def check_parquet() -> None:
    """End the command where Parquet cannot be written: it names the extra to install."""
    from streams.errors import install_command
    from streams.files.parquet import missing_parquet

    if missing_parquet():
        hint = f"run {install_command('parquet')}"
        fail(Exit.USAGE, "--parquet needs pyarrow, which is not installed", hint=hint)


def write_parquet_file(
    file: Path, columns: Sequence[str], rows: Sequence[Mapping[str, Any]]
) -> None:
    """Write a table to a file, as a whole."""
    from streams.files.parquet import write_parquet
    from streams.files.whole_files import write_whole

    with write_whole(file, replace=True, mode=0o666) as out:
        write_parquet(out, columns, rows)
