"""What docs/theory.md says was checked rather than proved."""

from __future__ import annotations

from mpmath import exp, log, mp, mpf


def test_no_order_of_two_laplace_distributions_exceeds_the_stated_rho():
    """Section 1: D_alpha <= alpha (epsilon + e^-epsilon - 1) on a grid of alpha and epsilon."""
    with mp.workdps(120):  # the difference below loses up to 70 digits
        for tenths in range(-120, 31, 5):
            epsilon = mpf(10) ** (mpf(tenths) / 10)
            rho = epsilon + exp(-epsilon) - 1
            for j in range(-60, 61, 3):
                alpha = 1 + mpf(10) ** (mpf(j) / 10)
                weight = alpha / (2 * alpha - 1)
                lost = (alpha - 1) * epsilon
                moments = lost + log(weight + (1 - weight) * exp(-alpha * epsilon - lost))
                assert moments / (alpha - 1) <= alpha * rho


def test_the_mean_loss_of_randomized_response_is_the_stated_rho():
    """P1: no rho below epsilon tanh(epsilon/2) would do."""
    with mp.workdps(60):
        for epsilon in map(mpf, ("1e-6", "0.1", "1", "10")):
            high = exp(epsilon) / (1 + exp(epsilon))
            mean = high * epsilon - (1 - high) * epsilon
            assert abs(mean - epsilon * mp.tanh(epsilon / 2)) <= mpf("1e-50") * epsilon
