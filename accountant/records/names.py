"""The grammar of names: of datasets, of people and programs, of what they are grouped by."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import Final

from accountant.errors import RequestInvalid

# No `/`, which joins names to keys, and nothing that JSON, URLs or Prometheus would escape.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@:-]{0,99}")
_NAME_RULE: Final = (
    "must be 1 to 100 letters, digits, '.', '_', '-', '@' or ':', the first a letter or digit"
)
LONGEST_NAME: Final = 100


def check_name(field: str, text: str) -> None:
    """Check what may name a dataset, an analyst or an owner.

    Raises: RequestInvalid.
    """
    # No cache of long texts.
    if len(text) > LONGEST_NAME or not is_name(text):
        raise RequestInvalid(field, _NAME_RULE, text, hint=lambda: _name_to_use(text))


def _name_to_use(text: str) -> str:
    """Return what a person can take instead of a name that breaks the rule, "" if nothing."""
    if len(text) > LONGEST_NAME:
        return ""
    plain = unicodedata.normalize("NFKD", text.strip())
    plain = "".join(each for each in plain if not unicodedata.combining(each))
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
