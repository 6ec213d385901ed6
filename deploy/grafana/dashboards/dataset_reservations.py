"""One dataset: its open reservations, and their deadlines."""

from __future__ import annotations

from deploy.grafana.dashboards.board import Board, override
from deploy.grafana.dashboards.panels import NONE_IS_GOOD, lines, number, query
from deploy.grafana.dashboards.shared import ONE, color, reserved

_COLORS = {
    "reserved": "purple",
    "begun": "blue",
    "lapsed": "orange",
    "broken": "red",
    "final": "text",
}


def reservations(board: Board) -> None:
    """Add the open reservations by state, and when the next ones end."""
    board.row("Reservations", panel_id=15)
    deadline = "privacy_reservation_deadline_timestamp_seconds"
    board.add(
        lines(
            "Open reservations, by state",
            "Reserved: it has not begun. Begun: it has not settled. Lapsed: it did not begin in "
            "time, and can be voided. Broken: it went beyond its maximum. Final: charged in full; "
            "one of the next decisions drops it. No line: no open reservations.",
            [query(f"max by (state) (privacy_reservations{{{ONE}}})", "{{state}}")],
            stacked=True,
            stepped=True,
            beside=True,
            overrides=[override(name, color=color(shade)) for name, shade in _COLORS.items()],
        ),
        panel_id=16,
        width=10,
        height=8,
    )
    board.add(
        number(
            "Reserved",
            "Part of the additive budget that open reservations hold. It comes back when they are "
            "voided, or settle below their maximum.",
            [query(reserved(ONE))],
            unit="percentunit",
            decimals=1,
            line=True,
        ),
        panel_id=17,
        width=4,
        height=8,
    )
    board.add(
        number(
            "Next deadlines",
            "The time until the next reservation can no longer begin, and until the next one that "
            "has begun is charged in full unless it settles.",
            [
                query(f'min({deadline}{{{ONE},state="{name}"}}) - time()', legend, ref=ref)
                for ref, name, legend in (
                    ("A", "reserved", "to begin"),
                    ("B", "begun", "to settle"),
                )
            ],
            unit="dtdurations",
            decimals=0,
        ),
        panel_id=18,
        width=6,
        height=8,
    )
    board.add(
        number(
            "Expiring",
            "Reservations in the last tenth of their time that have not begun, and that have begun "
            "and not settled. Above 0 for ten minutes, an alert fires.",
            [query(f"max by (state) (privacy_reservations_expiring{{{ONE}}})", "{{state}}")],
            levels=NONE_IS_GOOD,
        ),
        panel_id=19,
        width=4,
        height=8,
    )
