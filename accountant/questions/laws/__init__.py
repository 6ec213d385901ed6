"""Laws of noise: one file for each, with its claim, its sampler and its intervals."""

from __future__ import annotations

from accountant.questions.laws.base import Law as Law
from accountant.questions.laws.base import OneAnswerLaw as OneAnswerLaw
from accountant.questions.laws.base import SessionLaw as SessionLaw
from accountant.questions.laws.table import ACCURACY_FIRST as ACCURACY_FIRST
from accountant.questions.laws.table import FORMS as FORMS
from accountant.questions.laws.table import LAWS as LAWS
from accountant.questions.laws.table import as_claimed as as_claimed
from accountant.questions.laws.table import is_session as is_session
from accountant.questions.laws.table import law_of as law_of
from accountant.questions.laws.table import with_law as with_law
