"""What datasets of one population promise together, and when nothing."""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accountant.dataset_ledger import DatasetLedger
from accountant.policy import Policy, guarantee_of, resolve
from accountant.policy.compiled_policy import open_plan
from accountant.times import iso
from accountant.views.datasets import DatasetView, view_of_ledger
from accountant.views.joint import JointGuarantee
from accountant.views.population import (
    joint_after_opening,
    joint_guarantee,
    joint_guarantees,
    not_added_words,
    ordered_before,
    with_joint,
)
from tests.every_case import check_rows

OPENED = 1_795_262_400_000


def view(
    name: str,
    *,
    opened: int = 0,
    granted: int | None = None,
    closed: int | None = None,
    **policy: Any,
) -> DatasetView:
    fields = {"filter": "basic", "epsilon": "1", "delta": "1e-6", "population": "city", **policy}
    ledger = DatasetLedger.new(name, open_plan(resolve(Policy(**fields))), OPENED + opened)
    looked, ended = (None if at is None else iso(OPENED + at) for at in (granted, closed))
    return msgspec.structs.replace(
        view_of_ledger(ledger), granted_at=looked, closed_at=ended, closed=closed is not None
    )


def test_a_joint_guarantee_holds_if_every_dataset_was_fixed_before_any_grant() -> None:
    def check_case(views: list[DatasetView], why: str | None) -> None:
        found = joint_guarantee("city", views, ordered=None)
        assert found == joint_guarantee("city", views[::-1], ordered=None)
        assert found.datasets == tuple(sorted(each.dataset for each in views))
        hidden = joint_guarantee("city", views, lambda view: view.dataset == "a", ordered=None)
        assert hidden.datasets == ("a",)
        assert hidden.others == len(views) - 1
        assert (hidden.epsilon, hidden.delta) == (found.epsilon, found.delta)
        assert hidden.holds == found.holds
        if hidden.why and not str(found.why).endswith("nothing"):
            assert hidden.why == re.sub(r"\b[b-z]\b", "another dataset", str(found.why))
        if why is None:
            assert found.holds
            assert found.epsilon == str(len(views))
        else:
            assert why in str(found.why)
            assert (found.epsilon, found.delta) == (None, None)

    check_rows(
        check_case,
        [
            ([view("a", granted=5), view("b", opened=4)], None),
            (
                [view("a", granted=5), view("b", opened=5)],
                "b was opened after something was granted",
            ),
            (
                [view("a", granted=5), view("b", opened=9)],
                "b was opened after something was granted",
            ),
            (
                [view("a", granted=0)],
                None,
            ),  # its own first grant, in the millisecond of its opening
            ([view("a", granted=0), view("b", granted=3)], "b was opened after"),
            ([view("a", opened=1, granted=1), view("b", granted=2)], None),
            ([view("a", opened=9), view("b", opened=8, granted=9)], "granted on b"),
            ([view("a", granted=5, closed=5), view("b", opened=6)], "granted on a"),
            ([view("a", granted=5), view("b", closed=5)], None),  # the clocks may differ
            ([view("a", granted=5), view("b", opened=6, closed=7)], "b was opened after"),
            ([view("a"), view("b", filter="zcdp", epsilon=None, rho="0.1")], "b promises a rho"),
            ([view("a"), view("b", unit="household")], "a has unit person, b has household"),
            ([view("a"), view("b", neighbours="replace")], "a has neighbours add_remove"),
            ([view("a", delta="0.5"), view("b", delta="0.5")], "reaches 1"),
        ],
    )


def test_a_dataset_closed_unused_does_not_count_in_a_joint_guarantee() -> None:
    used, unused = view("a", granted=5), view("b", closed=4, epsilon="7", unit="household")
    for views in ([used, unused], [view("a"), unused], [view("a"), unused, view("c", closed=0)]):
        found = joint_guarantee("city", views, ordered=None)
        assert (found.datasets, found.others, found.epsilon) == (("a",), 0, "1")
    hidden = joint_guarantee("city", [used, unused], lambda view: view.dataset == "b", ordered=None)
    assert (hidden.datasets, hidden.others, hidden.epsilon) == ((), 1, "1")
    (alone,) = joint_guarantees([unused], ordered=None)
    assert (alone.epsilon, alone.delta, alone.names) == ("0", "0", "no dataset that counts")
    assert with_joint([unused], [unused], ordered=None)[0].joint_guarantee == alone


UNKNOWN = "the ledger's clock was set back, so it is not known whether b was opened after"


