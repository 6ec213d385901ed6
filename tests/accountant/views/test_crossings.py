"""The alerts of each decision alone are those of whoever folds the whole log."""

from __future__ import annotations

from hypothesis import given, settings

from accountant.records import decode_decision
from accountant.views.alerts import alerts_of_decision
from accountant.views.datasets import Alert, DatasetView, alerts, fold_decision
from tests.accountant.histories import worlds
from tests.accountant.views.test_datasets import BASIC
from tests.accountant.world import World, opened
from tests.nightly import examples


def folded(values: list[bytes]) -> tuple[list[list[Alert]], dict[str, DatasetView]]:
    """Return the alerts of each decision, and the views at the end."""
    views: dict[str, DatasetView] = {}
    found = []
    for decision in map(decode_decision, values):
        name = decision.dataset
        before = None if name is None else views.get(name)
        after = None if name is None else fold_decision(before, decision)
        found.append([])
        if name is not None and after is not None:
            views[name] = after
            found[-1] += alerts(before, after)
    return found, views


@settings(max_examples=examples(150), deadline=None)
@given(worlds())
def test_no_alert_is_missing_and_only_an_amendment_repeats_one(
    history: tuple[World, list[bytes]],
) -> None:
    values = history[0].log
    expected, views = folded(values)
    reported: set[str] = set()
    for value, wanted in zip(values, expected, strict=True):
        decision = decode_decision(value)
        view = None if decision.dataset is None else views.get(decision.dataset)
        found = [] if view is None else list(alerts_of_decision(decision, view))
        if decision.outcome == "amended":
            # Those that were crossed before the amendment, too; of a dataset that is exhausted by
            # now all of them, since nobody knows whether it was so by then.
            assert set(wanted) <= set(found)
            more = {each.alert_id for each in found} - {each.alert_id for each in wanted}
            assert view is not None
            assert view.exhausted or more <= reported
        else:
            assert found == wanted
        reported |= {each.alert_id for each in found}


def test_an_amendment_alerts_only_if_it_changes_the_thresholds() -> None:
    world = opened(**BASIC)
    world.ask("pure:0.6", dataset="census")
    for fields, count in (({"horizon": "P9D"}, 0), ({"alert_at": ["0.1", "0.5", "0.9"]}, 2)):
        amended = world.amend(**fields)
        view = folded(world.log)[1]["census"]
        found = alerts_of_decision(amended, view)
        assert [each.threshold for each in found] == ["0.1", "0.5"][:count]
