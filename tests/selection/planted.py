"""Plant bugs drawn at random, and check that `make test-changed` alone would find each.

    .venv/bin/python -m tests.selection.planted --draw 30 --seed 1

Each bug is planted in a copy of the tree, and the selection is computed there. Of the selected
files, those run that hold tests which the bug's patch names; with `--all`, every selected file.
"""

from __future__ import annotations

import argparse
import gc
import random
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.mutants.planted import Planted, all_planted, apply, copied, run
from tests.selection.selection import Selection, graph_of, select

OPENS = ()
STARTS = ()
_WITHIN_S = 3600


def changed_by(bug: Planted) -> frozenset[str]:
    """Return the files that a planted bug changes."""
    lines = bug.path.read_text("utf-8").splitlines()
    return frozenset(line.split(" b/")[1] for line in lines if line.startswith("diff --git "))


def find(bug: Planted, at: Path, *, whole: bool) -> tuple[bool, Selection]:
    """Plant a bug in a copy of the tree, and return whether the selected tests find it."""
    apply(bug.path, at=at)
    changed = changed_by(bug)
    selection = select(graph_of(at, changed), changed)
    files = set(selection.files)
    if not whole:
        files &= {test.partition("::")[0] for test in bug.caught_by}
    if not files:
        return False, selection
    ran = run(sorted(files), at=at, within=_WITHIN_S)
    caught = any(
        each.is_of(test) and each.is_caught(bug) for each in ran.failures for test in bug.caught_by
    )
    return caught, selection


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.selection.planted")
    parser.add_argument("--draw", type=int, default=30, metavar="N", help="how many bugs")
    parser.add_argument("--seed", type=int, default=1, help="of the draw")
    parser.add_argument("--all", action="store_true", help="run every selected file")
    parser.add_argument("--no-kafka", action="store_true", help="draw none that needs a broker")
    given = parser.parse_args(arguments)
    # `make test-sources` alone has a PostgreSQL.
    bugs = [bug for bug in all_planted() if not bug.needs_postgresql]
    bugs = [bug for bug in bugs if not (given.no_kafka and bug.needs_broker)]
    drawn = random.Random(given.seed).sample(bugs, given.draw)
    missed = 0
    for bug in drawn:
        with tempfile.TemporaryDirectory() as directory:
            caught, selection = find(bug, copied(Path(directory)), whole=given.all)
        gc.collect()  # a graph is 300 MB, and has cycles
        missed += not caught
        says = "found" if caught else "NOT FOUND"
        print(f"{says}: {bug.name}: {len(selection.files)} of {selection.of} files", flush=True)
    print(f"{len(drawn) - missed} of {len(drawn)} planted bugs found")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
