"""What is typed into a form makes the record that a client would make, or says what is wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest

from accountant.display.numbers import exact_percent, percent_digits
from accountant.errors import RequestInvalid
from accountant.records.members import Member
from streams.client.requests.admin_requests import (
    AdminRequest,
    admin_context,
    limit_fields,
    member_fields,
)
from streams.pages.dataset.form_data import (
    LIMIT,
    MEMBER,
    FormData,
    SentForm,
    filters,
    limit_form,
    limit_record,
    member_form,
    member_record,
    parse_form,
    refill,
    with_error,
)
from streams.pages.dataset.preview_form import claim_of
from streams.pages.dataset.preview_form import parse_query as preview_typed
from tests.streams.pages.dataset.view_examples import level, pace

_ID = "0199a000-0000-7000-8000-000000000000"


def member(*roles: str, **inputs: str) -> FormData:
    ticked = {f"role_{role}": "yes" for role in roles}
    return parse_form(MEMBER, {"request_id": _ID, **inputs, **ticked})


def limit(**inputs: str) -> FormData:
    return parse_form(LIMIT, {"request_id": _ID, **inputs})


def member_made(form: FormData, *, removes: bool = False, as_administrator: bool = False) -> Any:
    sent = SentForm(form, "census", "olga", as_administrator)
    return json.loads(member_record(sent, removes=removes).body)


def limit_made(form: FormData, *, removes: bool = False) -> Any:
    return json.loads(limit_record(SentForm(form, "census", "olga"), removes=removes).body)


def by_client(
    kind: str, fields: dict[str, object], *, reason: str = "", as_administrator: bool = False
) -> Any:
    context = admin_context(
        "olga",
        reason=reason,
        request_id=_ID,
        follows=None,
        wait=1,
        needs_name=True,
        as_administrator=as_administrator,
    )
    return json.loads(AdminRequest(kind, "census", fields, context, _ID).prepare().body)


def test_a_member_form_makes_the_record_of_a_client() -> None:
    form = member("analyst", "owner", member=" ana ", team="red", reason="joins")
    sent = member_fields("ana", roles=["owner", "analyst"], team="red", until=None)
    made = member_made(form, as_administrator=True)
    assert made == by_client("member", sent, reason="joins", as_administrator=True)


def test_a_day_in_a_member_form_begins_at_midnight_utc() -> None:
    form = member("analyst", member="ana", until="2027-01-01")
    assert member_made(form)["until"] == "2027-01-01T00:00:00.000Z"


def test_a_removal_has_no_team_and_no_end() -> None:
    form = member("analyst", member="ana", team="red", until="2027-01-01", reason="left")
    record = member_made(form, removes=True)
    assert record["roles"] == []
    assert record["reason"] == "left"
    assert "team" not in record
    assert "until" not in record


def test_a_limit_form_makes_the_record_of_a_client() -> None:
    form = limit(
        scope="team", name="red", part="12.5 %", pace_part="1", pace_days="30", reserved="5"
    )
    sent = limit_fields(
        "team",
        "red",
        part="0.125",
        policy=None,
        pace=("0.01", "P30D"),
        reserved="0.05",
    )
    assert limit_made(form) == by_client("limit", sent)


def test_a_limit_form_sets_a_separate_budget() -> None:
    form = limit(scope="analyst", name="ana", filter="basic", epsilon="0.5")
    assert limit_made(form)["policy"] == {"filter": "basic", "epsilon": "0.5"}


def test_a_lifted_limit_has_no_other_fields() -> None:
    record = limit_made(limit(scope="team", name="red", part="20"), removes=True)
    assert not {"part", "policy", "pace", "reserved"} & record.keys()


def test_a_limit_of_the_whole_dataset_has_no_name() -> None:
    record = limit_made(limit(scope="dataset", pace_part="10", pace_days="1"))
    assert "name" not in record


@pytest.mark.parametrize(
    ("inputs", "field"),
    [
        ({"scope": "team", "name": "red"}, "part"),
        ({"scope": "team", "name": "red", "filter": "basic"}, "part"),
        ({"scope": "team", "name": "red", "part": "0"}, "part"),
        ({"scope": "team", "name": "red", "part": "101"}, "part"),
        ({"scope": "team", "name": "red", "part": "-1"}, "part"),
        ({"scope": "team", "name": "red", "part": "a fifth"}, "part"),
        ({"scope": "team", "name": "red", "part": "٢٠"}, "part"),
        ({"scope": "team", "name": "", "part": "20"}, "name"),
        ({"scope": "team", "name": "<script>", "part": "20"}, "name"),
        ({"scope": "dataset", "name": "red", "pace_part": "1", "pace_days": "1"}, "name"),
        ({"scope": "nobody", "name": "red", "part": "20"}, "scope"),
        ({"scope": "team", "name": "red", "pace_part": "1"}, "pace_days"),
        ({"scope": "team", "name": "red", "pace_part": "1", "pace_days": "1e9"}, "pace_days"),
        ({"scope": "team", "name": "red", "pace_days": "1"}, "pace_part"),
        ({"scope": "each", "name": "red", "reserved": "10"}, "reserved"),
        ({"scope": "team", "name": "red", "part": "20", "epsilon": "1"}, "epsilon"),
        ({"scope": "team", "name": "red", "epsilon": "-1"}, "epsilon"),
        ({"scope": "team", "name": "red", "filter": "none", "epsilon": "1"}, "filter"),
    ],
)
def test_an_error_in_a_limit_form_belongs_to_its_field(inputs: dict[str, str], field: str) -> None:
    form = limit(**inputs)
    with pytest.raises(RequestInvalid) as found:
        limit_made(form)
    again = with_error(form, found.value)
    assert list(again.errors) == [field]
    assert again.values == form.values


@pytest.mark.parametrize(
    ("roles", "inputs", "field"),
    [
        ((), {"member": "ana"}, "roles"),
        (("king",), {"member": "ana"}, "roles"),
        (("analyst",), {"member": ""}, "member"),
        (("analyst",), {"member": "x" * 101}, "member"),
        (("analyst",), {"member": "ana", "team": "a/b"}, "team"),
        (("analyst",), {"member": "ana", "until": "soon"}, "until"),
        (("owner",), {"member": "ana", "until": "2027-01-01"}, "until"),
        (("analyst",), {"member": "ana", "reason": "x" * 1_001}, "reason"),
    ],
)
def test_an_error_in_a_member_form_belongs_to_its_field(
    roles: tuple[str, ...], inputs: dict[str, str], field: str
) -> None:
    form = member(*roles, **inputs)
    with pytest.raises(RequestInvalid) as found:
        member_made(form)
    assert list(with_error(form, found.value).errors) == [field]


def test_an_invalid_form_id_belongs_to_no_field() -> None:
    form = member("analyst", member="ana")._replace(request_id="mine")
    with pytest.raises(RequestInvalid) as found:
        member_made(form)
    assert list(with_error(form, found.value).errors) == [""]


def test_a_form_filled_from_current_values_makes_the_same_record() -> None:
    known = Member("ana", ("analyst",), "red", "2027-01-01T00:00:00.000Z")
    form = member_form(_ID, known)
    assert form.changes
    assert form.values["until"] == "2027-01-01"
    record = member_made(form)
    assert (record["team"], record["until"]) == ("red", "2027-01-01T00:00:00.000Z")
    current = level("team", "red", "0.05", pace=pace("0.1"))
    again = limit_made(limit_form(_ID, current))
    assert (again["part"], again["pace"]) == ("0.2", {"part": "0.1", "period": "P1D"})


def test_a_form_warns_that_it_replaces_a_filter_it_cannot_show() -> None:
    own = level("team", "red", policy={"filter": "basic", "epsilon": "1"})
    assert not limit_form(_ID, own).errors
    more = level("team", "red", policy={"filter": "renyi", "order": "8", "epsilon": "1"})
    assert "replaces" in limit_form(_ID, more).errors[""]
    assert "basic" in filters()
    assert "renyi" not in filters()


def test_a_refused_record_fills_its_form_again() -> None:
    form = limit(scope="team", name="red", part="20", pace_part="1", pace_days="7", reason="why")
    body = limit_record(SentForm(form, "census", "olga"), removes=False).body
    again = refill("limit", body, "other")
    assert again is not None
    assert again.request_id == "other"
    filled = {name: text for name, text in again.values.items() if text}
    assert filled == {name: text for name, text in form.values.items() if text}
    assert refill("member", body, "other") is None


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ({"kind": "pure", "pure_epsilon": "0.1"}, "pure:0.1"),
        ({"kind": "gaussian", "gaussian_sigma": "20", "gaussian_sensitivity": "1"}, ""),
        ({"kind": "text", "text_claim": "10*gdp:0.01"}, "10*gdp:0.01"),
        ({"kind": "zcdp", "zcdp_rho": "0.1", "times": "3"}, "3*zcdp:0.1"),
    ],
)
def test_a_typed_claim_is_read_from_the_query(query: dict[str, str], text: str) -> None:
    found = claim_of(preview_typed(query))[1]
    assert found == text or not text


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"kind": "pure"}, "pure_epsilon"),
        ({"kind": "pure", "pure_epsilon": "0.1,epsilon=2"}, "pure_epsilon"),
        ({"kind": "pure", "pure_epsilon": "-1"}, "pure_epsilon"),
        (
            {"kind": "laplace", "laplace_scale": "1", "laplace_sensitivity": "x"},
            "laplace_sensitivity",
        ),
        ({"kind": "text", "text_claim": "nothing"}, "text_claim"),
        ({"kind": "pure", "pure_epsilon": "0.1", "times": "0"}, "times"),
        ({"kind": "pure", "pure_epsilon": "0.1", "times": "many"}, "times"),
    ],
)
def test_an_error_in_a_typed_claim_names_its_input(query: dict[str, str], field: str) -> None:
    with pytest.raises(RequestInvalid) as found:
        claim_of(preview_typed(query))
    assert found.value.field == field


def test_an_unknown_kind_of_claim_falls_back_to_pure() -> None:
    assert preview_typed({"kind": "<script>"}).kind == "pure"


@pytest.mark.parametrize("digits", [26, 27, 28, 34, 36])
def test_a_percentage_is_never_rounded(digits: int) -> None:
    typed_in = "99." + "9" * digits
    record = limit_made(limit(scope="team", name="red", part=typed_in, reserved=typed_in))
    assert record["part"] == record["reserved"] == "0.99" + "9" * digits
    assert percent_digits(record["part"]) == typed_in
    assert exact_percent(record["part"]) == f"{typed_in} %"


def test_saving_a_limit_form_unchanged_keeps_the_exact_part() -> None:
    part = "0.0" + "123456789" * 4
    shown = limit_form(_ID, level(scope="team", name="red", part=part))
    assert limit_made(limit(**shown.values))["part"] == part


def test_a_part_typed_instead_of_a_percentage_is_refused_with_a_hint() -> None:
    with pytest.raises(RequestInvalid) as error:
        limit_made(limit(scope="team", name="red", part="0.35"))
    form = with_error(limit(scope="team", name="red", part="0.35"), error.value)
    assert form.errors["part"].startswith(
        "Is less than one percent: write 35 for 35 %, or 0.35 % with the sign if that is meant"
    )
    for name in ("pace_part", "reserved"):
        with pytest.raises(RequestInvalid) as error:
            limit_made(
                limit(
                    scope="team",
                    name="red",
                    **({"pace_part": "5", "pace_days": "1"} | {name: "0.1"}),
                )
            )
        assert error.value.field == name
    assert limit_made(limit(scope="team", name="red", part="0.35 %"))["part"] == "0.0035"
    # The form that changes such a limit is not asked back.
    shown = limit_form(_ID, level("team", "red", part="0.0035", pace=pace("0")))
    assert shown.values["part"] == "0.35 %"
    assert limit_made(shown)["part"] == "0.0035"


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("part", "0,35", "write 0.35"),
        ("pace_days", "7d", "write 7"),
        ("pace_days", "1 week", "write 7"),
    ],
)
def test_another_form_of_a_number_is_refused_with_the_one_to_write(
    name: str, text: str, said: str
) -> None:
    with pytest.raises(RequestInvalid) as error:
        limit_made(
            limit(scope="team", name="red", **{"pace_part": "5", "pace_days": "1", name: text})
        )
    assert error.value.rule.endswith(said)
