"""A dataset whose guarantee is void says so wherever analysts and owners meet it."""

from __future__ import annotations

import pytest

from tests.streams.cli.conftest import Command

WHY = "a release made elsewhere did not fit the budget"
OUTSIDE = ("--at", "2026-01-01", "--evidence", "a table", "--yes")
SHARED = ("--population", "people", "--filter", "basic", "--most-per-request", "1")


@pytest.fixture
def void(opened: Command) -> Command:
    """`census` after a release past its budget."""
    recorded = opened("dataset", "record", "census", "pure:2", *OUTSIDE)
    assert recorded.code == 0, recorded.out + recorded.err
    return opened


def test_a_grant_on_a_void_dataset_warns_of_it_and_says_why(void: Command) -> None:
    said = f"warning: dataset census guarantees nothing any more: {WHY}\n"
    granted = void("ask", "census", "pure:0.01", "--analyst", "ana")
    assert (granted.code, granted.err) == (0, said), granted.out
    tried = void("ask", "census", "pure:0.01", "--analyst", "ana", "--dry-run")
    assert tried.err == said
    assert void("ask", "census", "pure:0.01", "--analyst", "ana", "--json").err == ""
    assert "guarantees nothing" not in void("ask", "census", "pure:3", "--analyst", "ana").err


def test_a_sound_dataset_has_no_warning(opened: Command) -> None:
    assert opened("ask", "census", "pure:0.01", "--analyst", "ana").err == ""
    assert "warning" not in opened("mine", "--analyst", "ana").out


def test_mine_warns_of_a_void_dataset(void: Command) -> None:
    assert void("dataset", "open", "sound", "--epsilon", "1", "--delta", "1e-6").code == 0
    shown = " ".join(void("mine", "--analyst", "ana").out.split())
    assert f"warning: dataset census guarantees nothing any more: {WHY}" in shown
    assert shown.count("warning") == 1


def test_an_opening_into_a_void_lifetime_says_so(accountant: Command) -> None:
    lifetime = ("--lifetime", "4", "--lifetime-shared")
    first = accountant("dataset", "open", "first", "--epsilon", "1", *SHARED, *lifetime)
    assert (first.code, "guarantees nothing" in first.err) == (0, False), first.err
    assert accountant("dataset", "record", "first", "pure:2", *OUTSIDE).code == 0
    why = "guarantees nothing: another dataset of its lifetime guarantees nothing any more"
    second = accountant("dataset", "open", "second", "--epsilon", "1", *SHARED, "--new")
    assert second.code == 0, second.out + second.err
    assert f"note: dataset second {why}" in second.err
    renewed = accountant("dataset", "renew", "second", "third", "--yes")
    assert renewed.code == 0, renewed.out + renewed.err
    assert f"note: dataset third {why}" in renewed.err
    granted = accountant("ask", "third", "pure:0.01", "--analyst", "ana")
    assert granted.err == f"warning: dataset third {why}\n"
