"""All datasets: the spent part of each budget, and its burn rate."""

from __future__ import annotations

from typing import Any, Final

from deploy.grafana.dashboards import levels
from deploy.grafana.dashboards.board import UIDS, Board
from deploy.grafana.dashboards.panels import Steps, bars, lines, query, rows, words_to_read
from deploy.grafana.dashboards.shared import CHOSEN, EXHAUSTED, STATES, reserved, state

_SPENT: Final = f"max by (dataset) (privacy_filter_spent_ratio{{{CHOSEN}}})"
_LEFT_SECONDS: Final = (
    f"min by (dataset) (dataset:privacy_filter_time_to_exhaustion_seconds:deriv6h{{{CHOSEN}}}) "
    f"unless ({EXHAUSTED} == 1)"
)
_READ: Final = """
- **Spent and reserved** is the used part of the filter's additive budget: 0 to 100 %, the same
  scale for every dataset. It is *not* a part of epsilon: 10 % of rho is about 30 % of epsilon.
- **Reserved** is the part of it that open reservations hold; some of it may come back.
- **Burn** 1x uses the budget up exactly at the end of its horizon, 2x at half of it.
- **Exhausted** means that the budget is used up, or that a request was refused within 5 % of it.
  Smaller requests may still be granted: a refusal alone is no fault.
- The meaning of each number: `docs/how-to/dashboards.md`.
"""


def _columns() -> dict[str, tuple[str, dict[str, Any]]]:
    to_dataset = {
        "title": "This dataset",
        "url": f"/d/{UIDS['dataset']}?var-dataset=${{__value.raw}}&${{__url_time_range}}",
    }
    gauge = {"type": "gauge", "mode": "basic", "valueDisplayMode": "text"}
    colored = {"type": "color-text"}
    return {
        "dataset": ("dataset", {"links": [to_dataset], "custom__width": 180}),
        "filter": ("filter", {"custom__width": 130}),
        "protects": ("protects", {"custom__width": 110}),
        "Value #A": (
            "spent and reserved",
            {
                "unit": "percentunit",
                "min": 0,
                "max": 1,
                "decimals": 1,
                "thresholds": _steps(levels.SPENT),
                "custom__cellOptions": gauge,
            },
        ),
        "Value #H": ("reserved", {"unit": "percentunit", "decimals": 1, "custom__width": 90}),
        "Value #B": (
            "burn since opening",
            {
                "unit": "suffix:x",
                "decimals": 2,
                "thresholds": _steps(levels.BURN),
                "custom__cellOptions": colored,
            },
        ),
        "Value #C": (
            "exhausted in, at this rate",
            {
                "unit": "dtdurations",
                "decimals": 0,
                "thresholds": _steps(levels.EXHAUSTION_SECONDS),
                "custom__cellOptions": colored,
            },
        ),
        "Value #D": ("refused", {"decimals": 0, "custom__width": 90}),
        "Value #E": (
            "state",
            {"mappings": STATES, "custom__cellOptions": colored, "custom__width": 110},
        ),
        "Value #F": ("generation", {"custom__width": 100}),
    }


def _steps(colors: Steps) -> dict[str, Any]:
    return {
        "mode": "absolute",
        "steps": [{"value": value, "color": shade} for value, shade in colors],
    }


def budgets(board: Board) -> None:
    """Add the spent part of each budget, and its burn rate."""
    board.row("Budgets", panel_id=10)
    info = f"max by (dataset, filter, protects) (privacy_dataset_info{{{CHOSEN}}})"
    refused = f'sum by (dataset) (privacy_requests_total{{{CHOSEN},dataset!="",outcome="refused"}})'
    board.add(
        rows(
            "Datasets",
            "One row for each dataset. Spent and reserved: part of the additive budget; reserved: "
            "the part of it that open reservations hold. Burn: 1x lasts exactly "
            "to the end of the horizon; empty if the policy has none. Exhausted in: when the "
            "budget ends at the rate of the last six hours; empty without spending, and after the "
            "end. Refused: since a worker took the partition over.",
            [
                query(_SPENT, ref="A", table=True),
                query(
                    f"max by (dataset) (privacy_filter_burn_ratio{{{CHOSEN}}})",
                    ref="B",
                    table=True,
                ),
                query(_LEFT_SECONDS, ref="C", table=True),
                query(refused, ref="D", table=True),
                query(state(CHOSEN), ref="E", table=True),
                query(
                    f"max by (dataset) (privacy_dataset_generation{{{CHOSEN}}})",
                    ref="F",
                    table=True,
                ),
                query(info, ref="G", table=True),
                query(reserved(CHOSEN), ref="H", table=True),
            ],
            _columns(),
            sort="spent and reserved",
            descending=True,
        ),
        panel_id=11,
        width=24,
        height=8,
    )
    board.add(
        bars(
            "Spent and reserved",
            "Spent or reserved part of each additive budget, highest first. This is not a part of "
            "epsilon.",
            [query(f"sort_desc({_SPENT})", "{{dataset}}", instant=True)],
            unit="percentunit",
            levels=levels.SPENT,
            most=1,
        ),
        panel_id=12,
        width=8,
        height=9,
    )
    board.add(
        lines(
            "Spent and reserved, over time",
            "Spent or reserved part of each additive budget. It falls only when a reservation "
            "gives something back. The dashed lines are the alerts' thresholds.",
            [query(_SPENT, "{{dataset}}")],
            unit="percentunit",
            levels=levels.SPENT,
            bounds=(0, 1),
            calcs=("lastNotNull",),
            stepped=True,
            beside=True,
        ),
        panel_id=13,
        width=16,
        height=9,
    )
    board.add(
        lines(
            "Burn of the last hour",
            "The ratio of each dataset's spending in the last hour to the planned spending, "
            "without what is reserved: above 1x the budget ends early at this rate. No line: no "
            "spending, or a policy without a horizon.",
            [query(f"dataset:privacy_filter_burn:ratio1h{{{CHOSEN}}}", "{{dataset}}")],
            unit="suffix:x",
            levels=levels.BURN,
            bounds=(None, None),
            powers=True,
            beside=True,
            calcs=("lastNotNull",),
        ),
        panel_id=14,
        width=16,
        height=8,
    )
    board.add(words_to_read("How to read these numbers", _READ), panel_id=15, width=8, height=8)
