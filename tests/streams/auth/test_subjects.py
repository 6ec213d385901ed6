"""Subjects of a provider and the names that the ledger knows them by."""

from __future__ import annotations

import base64

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from accountant.records.names import ESCAPE_MARK, NAME_PATTERN, is_name
from streams.auth.oidc import name_of
from streams.http.refusal import Refusal
from tests.every_case import check_rows

_names = st.from_regex(NAME_PATTERN, fullmatch=True)
_subjects = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=120),
    _names,
    _names.map(lambda name: ESCAPE_MARK + name[:90]),
    _names.map(lambda name: str(name_of(f"|{name[:50]}"))),
)


def _back(name: str) -> str:
    """Return the subject of a name, as whoever reads a log finds it."""
    if not name.startswith(ESCAPE_MARK):
        return name
    text = name.removeprefix(ESCAPE_MARK).upper()
    return base64.b32decode(text + "=" * (-len(text) % 8)).decode()


@given(_subjects)
@example("b32.mf2xi2bqpqyq")
@example("B32.mf2xi2bqpqyq")
def test_each_subject_can_be_recovered_from_its_name(subject: str) -> None:
    name = name_of(subject)
    if isinstance(name, Refusal):
        assert len(ESCAPE_MARK) + -(-len(subject.encode()) * 8 // 5) > 100
        assert name.field == "subject"
        return
    assert is_name(name)
    assert _back(name) == subject  # so no two subjects have one name
    is_plain = is_name(subject) and not subject.startswith(ESCAPE_MARK)
    assert (name == subject) is is_plain


@given(_subjects, _subjects)
def test_two_subjects_never_share_a_name(one: str, other: str) -> None:
    if one != other and isinstance(name_of(one), str):
        assert name_of(one) != name_of(other)


def test_subjects_of_common_providers_get_the_expected_names() -> None:
    def check_case(subject: str, name: str | None) -> None:
        found = name_of(subject)
        assert isinstance(found, str)
        assert found.startswith(ESCAPE_MARK) if name is None else found == name

    check_rows(
        check_case,
        [
            ("117034905738216041927", "117034905738216041927"),
            (
                "f:0b6c3f1e-41dc-4b1f-bd3b-8f0b6a3d2c11:ana",
                "f:0b6c3f1e-41dc-4b1f-bd3b-8f0b6a3d2c11:ana",
            ),
            ("auth0|1", "b32.mf2xi2bqpqyq"),
            ("b32.mf2xi2bqpqyq", "b32.mizteltnmyzhq2jsmjyxa4lzoe"),
            ("repo:lab/census:ref:refs/heads/main", None),
            ("-leading", None),
            ("Zoë", None),
            (" ana", None),
        ],
    )


@pytest.mark.parametrize("subject", [None, 7, ["ana"], "", "\ud800"])
def test_a_subject_that_is_no_text_is_refused(subject: object) -> None:
    assert name_of(subject) == Refusal(401, "subject is no name")


def test_an_escaped_subject_has_at_most_60_bytes() -> None:
    found = name_of("|" * 60)
    assert isinstance(found, str)
    assert len(found) == 100
    refused = name_of("|" * 61)
    assert isinstance(refused, Refusal)
    assert "61 characters" in refused.what
