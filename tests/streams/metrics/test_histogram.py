from __future__ import annotations

from bisect import bisect_left

from hypothesis import given
from hypothesis import strategies as st

from streams.metrics.histogram import RECORDS, SECONDS, Histogram

NOW = 1_795_262_400_000


@given(st.lists(st.integers(-20_000, 500), min_size=1, max_size=50))
def test_ages_in_bulk_equal_ages_one_by_one(offsets: list[int]) -> None:
    together, one_by_one = Histogram(SECONDS), Histogram(SECONDS)
    together.observe_ages([NOW + offset for offset in offsets], NOW)
    for offset in offsets:
        one_by_one.observe(max(0, -offset) / 1000)
    counted, expected = together.buckets(), one_by_one.buckets()
    assert counted.counts == expected.counts
    assert abs(counted.total - expected.total) < 1e-6


@given(st.lists(st.integers(1, 20_000), max_size=50))
def test_a_value_at_a_bound_is_in_its_bucket(sizes: list[int]) -> None:
    histogram = Histogram(RECORDS)
    for size in sizes:
        histogram.observe(size)
    buckets = histogram.buckets()
    assert sum(buckets.counts) == len(sizes)
    for size in sizes:
        assert buckets.counts[bisect_left(RECORDS, size)] > 0
    assert buckets.total == sum(sizes)


def test_a_view_does_not_change_with_the_histogram() -> None:
    histogram = Histogram(SECONDS)
    histogram.observe(0.3)
    before = histogram.buckets()
    histogram.observe(0.3)
    assert sum(before.counts) == 1
