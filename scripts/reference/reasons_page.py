"""Write docs/reference/reasons.md from the program's table of reasons.

    make reference
    python scripts/reference/reasons_page.py --print

Meaning and remedy of each reason are what people read in commands and on pages; the details that
follow them come from reasons_details.md beside this file. Outcomes have their words in
reasons_notes.md; one without is described by the record that it applies.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from print_or_write import print_or_write
from section_order import section_order

from accountant.display.reasons import REASONS
from accountant.records.kinds import KINDS
from accountant.records.outcomes import Outcome, Reason
from streams.gateway.contract.descriptions import description_of

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
OUTCOME: Final = re.compile(r"^\| `(\w+)` \| .*$", re.MULTILINE)
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
    text = NOTES.read_text("utf-8").replace("\nREASONS\n", "\n" + "\n".join(rows) + "\n")
    noted = {found[1]: found[0] for found in OUTCOME.finditer(NOTES.read_text("utf-8"))}
    order = section_order(noted, [str(outcome) for outcome in Outcome])
    outcomes = [noted.get(name) or applied(Outcome(name)) for name in order]
    return text.replace("\n".join(noted.values()), "\n".join(outcomes))


def applied(outcome: Outcome) -> str:
    """Return the row of an outcome without a note: its record is applied."""
    (kind,) = (kind for kind in KINDS if outcome in kind.outcomes)
    summary, _, _ = description_of(kind).partition("\n")
    charged = "the `cost`" if outcome.charges else ""
    return f"| `{outcome}` | The record `{kind.name}` was applied. {summary} | {charged} | 200 |"


if __name__ == "__main__":
    print_or_write(page(), PAGE)
