"""Doubling, the baseline of accuracy first: a fresh answer in each round, at twice the cost."""

from __future__ import annotations

import msgspec

from accountant.amounts import format_units, units_down
from accountant.errors import RequestInvalid
from accountant.questions.accuracy_first import MAX_LEVELS
from accountant.questions.laws import is_session
from accountant.questions.noise import Noise
from accountant.questions.noise_wanted import check_noise_wanted


def doubling_rounds(first: Noise, *, rounds: int) -> tuple[Noise, ...]:
    """Return the noise of each round: epsilon or rho doubles from one to the next, exactly.

    Each round is a request of its own, charged in full beside those before it: n rounds cost
    2^n - 1 times the first, just below twice the last. The first is rounded down to 1e-40.
    Source: Rogers 2023 section 7.1.

    Args:
        first: of the first round, with an epsilon or a rho, and of one answer.
        rounds: 1 to 64.
    Raises: RequestInvalid: another noise or number of rounds, or a round's amount is too large.
    """
    check_noise_wanted(first)
    if first.form not in {"epsilon", "rho"}:
        raise RequestInvalid("noise", "must be an epsilon or a rho to double", first.form)
    if is_session(first):
        rule = "must be of one answer: each round is a request of its own"
        raise RequestInvalid("noise.law", rule, str(first.law))
    if not 1 <= rounds <= MAX_LEVELS:
        raise RequestInvalid("rounds", f"must be between 1 and {MAX_LEVELS}", rounds)
    units = units_down(first.amount)
    return tuple(
        check_noise_wanted(
            msgspec.structs.replace(first, **{first.form: format_units(units << past)})
        )
        for past in range(rounds)
    )
