"""`make figures`: draws the figures of the documentation from the functions that decide."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from research.figures import PICTURES
from research.figures.drawing import save


def main(arguments: Sequence[str] | None = None) -> None:
    """Draw each figure as a file of its name, and print where.

    Args:
        arguments: absent: those of the command line.
    """
    parser = argparse.ArgumentParser(prog="python -m research.figures", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="directory; made if missing")
    parser.add_argument(
        "--only", action="append", choices=PICTURES, help="one figure; may be repeated"
    )
    parser.add_argument("--format", dest="kind", choices=("png", "svg", "pdf"), default="png")
    given = parser.parse_args(arguments)
    given.out.mkdir(parents=True, exist_ok=True)
    for name in dict.fromkeys(given.only or PICTURES):
        sys.stdout.write(f"{save(PICTURES[name](), given.out, kind=given.kind)}\n")


if __name__ == "__main__":
    main()