@pytest.mark.parametrize(
    ("views", "why"),
    [
        ([view("a", granted=9), view("b", opened=5)], UNKNOWN),  # 5 may be after the reset
        ([view("a", granted=4), view("b", opened=9)], "b was opened after something was granted"),
        ([view("a", opened=4, granted=9), view("b", opened=4, granted=8)], None),
        ([view("a", opened=6, granted=9)], None),  # there is no other to be looked at
        ([view("a", opened=6), view("b", opened=9)], None),  # nothing was looked at
        ([view("a", opened=6), view("b", opened=9, closed=7)], None),
    ],
)
def test_times_after_a_reset_of_the_clock_tell_no_order(
    views: list[DatasetView], why: str | None
) -> None:
    found = joint_guarantee("city", views, ordered=OPENED + 5)
    assert found == joint_guarantee("city", views[::-1], ordered=OPENED + 5)
    assert (found.why or "").startswith(why or "")
    assert found.holds == (why is None)
    hidden = joint_guarantee("city", views, lambda view: False, ordered=OPENED + 5)
    assert not re.search(r"\b[ab]\b", hidden.why or "")
    assert hidden.holds == found.holds
    (never,) = joint_guarantees(views, ordered=0)
    grants = [view for view in views if view.granted_at]
    assert never.holds == (len(views) == 1 or not grants)


def test_a_closing_counts_as_late_where_its_order_is_unknown() -> None:
    views = [view("a", granted=9), view("b", closed=6)]
    assert joint_guarantee("city", views, ordered=None).datasets == ("a",)
    for ordered, epsilon in ((OPENED + 5, "2"), (OPENED + 6, "2"), (OPENED + 7, "1")):
        assert joint_guarantee("city", views, ordered=ordered).epsilon == epsilon


@pytest.mark.parametrize(
    ("resets", "ordered"),
    [
        ([(0, 0)], None),
        ([(0, 0), (0, 0)], None),
        ([(1, 7)], 7),
        ([(2, 7)], 0),
        ([(0, 0), (1, 7)], 0),
        ([(1, 7), (0, 0)], 0),
    ],
)
def test_after_one_reset_of_one_clock_earlier_times_stay_ordered(
    resets: list[tuple[int, int]], ordered: int | None
) -> None:
    assert ordered_before(resets) == ordered


steps = st.tuples(st.sampled_from(["open", "grant", "close"]), st.sampled_from("ab")) | st.tuples(
    st.sampled_from(["pass", "reset"]), st.integers(1, 4)
)


@given(st.lists(steps, min_size=8, max_size=20))
def test_clock_resets_never_produce_a_false_joint_guarantee(
    steps: list[tuple[str, Any]],
) -> None:
    now, resets = 10, (0, 0)
    times: dict[str, dict[str, int]] = {}
    order: dict[str, dict[str, int]] = {}
    for number, (step, what) in enumerate(steps):
        if step == "pass":
            now += what
        elif step == "reset":
            now -= what
            resets = resets[0] + 1, OPENED + now
        elif (step == "open") != (what in times) and "close" not in times.get(what, {}):
            times.setdefault(what, {}).setdefault(step, now)
            order.setdefault(what, {}).setdefault(step, number)
    views = [
        view(name, opened=at["open"], granted=at.get("grant"), closed=at.get("close"))
        for name, at in times.items()
    ]
    for found in joint_guarantees(views, ordered=ordered_before([resets])):
        if not found.holds:
            continue
        looks = {name: at["grant"] for name, at in order.items() if "grant" in at}
        for name, at in order.items():
            if name in found.datasets:
                assert all(at["open"] < look for caller, look in looks.items() if caller != name)
            else:
                assert all(at["close"] < look for look in looks.values())


def test_each_population_is_added_up_by_itself() -> None:
    views = [view("a"), view("b", population="land"), view("c"), view("d", population="city-2")]
    alone = msgspec.structs.replace(view("e"), policy=resolve(Policy(epsilon="1", delta="1e-6")))
    found = joint_guarantees([*views, alone], ordered=None)
    assert [each.population for each in found] == ["city", "city-2", "land"]
    assert found[0] == JointGuarantee(
        population="city", datasets=("a", "c"), epsilon="2", delta="0.000002"
    )


amounts = st.decimals("1e-12", "1000", allow_nan=False, places=25).map(lambda x: f"{x:f}")


