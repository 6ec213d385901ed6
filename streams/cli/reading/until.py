"""`--until`: a day, a time, or how long from now."""

from __future__ import annotations

import re
from typing import Final

from streams.cli.printing.exits import Exit, fail

_DURATION: Final = re.compile(r"P(?:([1-9][0-9]{0,4})D|T([1-9][0-9]{0,4})H)")
_HOUR_MS: Final = 3_600_000


def until_of(text: str, now: int) -> str:
    """Return the first moment at which something is over, as the log writes it.

    Args:
        now: milliseconds since 1970.
    """
    from accountant.errors import RequestInvalid
    from accountant.records.given import given_until
    from accountant.times import from_iso, iso

    match = _DURATION.fullmatch(text)
    if match is not None:
        days, hours = match.groups()
        return iso(now + _HOUR_MS * (int(days) * 24 if days else int(hours)))
    try:
        until = given_until(text)
    except RequestInvalid as error:
        rule = "must be P90D, PT8H, a day such as 2027-01-01, or a time with its zone"
        fail(Exit.USAGE, f"--until {rule}, got {error.value}")
    if from_iso(until) <= now:
        hint = "a later day; `accountant member remove` ends a membership now"
        fail(Exit.USAGE, f"--until {text} is over already: it began at {until}", hint=hint)
    return until
