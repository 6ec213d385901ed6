"""Statistics: one file for each, with its wire type, its words, and what it is computed from."""

from __future__ import annotations

from accountant.questions.statistics.base import Argument as Argument
from accountant.questions.statistics.base import ChoiceQuestion as ChoiceQuestion
from accountant.questions.statistics.base import EstimateQuestion as EstimateQuestion
from accountant.questions.statistics.base import StatisticQuestion as StatisticQuestion
from accountant.questions.statistics.count import CountQuestion as CountQuestion
from accountant.questions.statistics.histogram import HistogramQuestion as HistogramQuestion
from accountant.questions.statistics.mean import MeanQuestion as MeanQuestion
from accountant.questions.statistics.mean import mean_value as mean_value
from accountant.questions.statistics.quantile import QuantileQuestion as QuantileQuestion
from accountant.questions.statistics.quantile import QuantileScores as QuantileScores
from accountant.questions.statistics.several import MAX_STATISTICS as MAX_STATISTICS
from accountant.questions.statistics.several import Question as Question
from accountant.questions.statistics.several import SeveralQuestion as SeveralQuestion
from accountant.questions.statistics.std import StdQuestion as StdQuestion
from accountant.questions.statistics.sum import SumQuestion as SumQuestion
from accountant.questions.statistics.table import STATISTICS as STATISTICS
from accountant.questions.statistics.table import WORDS as WORDS
from accountant.questions.statistics.table import Statistic as Statistic
from accountant.questions.statistics.top import CategoryCounts as CategoryCounts
from accountant.questions.statistics.top import TopQuestion as TopQuestion
from accountant.questions.statistics.variance import VarianceQuestion as VarianceQuestion
from accountant.questions.statistics.variance import variance_value as variance_value
