"""Field rules of `why`, in addition to the general ones."""

from __future__ import annotations

import re
from typing import Any, Final

from accountant.records.inputs import MAX_PURPOSE
from accountant.records.names import NAME_PATTERN
from accountant.views.usage import OTHERS
from accountant.views.why.forecast import WINDOWS
from accountant.views.why.report import MAX_SHOWN

_Schema = dict[str, Any]
_COUNT: Final[_Schema] = {"type": "integer", "minimum": 0}
_AMOUNT: Final[_Schema] = {"$ref": "#/components/schemas/LedgerAmount"}
_TIME: Final[_Schema] = {"$ref": "#/components/schemas/Time"}
_NAME: Final[_Schema] = {"$ref": "#/components/schemas/Name"}
_RATIO: Final[_Schema] = {"type": "number", "minimum": 0}
_DAY: Final = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_SPENDING: Final[dict[str, _Schema]] = {
    "granted": _COUNT,
    "refused": _COUNT,
    "spent": _AMOUNT,
    "ratio": _RATIO,
}


def _text(pattern: str, description: str) -> _Schema:
    return {"type": "string", "pattern": f"^(?:{pattern})$", "description": description}


OF_WHY: Final[dict[str, dict[str, _Schema]]] = {
    "Why": {
        "budget": _AMOUNT,
        "spent": _AMOUNT,
        "left": _AMOUNT,
        "at": _TIME,
        "state": {"enum": ["open", "exhausted", "halted", "paused", "suspended", "closed"]},
        "by_analyst": {"maxItems": MAX_SHOWN + 2},
        "by_purpose": {"maxItems": MAX_SHOWN + 1},
        "since": _COUNT,
        "only": _NAME,
    },
    "AnalystSpending": _SPENDING
    | {
        "analyst": _text(f"{NAME_PATTERN}|{re.escape(OTHERS)}", "a name, or the sum of all others"),
        "team": _NAME,
    },
    "TeamSpending": _SPENDING
    | {"team": _text(f"(?:{NAME_PATTERN})?", "a team, or none"), "analysts": _COUNT},
    "PurposeSpending": _SPENDING | {"purpose": {"type": "string", "maxLength": MAX_PURPOSE}},
    "WeekSpending": _SPENDING
    | {
        "week": _text(r"[0-9]{4}-W[0-9]{2}", "an ISO week of the ledger's clock, in UTC"),
        "begins": _text(_DAY, "its Monday"),
    },
    "RefusalsByReason": {
        "refused": _COUNT,
        "level": {"enum": ["dataset", "team", "each", "analyst"]},
    },
    "LargestGrant": {"cost": _AMOUNT, "ratio": _RATIO},
    "Forecast": {
        "name": _NAME,
        "days": {"enum": list(WINDOWS)},
        "spent": _AMOUNT,
        "per_day": _RATIO,
        "left": _AMOUNT,
        **dict.fromkeys(("runs_out_at", "earliest", "latest"), _TIME),
    },
}
