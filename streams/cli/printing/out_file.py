"""`--out FILE`: what a command would print, in a file that is there as a whole or not at all.

A shell empties the file after `>` before the command starts, whatever the command then does.
"""

from __future__ import annotations

import contextlib
import errno
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final

import typer

from streams.cli.printing.exit_codes import Exit
from streams.cli.printing.exits import fail
from streams.cli.printing.safe_streams import output_is_open_to_others
from streams.error_words import write_words
from streams.errors import Refused
from streams.files.whole_files import write_whole

Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="FILE",
        help="Write to a new file (mode 0600) instead of stdout, as a whole or not at all.",
    ),
]
Replace = Annotated[
    bool, typer.Option("--replace", help="Replace the file of --out, if there is one.")
]


_OF_A_WRITE: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})


@contextlib.contextmanager
def output_in(out: Path | None, *, replace: bool) -> Iterator[None]:
    """Write what the block prints to a file, once it has ended without an error.

    Args:
        out: None for stdout.
    Raises: Refused: the file cannot be written.
    """
    if out is None:
        if replace:
            fail(Exit.USAGE, "--replace needs a file", hint="add --out FILE")
        yield
        return
    is_in_block = False
    try:
        with write_whole(out, replace=replace) as file:
            text = io.TextIOWrapper(file, encoding="utf-8", write_through=True)
            with contextlib.redirect_stdout(text):
                is_in_block = True
                yield
            is_in_block = False
            text.flush()
            text.detach()  # it would close the file
    except OSError as error:
        if is_in_block and error.errno not in _OF_A_WRITE:
            raise
        if isinstance(error, FileExistsError):
            fail(Exit.USAGE, f"{out} exists", hint="name another file, or add --replace")
        raise Refused(f"{out} cannot be written: {write_words(error, out)}") from error


def check_secret_output(out: Path | None) -> None:
    """Check that a secret is not printed into a file that other users may read."""
    if out is None and output_is_open_to_others():
        hint = "write it with --out FILE, which makes a file for you alone"
        fail(Exit.USAGE, "stdout is a file that other users may read", hint=hint)
