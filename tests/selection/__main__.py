"""`make test-changed`: run the tests that a change may make fail."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.selection.selection import (
    OPT_IN,
    Selection,
    changed_since,
    graph_of,
    reached_by,
    select,
)

ROOT = Path(__file__).parents[2]
OPENS = ()
STARTS = ()
_NO_TESTS = 5  # pytest's exit code where every test of the files is left out


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.selection", description=__doc__)
    parser.add_argument("--since", default="HEAD", metavar="COMMIT", help="compare with this")
    parser.add_argument("--list", action="store_true", help="list the test files, and run none")
    parser.add_argument("--reach", metavar="PATH", help="list what a change of a path reaches")
    parser.add_argument("pytest", nargs="*", help="arguments of pytest, after --")
    given = parser.parse_args(arguments)
    if given.reach:
        graph = graph_of(ROOT)
        found = reached_by(graph, given.reach.rstrip("/"))
        print(*found, sep="\n")
        print(f"{given.reach} reaches {len(found)} of {len(graph.reaches)} test files")
        return 0
    try:
        changed = changed_since(ROOT, given.since)
    except subprocess.CalledProcessError:
        print(f"git cannot compare with {given.since}: name a commit", file=sys.stderr)
        return 2
    print(f"Changed since {given.since}, what is not committed included:")
    print(*(f"  {path}" for path in sorted(changed)), sep="\n")
    selection = select(graph_of(ROOT, changed), changed)
    _explain(selection)
    if given.list:
        print(
            *(f"  {path}  (repeated as by night)" for path in sorted(selection.directly)), sep="\n"
        )
        print(*(f"  {path}" for path in sorted(selection.others)), sep="\n")
        return 0
    return _run(selection, given.pytest) if changed else 0


def _explain(selection: Selection) -> None:
    if not selection.changed:
        print("Nothing changed: no test runs.")
        return
    print(
        f"{len(selection.files)} of {selection.of} test files run: {len(selection.directly)} with "
        f"the repetitions of `make nightly`, {len(selection.always)} because something that they "
        "use does not declare what it opens or starts."
    )
    if selection.everything:
        print(f"Every test runs: {selection.everything}.")
    for name in OPT_IN:
        if any(path.startswith(f"tests/{name}/") for path in selection.files):
            print(f"Tests in tests/{name} are among them; only `make test-{name}` runs them.")


def _run(selection: Selection, options: Sequence[str]) -> int:
    failed = 0
    for files, nightly in ((selection.directly, True), (selection.others, False)):
        if not files:
            continue
        environment = {k: v for k, v in os.environ.items() if k != "NIGHTLY"}
        if nightly:
            environment["NIGHTLY"] = "1"
        sys.stdout.flush()  # before pytest writes
        command = [sys.executable, "-m", "pytest", *options, *sorted(files)]
        code = subprocess.run(command, cwd=ROOT, env=environment).returncode
        failed = failed or (0 if code == _NO_TESTS else code)
    return failed


if __name__ == "__main__":
    sys.exit(main())
