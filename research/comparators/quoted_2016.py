"""The odometer of 2016 as Whitehouse 2023 quotes it, with its misprints repaired: unproved."""

from __future__ import annotations

from decimal import Decimal

from accountant.amounts import above, precise
from research.comparators.runs import Runs, decimal_above, log_inverse, variance


def quoted_2016_epsilon(runs: Runs, *, delta: Decimal, n: int) -> Decimal:
    """Return the bound in nats, rounded up; V = sum epsilon^2.

    V in [1/n^2, 1]: sqrt(2 V (ln(110 e) + 2 ln(ln(n)/delta))) + V/2.
    Else: sqrt(2 (1/n^2 + V)(1 + ln(1 + n^2 V)/2) ln(4 log2(n)/delta)) + V/2.

    Args:
        delta: delta', in (0, 1).
        n: the number of records, > 1, with ln(n) > delta.
    Raises: ValueError: an argument is out of range.
    Source: Whitehouse 2023 Lemma 4, one logarithm removed and V/2 taken out of the root
        (errata). Its first branch is not Rogers 2016 Thm 6.5.
    """
    v = variance(tuple(runs))
    log = log_inverse(delta)
    with precise():
        if n < 2 or Decimal(n).ln() <= delta:
            raise ValueError(f"n must be above 1, with ln(n) > delta, got {n}")
        log_n = Decimal(n).ln()
        v_up = decimal_above(v)
        if v * n**2 >= 1 and v <= 1:
            factor = 1 + Decimal(110).ln() + 2 * (log_n.ln() + log)
            root = (2 * v_up * factor).sqrt()
        else:
            tail = (4 * log_n / Decimal(2).ln()).ln() + log
            grown = 1 + (1 + n**2 * v_up).ln() / 2
            root = (2 * (1 / Decimal(n**2) + v_up) * grown * tail).sqrt()
        return above(root + v_up / 2, digits=40)
