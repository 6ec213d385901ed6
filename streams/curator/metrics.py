"""Metrics of a curator."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from streams.answers.waiting import WaitingQuestions
from streams.clock import Clock
from streams.curator.counts import CuratorCounts


class CuratorMetrics(Collector):
    """Tells how many answers a curator has published, and how long questions wait."""

    def __init__(self, counts: CuratorCounts, clock: Clock) -> None:
        self._counts = counts
        self._clock = clock

    def collect(self) -> Iterator[Metric]:
        counts = self._counts
        answers = CounterMetricFamily(
            "privacy_answers",
            "Answers that this curator has published since its start, by outcome.",
            labels=["outcome"],
        )
        answers.add_metric(["answered"], counts.answered)
        answers.add_metric(["failed"], counts.failed)
        yield answers
        yield CounterMetricFamily(
            "privacy_question_claims_differ",
            "Granted questions whose claim this curator does not derive: none of them has run.",
            value=counts.claim_differs,
        )
        yield _by_source(
            "privacy_source_unexpected_datasets",
            "Open datasets whose schema names this source, and that nobody has named for it.",
            counts.unexpected_datasets,
        )
        yield _by_source(
            "privacy_source_closed",
            "1 while each question on this source is refused or waits.",
            counts.closed_sources,
        )
        yield _by_source(
            "privacy_source_findings",
            "Columns and units of open datasets that this source lacks.",
            counts.source_findings,
        )
        yield GaugeMetricFamily(
            "privacy_curator_running",
            "1 while the curator of this process runs questions; 0 once it has ended.",
            value=int(counts.is_running),
        )
        yield CounterMetricFamily(
            "privacy_questions_ended",
            "Questions that owners have ended while they waited: they failed.",
            value=counts.ended,
        )
        yield GaugeMetricFamily(
            "privacy_answers_not_stored_seconds",
            "For how long this curator cannot store answers or steps; 0 while it can.",
            value=counts.not_stored.seconds(),
        )
        waiting = GaugeMetricFamily(
            "privacy_questions_waiting",
            "Granted questions that have no answer yet, or whose reservation is not settled.",
            labels=["dataset"],
        )
        age = GaugeMetricFamily(
            "privacy_question_wait_seconds",
            "Age of the oldest of them; 0 without any.",
            labels=["dataset"],
        )
        yield from _by_dataset(counts.waiting, self._clock.now(), waiting, age)


class UnansweredMetrics(Collector):
    """Tells of the questions without an answer, as a gateway knows them: it runs none."""

    def __init__(self, waiting: WaitingQuestions, clock: Clock) -> None:
        self._waiting = waiting
        self._clock = clock

    def collect(self) -> Iterator[Metric]:
        number = GaugeMetricFamily(
            "privacy_questions_unanswered",
            "Granted questions whose answer this gateway does not have yet.",
            labels=["dataset"],
        )
        age = GaugeMetricFamily(
            "privacy_question_unanswered_seconds",
            "Age of the oldest of them; 0 without any.",
            labels=["dataset"],
        )
        yield from _by_dataset(self._waiting, self._clock.now(), number, age)


def _by_dataset(
    waiting: WaitingQuestions, now: int, number: GaugeMetricFamily, age: GaugeMetricFamily
) -> Iterator[Metric]:
    """Yield both families with a value for each dataset."""
    oldest = waiting.oldest()
    for dataset, count in waiting.by_dataset().items():
        number.add_metric([dataset], count)
        age.add_metric([dataset], max(0, now - oldest.get(dataset, now)) / 1000)
    yield number
    yield age


def _by_source(name: str, words: str, numbers: Mapping[str, int]) -> GaugeMetricFamily:
    gauge = GaugeMetricFamily(name, words, labels=["source"])
    for source, number in numbers.items():
        gauge.add_metric([source], number)
    return gauge
