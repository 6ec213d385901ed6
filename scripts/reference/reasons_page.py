"""Write docs/reference/reasons.md from the program's table of reasons.

    make reference
    python scripts/reference/reasons_page.py --print

Meaning and remedy of each reason are what people read in commands and on pages; the details that
follow them come from reasons_details.md beside this file.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from print_or_write import print_or_write

from accountant.display.reasons import REASONS
from accountant.records.outcomes import Reason

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PAGE = ROOT / "docs" / "reference" / "reasons.md"
NOTES = HERE / "reasons_notes.md"
DETAILS = HERE / "reasons_details.md"

INVALID: Final = frozenset(
    {
        *(Reason.UNDECODABLE, Reason.OVERSIZE, Reason.INVALID_FIELD, Reason.WRONG_PARTITION),
        *(Reason.ISSUED_IN_FUTURE, Reason.INTERNAL_ERROR),
    }
)
DETAIL: Final = re.compile(r"^\| `(\w+)` \| (.*) \| (.*) \|$", re.MULTILINE)


def page() -> str:
    """Return the page as it must be."""
    rows = ["| reason | outcome | meaning | what to do |", "|---|---|---|---|"]
    found = DETAIL.findall(DETAILS.read_text("utf-8"))
    details = {reason: (more, then) for reason, more, then in found}
    for reason in Reason:
        words, (more, then) = REASONS[reason], details.get(reason, ("", ""))
        outcome = "invalid" if reason in INVALID else "refused"
        meaning, remedy = f"{words.meaning} {more}".strip(), f"{words.remedy} {then}".strip()
        rows.append(f"| `{reason}` | {outcome} | {meaning} | {remedy} |")
    return NOTES.read_text("utf-8").replace("\nREASONS\n", "\n" + "\n".join(rows) + "\n")


if __name__ == "__main__":
    print_or_write(page(), PAGE)
