"""Exact noise from random bits: every number is an integer or a fraction, never a float.

Samplers get their bits as an argument; `secrets.randbits` is such a source. Values and scales
are in steps of the grid where nothing else is said. docs/reference/noise.md
"""

from __future__ import annotations

from accountant.noise.bits import RandomBits
from accountant.noise.choose import choose
from accountant.noise.discrete_gaussian import discrete_gaussian
from accountant.noise.discrete_laplace import discrete_laplace
from accountant.noise.gaussian_refinement import GaussianRefinement
from accountant.noise.laplace_reduction import LaplaceReduction
from accountant.noise.rounded_normal import rounded_normal

__all__ = [
    "GaussianRefinement",
    "LaplaceReduction",
    "RandomBits",
    "choose",
    "discrete_gaussian",
    "discrete_laplace",
    "rounded_normal",
]
