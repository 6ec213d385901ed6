"""The glossary is in order, and every name on the wire that it explains exists."""

from __future__ import annotations

import importlib
import pkgutil
import re
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import get_args

import msgspec

import accountant
import streams.client.http
import streams.gateway
from accountant.claims.claims import Claim
from accountant.filters import FILTERS
from accountant.records.limit_records import Scope, What
from streams.server import access_log

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
TERMS = (REFERENCE / "glossary.md").read_text(encoding="utf-8")
WIRE = (REFERENCE / "wire-names.md").read_text(encoding="utf-8")


# Fields of log lines, of which no type has a list.
_IN_LOGS = {
    name
    for name in ("http_request_id",)
    if f"{name}=" in Path(access_log.__file__).read_text("utf-8")
}


def subclasses(kind):
    for child in kind.__subclasses__():
        yield child
        yield from subclasses(child)


@cache
def wire_names():
    """Return the fields, enum values and choices that records and HTTP bodies may contain."""
    for package in (accountant, streams.gateway, streams.client.http):
        for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            importlib.import_module(module.name)
    names = {name for kind in subclasses(msgspec.Struct) for name in kind.__struct_encode_fields__}
    names |= {value for kind in subclasses(StrEnum) for value in kind}
    names |= {*get_args(Scope), *get_args(What), *FILTERS, *_IN_LOGS}
    return names | {kind.__struct_config__.tag for kind in get_args(Claim)}


EXPLAINED = re.findall(r"^\| `([^`]+)` \|", WIRE, re.MULTILINE)


def test_every_wire_name_in_the_glossary_exists():
    unknown = [name for name in EXPLAINED if name not in wire_names()]
    assert not unknown


def test_names_that_keep_an_old_word_are_explained():
    assert {"level", "left_at", "pace", "each", "follows", "floor", "via"} <= set(EXPLAINED)


def test_terms_are_in_order():
    tables = re.findall(r"\|---\|---\|\n((?:\|.*\n)+)", TERMS)
    assert tables
    for table in tables:
        terms = [row.split("**")[1].lower() for row in table.splitlines()]
        assert terms == sorted(terms)


def test_words_of_every_day_are_explained():
    terms = set(re.findall(r"^\| \*\*([^*]+)\*\*", TERMS, re.MULTILINE))
    wanted = {"answer", "beside", "question", "reservation", "rho", "schema", "session"}
    assert wanted <= terms


def test_no_term_is_explained_twice():
    terms = re.findall(r"^\| \*\*([^*]+)\*\*", TERMS, re.MULTILINE)
    assert len(terms) == len(set(terms)) > 60
    assert sorted(set(EXPLAINED)) == EXPLAINED


def test_a_name_that_is_not_on_the_wire_is_noticed():
    assert "withdrawn" not in wire_names()
