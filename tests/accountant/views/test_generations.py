"""What generations of a lifetime promise: together, in a population, and after a false claim."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from accountant.display.datasets import joint_words, lifetime_words, present_guarantee
from accountant.policy import Policy, resolve
from accountant.policy.lifetime import Lifetime, first_generation, next_generation
from accountant.records.requests import Open
from accountant.times import iso
from accountant.views.confirmations import confirmations_of_opening
from accountant.views.datasets import DatasetView
from accountant.views.generations import with_lifetimes
from accountant.views.joint import BOUNDED_EXCESS, BOUNDED_RELEASES
from accountant.views.opening_refusals import lifetime_note, lifetime_of_opening, why_outside
from accountant.views.population import joint_guarantee, not_added_words, with_joint
from tests.accountant.views.test_population import OPENED, view

POLICY = {"filter": "basic", "epsilon": "1", "delta": "1e-6", "population": "city"}
LIFETIME = Lifetime(epsilon="5", delta="1e-5")


def generations(count: int, *, granted: int | None = 5, opened: int = 0) -> list[DatasetView]:
    """Return generations 1 to `count` of a lifetime; something was granted on each but the last."""
    policy = resolve(Policy(**POLICY))
    lifetime = first_generation(LIFETIME, "census", policy)
    found = []
    for number in range(1, count + 1):
        last = number == count
        name = "census" if number == 1 else f"census::{number}"
        shown = view(
            name,
            opened=opened + 100 * (number - 1),
            granted=None if last or granted is None else granted + 100 * (number - 1),
            closed=None if last else opened + 100 * number,
        )
        found.append(
            msgspec.structs.replace(
                shown,
                lifetime=lifetime,
                generation=number,
                renewed_as="" if last else f"census::{number + 1}",
            )
        )
        after = next_generation(lifetime, policy)
        assert after is not None
        lifetime = after
    return found


def test_a_renewal_never_ends_a_joint_guarantee() -> None:
    other = view("other", opened=1, granted=9)
    for count in (1, 2, 4):
        found = joint_guarantee("city", [*generations(count), other], ordered=None)
        assert found.holds, found.why
        assert (found.epsilon, found.delta) == ("6", "0.000011")
        latest = "census" if count == 1 else f"census::{count}"
        assert found.datasets == (latest, "other")


def test_a_lifetime_opened_after_a_look_ends_it() -> None:
    other = view("other", granted=9)
    late = joint_guarantee("city", [*generations(2, opened=10), other], ordered=None)
    assert late.why == "census::2 was opened after something was granted on other"


def test_a_dataset_opened_after_a_grant_on_an_old_generation_ends_it() -> None:
    late = view("late", opened=50)
    found = joint_guarantee("city", [*generations(2, granted=5), late], ordered=None)
    assert found.why == "late was opened after something was granted on census::2"


def test_a_lifetime_that_is_closed_unused_stays_in_the_sum() -> None:
    closed = msgspec.structs.replace(
        generations(1)[0], closed=True, closed_at=iso(OPENED + 2), granted_at=None
    )
    found = joint_guarantee("city", [closed, view("other", opened=1, granted=9)], ordered=None)
    assert found.epsilon == "6"


def test_a_hidden_generation_counts_under_a_name_that_is_seen() -> None:
    views = generations(3)
    found = joint_guarantee("city", views, lambda each: each.dataset == "census::2", ordered=None)
    assert (found.datasets, found.others, found.epsilon) == (("census::2",), 0, "5")
    hidden = [view("seen", opened=1), *views]
    found = joint_guarantee("city", hidden, lambda each: each.dataset == "seen", ordered=None)
    assert (found.datasets, found.others, found.epsilon) == (("seen",), 1, "6")


@pytest.mark.parametrize("state", ["explained", "if_bounded", "void"])
def test_a_false_claim_in_one_generation_counts_in_all(state: Any) -> None:
    first, second = generations(2)
    first = msgspec.structs.replace(first, guarantee=state, lifetime_guarantee=state)
    (shown,) = with_lifetimes([second], [first, second])
    assert shown.lifetime_guarantee == state
    assert shown.guarantee == ""
    assert present_guarantee(shown) != present_guarantee(second)
    if state == "void":
        assert present_guarantee(shown).startswith("none")
        assert not joint_guarantee("city", [first, second], ordered=None).holds
    (joint,) = with_joint([second], [first, second], ordered=None)
    assert joint.lifetime_guarantee == state


def test_the_guarantee_shown_is_the_lifetimes_from_the_first_day() -> None:
    (first,) = generations(1)
    assert present_guarantee(first) == "ε = 5, δ = 1e-5 for all generations together"
    assert lifetime_words(first) == (
        "ε = 5, δ = 1e-5 for all generations since census, of which generation 1 took ε = 1, "
        "δ = 1e-6; ε = 4, δ = 0.000009 remain for later generations"
    )
    assert lifetime_words(generations(2)[0]).endswith("renewed as census::2")
    assert lifetime_words(view("alone")) == ""


def test_the_question_before_the_end_of_a_joint_guarantee_names_what_keeps_it() -> None:
    def question(views: list[DatasetView]) -> str:
        record = Open(version=1, request_id="", dataset="late", by="olga", policy=Policy(**POLICY))
        found = confirmations_of_opening(record, views, ordered=None)
        return next(each.text for each in found if each.code == "ends_joint_guarantee")

    with_one = question([view("other", opened=1, granted=9), *generations(2)])
    assert "promises ε = 6, δ = 0.000011, and would promise nothing together" in with_one
    assert ", or renew census::2 (`accountant dataset renew`), whose next generation" in with_one
    assert "late would be opened after something was granted" in with_one
    assert "another population" in with_one
    without = question([view("other", opened=1, granted=9), view("census")])
    assert "None of these datasets has a lifetime, so none can be renewed." in without


def in_one_lifetime() -> list[DatasetView]:
    """Return three datasets of a population that has a lifetime; the last opened after looks."""
    lifetime = Lifetime(epsilon="5", delta="1e-5", shared=True)
    stored = first_generation(lifetime, "a", resolve(Policy(**POLICY)))
    found = []
    for number, name in enumerate("abc"):
        shown = view(name, opened=100 * number, granted=100 * number + 5)
        found.append(msgspec.structs.replace(shown, lifetime=stored))
        after = next_generation(stored, resolve(Policy(**POLICY)))
        assert after is not None
        stored = after
    return found


def test_a_shared_lifetime_is_the_joint_guarantee_however_late_datasets_open() -> None:
    views = in_one_lifetime()
    found = joint_guarantee("city", views, ordered=None)
    assert (found.epsilon, found.delta, found.datasets) == ("5", "0.00001", ("a", "b", "c"))
    with_other = joint_guarantee("city", [*views, view("other", granted=9)], ordered=None)
    assert with_other.epsilon == "6"
    late = joint_guarantee("city", [*views, view("late", opened=9)], ordered=None)
    assert not late.holds
    hidden = joint_guarantee("city", views, lambda each: each.dataset == "b", ordered=None)
    assert (hidden.datasets, hidden.others, hidden.epsilon) == (("b",), 2, "5")


def test_what_remains_of_a_shared_lifetime_is_the_same_for_all() -> None:
    views = in_one_lifetime()
    shown = with_lifetimes(views, views)
    for each in shown:
        assert lifetime_words(each) == (
            f"ε = 5, δ = 1e-5 for all datasets of population city, of which {each.dataset} took "
            "ε = 1, δ = 1e-6; ε = 2, δ = 0.000007 remain for further datasets and renewals"
        )
        together = "ε = 5, δ = 1e-5 for all datasets of population city together"
        assert present_guarantee(each) == together
    bounded = [msgspec.structs.replace(views[0], guarantee="if_bounded"), *views[1:]]
    words = present_guarantee(with_lifetimes(views[1:], bounded)[0])
    assert words.endswith(
        ", if another dataset of its lifetime released only what was bounded before"
    )
    broken = [msgspec.structs.replace(views[0], guarantee="void"), *views[1:]]
    words = present_guarantee(with_lifetimes(views[1:], broken)[0])
    assert words == "none: another dataset of its lifetime guarantees nothing any more"


def opening(lifetime: Lifetime | None = None, **policy: Any) -> Open:
    return Open(
        version=1,
        request_id="",
        dataset="late",
        by="olga",
        policy=Policy(**{**POLICY, **policy}),
        lifetime=msgspec.UNSET if lifetime is None else lifetime,
    )


def test_an_opening_within_a_shared_lifetime_asks_back_what_it_takes() -> None:
    views = in_one_lifetime()
    record = opening()
    found = confirmations_of_opening(record, views, ordered=None)
    assert [each.code for each in found] == ["takes_from_lifetime"]
    asked = found[0]
    assert (asked.field, asked.value) == ("policy.population", "city")
    taken = "it takes epsilon 1, delta 0.000001 of the lifetime of population city, for ever"
    assert f"{taken}, and epsilon 1, delta 0.000006 remain. Population city keeps" in asked.text
    assert asked.text.endswith("keeps its promise, ε = 5, δ = 0.00001.")
    hidden = confirmations_of_opening(record, views, lambda _: False, ordered=None)
    assert hidden == [], "who sees no dataset of the population owns none, and is refused"
    (void,) = [msgspec.structs.replace(views[0], guarantee="void")]
    (asked,) = confirmations_of_opening(record, [void, *views[1:]], ordered=None)
    assert "Population city promises nothing together: a reservation on a" in asked.text
    (asked,) = confirmations_of_opening(opening(epsilon="1.5"), views, ordered=None)
    assert "remain: too little to renew a, which takes epsilon 1, delta 0.000001; or" in asked.text
    first = opening(Lifetime(epsilon="5", delta="1e-5", shared=True))
    assert confirmations_of_opening(first, [], ordered=None) == []
    assert not_added_words("late", resolve(record.policy), views, None) == ""
    assert why_outside(record, views) == ""
    taken = lifetime_of_opening(record, views)
    assert taken is not None
    assert lifetime_note(taken, record.policy) == (
        "the dataset will guarantee epsilon 5, delta 1e-5 for all datasets of population city "
        "together. It takes epsilon 1, delta 0.000001 of the lifetime of population city, for "
        "ever, and epsilon 1, delta 0.000006 remain"
    )


@pytest.mark.parametrize(
    ("record", "why"),
    [
        (
            opening(epsilon="2.1"),
            "it would take epsilon 2.1, delta 0.000001, and epsilon 2, delta 0.000007 remain",
        ),
        (opening(unit="household"), "another unit, neighbours or kind of guarantee"),
        (opening(filter="zcdp", epsilon=None, rho="0.1", delta="0"), "kind of guarantee"),
        (opening(LIFETIME), "leave the lifetime out"),
        (opening(Lifetime(epsilon="9", shared=True)), "has a lifetime already"),
    ],
)
def test_what_would_be_refused_is_said_and_not_asked_back(record: Open, why: str) -> None:
    views = in_one_lifetime()
    assert why in why_outside(record, views)
    # It would not end the joint guarantee: it would be refused.
    assert confirmations_of_opening(record, views, ordered=None) == []


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"guarantee": "void"}, "a reservation on a released more than its maximum"),
        (
            {"guarantee": "void", "recorded": True, "over_budget": True},
            "a release made elsewhere did not fit the budget of a",
        ),
    ],
)
def test_a_lost_joint_guarantee_names_the_dataset_that_lost_it(change: Any, why: str) -> None:
    first, *others = in_one_lifetime()
    views = [msgspec.structs.replace(first, **change), *others]
    assert joint_guarantee("city", views, ordered=None).why == why
    hidden = joint_guarantee("city", views, lambda each: each.dataset != "a", ordered=None)
    named = why.replace("of a", "of another dataset").replace("on a ", "on another dataset ")
    assert hidden.why == named


def test_an_opening_that_leaves_too_little_for_a_renewal_says_whose() -> None:
    views = in_one_lifetime()
    record = opening(epsilon="1.5")
    taken = lifetime_of_opening(record, views)
    assert taken is not None
    note = lifetime_note(taken, record.policy, views)
    each = "; or ".join(f"{view.dataset}, which takes epsilon 1, delta 0.000001" for view in views)
    too_little = f"too little to renew {each}; or this dataset itself as it is"
    assert note.endswith(f"epsilon 0.5, delta 0.000006 remain: {too_little}")
    less = lifetime_of_opening(opening(epsilon="0.5"), views)
    assert less is not None
    little = lifetime_note(less, opening(epsilon="0.5").policy, views)
    assert little.endswith("0.000006 remain")


@pytest.mark.parametrize(
    ("recorded", "condition"), [(True, BOUNDED_RELEASES), (False, BOUNDED_EXCESS)]
)
def test_a_sum_has_the_condition_of_each_of_its_datasets(recorded: bool, condition: str) -> None:
    first, *others = in_one_lifetime()
    first = msgspec.structs.replace(first, guarantee="if_bounded", recorded=recorded)
    joint = joint_guarantee("city", [first, *others], ordered=None)
    assert (joint.holds, joint.epsilon, joint.condition) == (True, "5", condition)
    assert joint_words(joint) == f"ε = 5, δ = 1e-5, {condition}"
    apart = [view("a", opened=1, granted=9), view("b", opened=2)]
    assert joint_guarantee("city", apart, ordered=None).condition is None
    apart[1] = msgspec.structs.replace(apart[1], guarantee="if_bounded", recorded=recorded)
    assert joint_guarantee("city", apart, ordered=None).condition == condition
    (shown,) = with_joint(others[:1], [first, *others], ordered=None)
    assert present_guarantee(shown).endswith(f"together, {condition}")  # one condition, everywhere
    note = lifetime_note(first.lifetime, first.policy, [first, *others])
    assert f"for all datasets of population city together, {condition}. It takes" in note
    assert ", if" not in lifetime_note(first.lifetime, first.policy, others)
