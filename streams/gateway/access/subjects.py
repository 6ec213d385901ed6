"""The name under which the ledger knows a provider's subject."""

from __future__ import annotations

import base64
from typing import Final

from accountant.records.names import LONGEST_NAME, is_name
from streams.gateway.access.refusal import Refusal

MARK: Final = "b32."
"""What the names of escaped subjects begin with: base32 of the subject's UTF-8 follows."""

_NO_NAME: Final = Refusal(401, "subject is no name")


def name_of(subject: object) -> str | Refusal:
    """Return the name of a subject, which no other subject has.

    A subject that is a name stays as it is. All others are escaped, and so is a name that begins
    with the mark: it would be the name of another subject. A subject is never hashed or cut,
    so that whoever reads the log can tell whose name it is.
    """
    if not isinstance(subject, str) or not subject:
        return _NO_NAME
    if is_name(subject) and not subject.startswith(MARK):
        return subject
    try:
        encoded = base64.b32encode(subject.encode())
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON can hold
        return _NO_NAME
    name = MARK + encoded.decode().rstrip("=").lower()
    if len(name) > LONGEST_NAME:
        return Refusal(
            401,
            "subject too long",
            f"the token's subject has {len(subject)} characters, and would be a name of "
            f"{len(name)}: names have at most {LONGEST_NAME}. Have the provider give a shorter "
            "subject, or name another field by ACCOUNTANT_OIDC_SUBJECT_FIELD",
            "subject",
        )
    return name
