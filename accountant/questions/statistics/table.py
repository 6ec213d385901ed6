"""The table of statistics: what an analyst can ask, alone or several at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, get_args

from accountant.questions.statistics.base import StatisticQuestion
from accountant.questions.statistics.count import CountQuestion
from accountant.questions.statistics.histogram import HistogramQuestion
from accountant.questions.statistics.mean import MeanQuestion
from accountant.questions.statistics.quantile import QuantileQuestion
from accountant.questions.statistics.std import StdQuestion
from accountant.questions.statistics.sum import SumQuestion
from accountant.questions.statistics.top import TopQuestion
from accountant.questions.statistics.variance import VarianceQuestion

Statistic = (
    CountQuestion
    | SumQuestion
    | MeanQuestion
    | VarianceQuestion
    | StdQuestion
    | QuantileQuestion
    | HistogramQuestion
    | TopQuestion
)

STATISTICS: Final[dict[str, type[StatisticQuestion]]] = {
    str(each.__struct_config__.tag): each for each in get_args(Statistic)
}
"""Each statistic by the word that it has on the wire and in texts."""


def _words() -> dict[str, tuple[type[StatisticQuestion], Mapping[str, Any]]]:
    words = dict[str, tuple[type[StatisticQuestion], Mapping[str, Any]]]()
    for name, statistic in STATISTICS.items():
        words |= {word: (statistic, given) for word, given in statistic.shorthands.items()}
        words[name] = statistic, {}
    return words


WORDS: Final = _words()
"""The words with which a question may begin: statistics, and the arguments that a word gives."""
