"""Answers: from exact statistics to noisy values, intervals, and bytes to publish."""

from __future__ import annotations

from accountant.answers.answer import FAILED as FAILED
from accountant.answers.answer import FAILED_SESSION as FAILED_SESSION
from accountant.answers.answer import AnswerBounds as AnswerBounds
from accountant.answers.answer import AnswerColumn as AnswerColumn
from accountant.answers.answer import AnswerRow as AnswerRow
from accountant.answers.answer import GroupColumn as GroupColumn
from accountant.answers.answer import NoisyAnswer as NoisyAnswer
from accountant.answers.answer import ShownLevel as ShownLevel
from accountant.answers.answer import StatisticNoise as StatisticNoise
from accountant.answers.answer import decode_answer as decode_answer
from accountant.answers.answer import encode_answer as encode_answer
from accountant.answers.build import Granted as Granted
from accountant.answers.build import answer_of as answer_of
from accountant.answers.build import failed_answer as failed_answer
from accountant.answers.cost import cost_of as cost_of
from accountant.answers.pairs import PairEstimate as PairEstimate
from accountant.answers.pairs import compare_groups as compare_groups
from accountant.answers.run import Noisy as Noisy
from accountant.answers.run import Result as Result
from accountant.answers.run import ShownSession as ShownSession
from accountant.answers.run import run_question as run_question
