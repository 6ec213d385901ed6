"""The table of the laws of noise, and what follows from it."""

from __future__ import annotations

from typing import Final, cast, get_args

from msgspec import UNSET
from msgspec.structs import replace

from accountant.claims import Claim
from accountant.questions.laws.base import Law, OneAnswerLaw, SessionLaw
from accountant.questions.laws.discrete_gaussian import DiscreteGaussianLaw
from accountant.questions.laws.discrete_laplace import DiscreteLaplaceLaw
from accountant.questions.laws.gaussian_refinement import GaussianRefinementLaw
from accountant.questions.laws.laplace_reduction import LaplaceReductionLaw
from accountant.questions.laws.rounded_gaussian import RoundedGaussianLaw
from accountant.questions.noise import Noise, NoiseForm, NoiseLaw

LAWS: Final[dict[str, Law]] = {
    law.name: law
    for law in (
        DiscreteLaplaceLaw(),
        DiscreteGaussianLaw(),
        RoundedGaussianLaw(),
        LaplaceReductionLaw(),
        GaussianRefinementLaw(),
    )
}
"""Each law by its name."""


def _laws_of(form: NoiseForm) -> tuple[NoiseLaw, ...]:
    laws = [law for law in LAWS.values() if form in law.forms]
    return tuple([law.name for law in sorted(laws, key=lambda law: form not in law.default_of)])


FORMS: Final[dict[NoiseForm, tuple[NoiseLaw, ...]]] = {
    form: _laws_of(form) for form in get_args(NoiseForm)
}
"""The laws that each form may have, its default first."""
ACCURACY_FIRST: Final[tuple[NoiseLaw, ...]] = tuple(
    sorted(law.name for law in LAWS.values() if isinstance(law, SessionLaw))
)
"""The laws of sessions, which show one answer with less and less noise."""


def law_of(noise: Noise) -> Law:
    """Return the law of checked noise: the named one, or its form's default."""
    return LAWS[FORMS[noise.form][0] if noise.law is UNSET else noise.law]


def with_law(noise: Noise, law: str) -> Noise:
    """Return the noise with a law, if it is an error that names none."""
    if noise.error is UNSET or noise.law is not UNSET:
        return noise
    return replace(noise, law=cast(NoiseLaw, law))


def as_claimed(noise: Noise, claim: Claim) -> Noise:
    """Return the noise with the law that a ledger took where the request named none.

    The law depends on the policy, which a reader of the decision need not have: each law of one
    answer has a type of claim of its own.
    """
    for law in LAWS.values():
        if isinstance(law, OneAnswerLaw) and isinstance(claim, law.claim_type):
            return with_law(noise, law.name)
    return noise


def is_session(noise: Noise) -> bool:
    """Tell whether the answer is shown with less and less noise, until a rule stops it."""
    return noise.law in ACCURACY_FIRST
