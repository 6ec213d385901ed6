"""Field rules of `why`, in addition to the general ones."""

from __future__ import annotations

import re
from typing import Any, Final

from accountant.records.names import NAME_PATTERN
from accountant.records.rule_checks import MAX_PURPOSE
from accountant.views.usage import OTHERS
from accountant.views.why.forecast import WINDOWS
from accountant.views.why.report import MAX_SHOWN

_Schema = dict[str, Any]
_RATIO: Final[_Schema] = {"type": "number", "minimum": 0}
_DAY: Final = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_SPENDING: Final[dict[str, _Schema]] = {"ratio": _RATIO}


def _text(pattern: str, description: str) -> _Schema:
    return {"type": "string", "pattern": f"^(?:{pattern})$", "description": description}


OF_WHY: Final[dict[str, dict[str, _Schema]]] = {
    "Why": {
        "state": {"enum": ["open", "exhausted", "halted", "paused", "suspended", "closed"]},
        "by_analyst": {"maxItems": MAX_SHOWN + 2},
        "by_purpose": {"maxItems": MAX_SHOWN + 1},
    },
    "AnalystSpending": _SPENDING
    | {"analyst": _text(f"{NAME_PATTERN}|{re.escape(OTHERS)}", "a name, or the sum of all others")},
    "TeamSpending": _SPENDING | {"team": _text(f"(?:{NAME_PATTERN})?", "a team, or none")},
    "PurposeSpending": _SPENDING | {"purpose": {"type": "string", "maxLength": MAX_PURPOSE}},
    "WeekSpending": _SPENDING
    | {
        "week": _text(r"[0-9]{4}-W[0-9]{2}", "an ISO week of the ledger's clock, in UTC"),
        "begins": _text(_DAY, "its Monday"),
    },
    "RefusalsByReason": {"level": {"enum": ["dataset", "team", "each", "analyst"]}},
    "LargestGrant": {"ratio": _RATIO},
    "Forecast": {"days": {"enum": list(WINDOWS)}, "per_day": _RATIO},
}
