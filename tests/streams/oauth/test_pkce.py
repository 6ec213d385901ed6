"""The challenge of a verifier, by the vector of RFC 7636, appendix B."""

from __future__ import annotations

import re

from streams.oauth.pkce import challenge_of, new_verifier


def test_the_challenge_is_that_of_the_rfc() -> None:
    verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
    assert challenge_of(verifier) == "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"


def test_each_verifier_is_new_and_has_the_form_of_the_rfc() -> None:
    made = {new_verifier() for _ in range(100)}
    assert len(made) == 100
    assert all(re.fullmatch(r"[A-Za-z0-9._~-]{43,128}", each) for each in made)
