"""The grammar of names: of datasets, of people and programs, of what they are grouped by."""

from __future__ import annotations

import base64
import re
import unicodedata
from functools import lru_cache, partial
from typing import Final

from accountant.errors import RequestInvalid
from accountant.look_alikes import latin

# No `/`, which joins names to keys, and nothing that JSON, URLs or Prometheus would escape.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@:-]{0,99}")
_NAME_RULE: Final = (
    "must be 1 to 100 letters, digits, '.', '_', '-', '@' or ':', the first a letter or digit"
)
LONGEST_NAME: Final = 100
ESCAPE_MARK: Final = "b32."
"""Prefix of an escaped subject's name: base32 of the subject's UTF-8 follows."""

# Another spelling is a good suggestion for these alone: another name of a person is another person.
_NAMES_NO_PERSON: Final = frozenset({"dataset", "policy.population", "team"})


def check_name(field: str, text: str) -> None:
    """Check what may name a dataset, an analyst or an owner.

    Raises: RequestInvalid.
    """
    # No cache of long texts.
    if len(text) > LONGEST_NAME or not is_name(text):
        suggest = _name_to_use if field in _NAMES_NO_PERSON else subject_hint
        raise RequestInvalid(field, _NAME_RULE, text, hint=partial(suggest, text))


def escaped_subject(subject: str) -> str:
    """Return the escaped form of a provider's subject, perhaps longer than a name.

    Raises: UnicodeEncodeError: half of a surrogate pair, which JSON can hold.
    """
    return ESCAPE_MARK + base64.b32encode(subject.encode()).decode().rstrip("=").lower()


def subject_hint(text: str) -> str:
    """Return what a person is called whose subject at the provider is no name, "" if nothing."""
    if not text or len(text) > LONGEST_NAME:
        return ""
    try:
        name = escaped_subject(text)
    except UnicodeEncodeError:
        return ""
    if len(name) > LONGEST_NAME:
        return ""
    return (
        f"if it is a subject of your provider, it is named {name} here "
        "(docs/how-to/oidc-sign-in.md, Names of subjects)"
    )


def _name_to_use(text: str) -> str:
    """Return what a person can take instead of a name that breaks the rule, "" if nothing."""
    if len(text) > LONGEST_NAME:
        return ""
    plain = unicodedata.normalize("NFKD", text.strip())
    plain = "".join(each for each in plain if not unicodedata.combining(each))
    if any("a" <= each <= "z" or "A" <= each <= "Z" for each in plain):
        plain = latin(plain)  # a letter of another script among Latin ones is a slip
    if any(each.isalnum() and not each.isascii() for each in plain):
        return ""  # no sign stands for a letter
    # What joins a schema to a table keeps them apart.
    joined = re.sub(r"[^A-Za-z0-9._@:-]+", "_", re.sub(r"\s*[/\\][/\\\s]*", ":", plain))
    name = joined.strip("._@:-")
    return f"use {name}" if len(name) <= LONGEST_NAME and is_name(name) else ""


NAME_PATTERN: Final = _NAME.pattern
"""The grammar of names, for documents that repeat it."""


@lru_cache(maxsize=65_536)
def is_name(text: str) -> bool:
    """Tell whether a text may name a dataset, an analyst or an owner."""
    return _NAME.fullmatch(text) is not None
