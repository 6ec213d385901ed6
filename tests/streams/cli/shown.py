"""What a table of datasets shows, read back from what was printed."""

from __future__ import annotations

from tests.streams.cli.conftest import Command


def counts_shown(accountant: Command, **where: str) -> set[tuple[str, str]]:
    """Return what `dataset list` and `watch --once` show as granted and refused of `census`."""
    shown = set()
    for command in (("dataset", "list"), ("watch", "--once")):
        done = accountant(*command, **where)
        assert done.code == 0, done.err
        lines = done.out.splitlines()
        (row,) = [i for i, line in enumerate(lines) if line.split()[:1] == ["census"]]
        granted, refused = (line.split()[-1] for line in lines[row : row + 2])
        shown.add((granted, refused))
    return shown
