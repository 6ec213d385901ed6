"""Recognise an alert that comes again."""

from __future__ import annotations

from collections.abc import Iterable

from accountant.views.datasets import Alert


class Once:
    """Tells the first of each alert from its repeats.

    The topic, the stream of events and the webhook may each give an alert more than once: after
    a restart, or when an answer was lost. (dataset, generation, threshold) names one, and
    `alert_id` is those three. There are at most twenty thresholds a dataset, so all are kept.

        once = Once(ids_stored_so_far)
        if once.is_new(alert):
            act(alert)
            once.add(alert)  # not before: what fails half-way is to be done again

    Args:
        known: ids of alerts that were dealt with before.

    Attributes:
        ids: those dealt with.
    """

    def __init__(self, known: Iterable[str] = ()) -> None:
        self.ids = set(known)

    def is_new(self, alert: Alert) -> bool:
        """Tell whether an alert was not dealt with yet."""
        return alert.alert_id not in self.ids

    def add(self, alert: Alert) -> None:
        """Note that an alert was dealt with."""
        self.ids.add(alert.alert_id)