@given(st.lists(st.tuples(amounts, st.sampled_from(["0", "1e-9", "0.0001"])), min_size=1))
def test_the_sums_are_exact(budgets: list[tuple[str, str]]) -> None:
    views = [
        view(f"d{i}", epsilon=epsilon, delta=delta) for i, (epsilon, delta) in enumerate(budgets)
    ]
    found = joint_guarantee("city", views, ordered=None)
    promised = [guarantee_of(each.policy) for each in views]
    assert Fraction(Decimal(str(found.epsilon))) == sum(Fraction(e.amount) for e in promised)
    assert Fraction(Decimal(str(found.delta))) == sum(Fraction(e.delta) for e in promised)


def test_an_opening_after_a_grant_ends_the_joint_guarantee() -> None:
    policy = resolve(Policy(filter="basic", epsilon="2", delta="1e-6", population="city"))

    def check_case(views: list[DatasetView], ordered: int | None, before: str, after: str) -> None:
        found = joint_after_opening("new", policy, views, ordered=ordered)
        assert found is not None
        for joint, wanted in zip(found, (before, after), strict=True):
            assert wanted in str(joint.epsilon if joint.holds else joint.why)
        words = not_added_words("new", policy, views, ordered)
        assert words == ("" if found[1].holds else f"nothing any more: {found[1].why}")
        hidden = joint_after_opening("new", policy, views, lambda _: False, ordered=ordered)
        assert hidden is not None
        assert [joint.holds for joint in hidden] == [joint.holds for joint in found]
        assert not re.search(r"\b[bc]\b", str(hidden[1].why))

    granted = [view("b", granted=5), view("c")]
    after_a_grant = "new would be opened after something was granted on b"
    check_rows(
        check_case,
        [
            ([view("b")], None, "1", "3"),
            (granted, None, "2", after_a_grant),
            (granted, OPENED + 9, "2", after_a_grant),
            ([view("b", closed=3), view("c")], None, "1", "3"),
            ([view("b", unit="household")], None, "1", "unit"),
            ([view("b", granted=1), view("c", opened=2)], None, "c was opened", "was opened after"),
        ],
    )


def test_a_reader_that_does_not_know_the_order_says_no_clock_was_set_back() -> None:
    policy = resolve(Policy(filter="basic", epsilon="2", delta="1e-6", population="city"))
    holds = JointGuarantee(population="city", datasets=("b", "c"), epsilon="2", delta="0")
    granted = view("b", granted=5)
    views = [msgspec.structs.replace(each, joint_guarantee=holds) for each in (granted, view("c"))]
    words = not_added_words("new", policy, views, 0)
    assert words == "nothing any more: new would be opened after something was granted on b"


def test_a_dataset_alone_in_its_population_ends_nothing() -> None:
    policy = resolve(Policy(filter="basic", epsilon="2", delta="1e-6", population="city"))
    other = [view("b", population="town", granted=5)]
    assert joint_after_opening("new", policy, other, ordered=None) is None
    alone = resolve(Policy(filter="basic", epsilon="2", delta="1e-6"))
    assert joint_after_opening("new", alone, [view("b", granted=5)], ordered=None) is None
    assert not_added_words("new", alone, [view("b", granted=5)], None) == ""


def test_what_hidden_datasets_make_of_a_guarantee_is_not_promised() -> None:
    policy = resolve(Policy(filter="basic", epsilon="2", delta="1e-6", population="city"))

    def views_with(joint: JointGuarantee) -> list[DatasetView]:
        return [msgspec.structs.replace(view("b"), joint_guarantee=joint)]

    holds = JointGuarantee(population="city", datasets=("b",), others=2, epsilon="3", delta="0")
    assert "perhaps: 2 other datasets" in not_added_words("new", policy, views_with(holds), None)
    broken = JointGuarantee(population="city", datasets=("b",), others=1, why="of another one")
    words = not_added_words("new", policy, views_with(broken), None)
    assert words == "nothing any more: of another one"


def test_a_release_that_did_not_fit_counts_where_the_dataset_was_closed_unused() -> None:
    there = view("there", opened=1, granted=9)
    closed = msgspec.structs.replace(view("closed", opened=1, closed=2), over_budget=True)
    assert joint_guarantee("city", [there, view("closed", opened=1, closed=2)], ordered=None).holds
    broken = msgspec.structs.replace(closed, guarantee="void", recorded=True)
    found = joint_guarantee("city", [there, broken], ordered=None)
    assert found.why == "a release made elsewhere did not fit the budget of closed"
