"""Print what the last run took, or commit it: `python -m tests.durations DIRECTORY [--commit]`."""

from __future__ import annotations

import argparse
from pathlib import Path

from tests.durations.page import PAGE, page_of
from tests.durations.record import RECORD, ROOT, recorded, write
from tests.durations.report import Run, printed


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.durations", description=__doc__)
    parser.add_argument("directory", type=Path, help="the records of a run")
    parser.add_argument(
        "--commit", action="store_true", help="write them into the committed record and the page"
    )
    options = parser.parse_args()
    run = Run.read(options.directory)
    print(printed(run, recorded()))
    if options.commit:
        write(run.tests)
        PAGE.write_text(page_of(run), encoding="utf-8")
        print(*(file.relative_to(ROOT) for file in (RECORD, PAGE)), sep="\n")


if __name__ == "__main__":
    main()
