"""Questions: from a schema and what an analyst asks to what runs and what it claims."""

from __future__ import annotations

from accountant.questions.accuracy_first import Level as Level
from accountant.questions.derive import Derivation as Derivation
from accountant.questions.derive import derive as derive
from accountant.questions.doubling import doubling_rounds as doubling_rounds
from accountant.questions.draw import Draw as Draw
from accountant.questions.evaluate import evaluate as evaluate
from accountant.questions.laws import as_claimed as as_claimed
from accountant.questions.laws import is_session as is_session
from accountant.questions.levels import levels_of as levels_of
from accountant.questions.levels import session_law as session_law
from accountant.questions.noise import Noise as Noise
from accountant.questions.noise_wanted import noise_text as noise_text
from accountant.questions.noise_wanted import parse_noise as parse_noise
from accountant.questions.question import CheckedQuestion as CheckedQuestion
from accountant.questions.question import check_question as check_question
from accountant.questions.question import encode_question as encode_question
from accountant.questions.question import statistics_of as statistics_of
from accountant.questions.question_text import parse_question as parse_question
from accountant.questions.question_text import question_text as question_text
from accountant.questions.schema import Schema as Schema
from accountant.questions.schema import check_schema as check_schema
from accountant.questions.schema import encode_schema as encode_schema
from accountant.questions.sensitivity import SelectionStatistic as SelectionStatistic
from accountant.questions.sensitivity import VectorStatistic as VectorStatistic
from accountant.questions.statistics import Question as Question
from accountant.questions.statistics import mean_value as mean_value
from accountant.questions.statistics import variance_value as variance_value
from accountant.questions.stop import Stop as Stop
from accountant.questions.stop import check_stop as check_stop
from accountant.questions.stop import fixed_noise_cost as fixed_noise_cost
from accountant.questions.stop import half_width as half_width
from accountant.questions.stop import parse_stop as parse_stop
from accountant.questions.stop import stop_text as stop_text
from accountant.questions.stop import stops as stops
