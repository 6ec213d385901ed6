"""Check what test files declare: run each, and compare with what its processes open.

    .venv/bin/python -m tests.selection.check tests/kafka/test_audit.py ...

Every Python process of this environment records the files of the repository that it opens, modules
included. Programs that are not Python record nothing.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.selection.declared import matches
from tests.selection.reach import Graph
from tests.selection.selection import FOR_ALL, graph_of, modules_of

OPENS = ("**",)
STARTS = ()
ROOT: Final = Path(__file__).parents[2]
_VARIABLE: Final = "RECORD_OPENED_FILES"
_RECORDER: Final = Path(__file__).with_name("recorder.py")
_COMPILED: Final = re.compile(r"(.*/)?__pycache__/([^/.]+)\.[^/]*")


@contextmanager
def recorded(directory: Path) -> Iterator[dict[str, str]]:
    """Yield variables with which every process of this environment records what it opens."""
    hook = Path(sysconfig.get_path("purelib")) / "record_opened_files.pth"
    program = f'"{_VARIABLE}" in os.environ and runpy.run_path({str(_RECORDER)!r})'
    hook.write_text(f"import os, runpy; {program}\n")
    try:
        yield {**os.environ, _VARIABLE: str(directory / "opened")}
    finally:
        hook.unlink()


def opened(record: Path) -> set[str]:
    """Return the paths in a record, from the root, and a module's for its compiled file."""
    found = set[str]()
    for line in set(record.read_text("utf-8").splitlines()):
        path = os.path.relpath(line, ROOT)
        if compiled := _COMPILED.fullmatch(path):
            path = f"{compiled[1] or ''}{compiled[2]}.py"
        if not path.startswith((".", "build/")) and (ROOT / path).is_file():
            found.add(path)
    return found


def undeclared(graph: Graph, test: str, paths: set[str]) -> list[str]:
    """Return the files that a test has opened, and whose change would not select it."""
    reach = graph.reaches[test]
    return sorted(
        path
        for path in paths - {test, _RECORDER.relative_to(ROOT).as_posix()}
        if not reach.has(path)
        and not matches(path, FOR_ALL)
        and not modules_of(graph.sources, path) & reach.modules
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.selection.check")
    parser.add_argument("files", nargs="+", help="test files")
    given = parser.parse_args(arguments)
    graph, wrong = graph_of(ROOT), 0
    for test in given.files:
        with tempfile.TemporaryDirectory() as directory, recorded(Path(directory)) as environment:
            command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", test]
            done = subprocess.run(
                command, cwd=ROOT, env=environment, capture_output=True, text=True
            )
            more = undeclared(graph, test, opened(Path(directory) / "opened"))
        lines = done.stdout.strip().splitlines()
        print(f"{test}: {lines[-1] if lines else done.stderr}", flush=True)
        for path in more:
            print(f"  opens {path}, which it does not declare and does not import")
        wrong += bool(more) and not graph.reaches[test].undeclared
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
