"""The values from which a number has another colour: the thresholds of the alerts.

A change of colour must mean an alert, so both come from the same file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import yaml

from deploy.grafana.dashboards.panels import Steps

_FILE: Final = Path(__file__).parents[2] / "prometheus" / "thresholds.yml"
_READ: Final[dict[str, Any]] = yaml.safe_load(_FILE.read_text(encoding="utf-8"))

RUNBOOKS: Final = str(_READ["runbooks"])


def threshold(name: str) -> float:
    """Return the threshold of an alert; the file has its reason, too."""
    return float(_READ["thresholds"][name]["value"])


SPENT: Final[Steps] = (
    (None, "green"),
    (threshold("budget_half"), "yellow"),
    (threshold("budget_low"), "orange"),
    (threshold("budget_nearly_exhausted"), "red"),
)
BURN: Final[Steps] = (
    (None, "green"),
    (threshold("burn_steady"), "yellow"),
    (threshold("burn_slow"), "orange"),
    (threshold("burn_fast"), "red"),
)
REFUSED: Final[Steps] = ((None, "green"), (threshold("refusal_ratio"), "orange"))
LAG: Final[Steps] = ((None, "green"), (threshold("lag_records"), "orange"))
EXHAUSTION_SECONDS: Final[Steps] = ((None, "red"), (threshold("predicted_seconds"), "green"))
