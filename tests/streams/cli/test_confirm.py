"""A name that is nearly another is asked back: every field, by whatever it is sent."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import pytest

from streams.client import (
    Accountant,
    AsyncAccountant,
    EndsJointGuarantee,
    SimilarDataset,
    SimilarName,
    Unconfirmed,
)
from tests.every_case import every_case
from tests.nightly import rounds
from tests.streams.auth.roles_server import RolesServer
from tests.streams.cli.conftest import Command
from tests.streams.clock import TestClock
from tests.streams.gateway.asking import SCHEMA
from tests.streams.gateway.local_server import LocalServer
from tests.streams.gateway.records import new_id, opening

THERE: Final = "census-2026"
WAYS_TO_LOOK: Final = (("--preview",), ("--for", "pure:0.01"))[: rounds(1, 2)]
POLICY: Final = {"filter": "basic", "epsilon": "1"}
SIMILAR: Final = {
    # field: the name that is there, the one that is sent
    "dataset": (THERE, "census-2O26"),
    "policy.population": ("people-of-x", "People-of-x"),
    "schema.source.name": ("people", "peopl"),
    "team": ("wages", "wage"),
    "name": ("wages", "wage"),
}
"""Of a limit, `name` is the team."""
Fields = dict[str, Any]


class Surfaces(NamedTuple):
    """A ledger behind a server, a file of this process, and the command."""

    server: LocalServer
    file: Accountant
    command: Command


def prepare(ledger: Accountant) -> None:
    """Open what the names of `SIMILAR` are nearly."""
    policy = POLICY | {"population": "people-of-x"}
    ledger.as_owner("owner").open(THERE, policy, schema=SCHEMA, as_given=True)
    ledger.as_owner("owner").set_member(THERE, "ben", roles=["analyst"], team="wages")


@pytest.fixture
def surfaces(tmp_path: Path, clock: TestClock, accountant: Command) -> Iterator[Surfaces]:
    with (
        LocalServer(tmp_path / "served.db", clock) as server,
        Accountant(server.url, clock=clock) as served,
        Accountant(f"sqlite:///{tmp_path}/own.db", clock=clock) as own,
    ):
        prepare(served)
        prepare(own)
        yield Surfaces(server, own, accountant)


def record(clock: TestClock, field: str, name: str) -> tuple[str, Fields]:
    """Return the address and the body of a record that has a name in a field."""
    if field == "team":
        body = {"type": "member", "member": "ana", "roles": ["analyst"], "team": name}
    elif field == "name":
        body = {"type": "limit", "scope": "team", "name": name, "part": "0.5"}
    else:
        body = opening(clock, name if field == "dataset" else f"claims-of-{field}", **POLICY)
        if field == "policy.population":
            body["policy"]["population"] = name
        elif field == "schema.source.name":
            body["schema"] = SCHEMA | {"source": {"kind": "csv", "name": name}}
        return "/datasets", body
    head = {"version": 1, "request_id": new_id(clock), "dataset": THERE, "by": "owner"}
    return f"/datasets/{THERE}/{body['type']}s", head | body


def arguments(directory: Path, field: str, name: str) -> list[str]:
    """Return the command that sends such a record."""
    if field == "team":
        return ["member", "set", THERE, "ana", "--role", "analyst", "--team", name]
    if field == "name":
        return ["limit", "set", THERE, "--team", name, "--part", "0.5"]
    begin = ["dataset", "open", name if field == "dataset" else "claims", "--epsilon", "1"]
    if field == "dataset":
        return [*begin, "--filter", "basic"]
    if field == "policy.population":
        return [*begin, "--filter", "basic", "--population", name]
    file = directory / "schema.json"
    file.write_text(json.dumps(SCHEMA | {"source": {"kind": "csv", "name": name}}))
    return [*begin, "--filter", "basic", "--schema", str(file)]


def advice_in(text: str) -> set[str]:
    """Return the ways to say that a record is meant that a text names."""
    return {way for way in ("--new", "new=True", "?new=true") if way in text}


def by_http(to: Surfaces, field: str, name: str) -> str:
    asked = to.server.post(*record(to.server.clock, field, name))
    problem = asked.json()
    assert (asked.status_code, problem["error"]) == (409, "similar_name")
    assert (problem["field"], problem["value"]) == (field, name)
    assert advice_in(problem["message"]) == {"?new=true"}
    assert advice_in(problem["question"]) == set()
    return str(problem["similar"])


def by_a_client(ledger: Accountant, clock: TestClock, field: str, name: str) -> str:
    body = msgspec.json.encode(record(clock, field, name)[1])
    with pytest.raises(SimilarName) as error:
        ledger.submit(body)
    assert advice_in(str(error.value)) == {"new=True"}
    assert (error.value.field, error.value.value) == (field, name)
    assert isinstance(error.value, SimilarDataset) is (field == "dataset")
    return error.value.similar


def by_a_client_of_the_server(to: Surfaces, field: str, name: str) -> str:
    with Accountant(to.server.url, clock=to.server.clock) as ledger:
        return by_a_client(ledger, to.server.clock, field, name)


def by_a_client_of_a_file(to: Surfaces, field: str, name: str) -> str:
    before = to.file.heads()
    similar = by_a_client(to.file, to.server.clock, field, name)
    assert to.file.heads() == before
    return similar


def by_the_command(to: Surfaces, field: str, name: str) -> str:
    done = to.command(*arguments(to.command.directory, field, name), ACCOUNTANT_URL=to.server.url)
    assert (done.code, done.out) == (2, "")
    assert advice_in(done.err) == {"--new"}
    there, similar = SIMILAR[field]
    assert similar in done.err
    return there if there in done.err else done.err


ASKING: Final[list[Callable[[Surfaces, str, str], str]]] = [
    by_http,
    by_a_client_of_the_server,
    by_a_client_of_a_file,
    by_the_command,
]


@every_case(("field", "ask"), [(field, ask) for field in SIMILAR for ask in ASKING])
def test_a_similar_name_is_asked_back_before_anything_is_appended(
    surfaces: Surfaces, field: str, ask: Callable[[Surfaces, str, str], str]
) -> None:
    there, similar = SIMILAR[field]
    before = surfaces.server.last_sequence()
    assert ask(surfaces, field, similar) == there
    assert surfaces.server.last_sequence() == before


def test_a_release_of_a_misspelt_team_is_asked_back(surfaces: Surfaces) -> None:
    release: Fields = {"released_at": "2020-01-01", "evidence": "table 3", "team": "wage"}
    before = surfaces.server.last_sequence()
    with Accountant(surfaces.server.url, clock=surfaces.server.clock) as served:
        for ledger in (surfaces.file, served):
            with pytest.raises(SimilarName) as error:
                ledger.as_owner("owner").record(THERE, "pure:0.1", **release)
            assert (error.value.field, error.value.similar) == ("team", "wages")
    to = ("--at", "2020-01-01", "--evidence", "table 3", "--team", "wage")
    for options in ((), ("--yes",)):
        done = surfaces.command(
            *("dataset", "record", THERE, "pure:0.1", *to, *options),
            ACCOUNTANT_URL=surfaces.server.url,
        )
        assert (done.code, done.out) == (2, "")
        assert "wages" in done.err
    assert advice_in(done.err) == {"--new"}
    assert surfaces.server.last_sequence() == before
    with Accountant(surfaces.server.url, clock=surfaces.server.clock) as served:
        for ledger in (surfaces.file, served):
            done = ledger.as_owner("owner").record(THERE, "pure:0.1", **release, new=True)
            assert done.outcome == "recorded"


def test_a_limit_and_a_pause_of_nearly_a_member_are_asked_back(surfaces: Surfaces) -> None:
    before = surfaces.server.last_sequence()
    with Accountant(surfaces.server.url, clock=surfaces.server.clock) as served:
        for ledger in (surfaces.file, served):
            owner = ledger.as_owner("owner", reason="a loop")
            with pytest.raises(SimilarName) as error:
                owner.pause_member(THERE, "benn")
            assert (error.value.field, error.value.similar) == ("member", "ben")
            with pytest.raises(SimilarName) as error:
                owner.pause_member(THERE, team="wage")
            assert (error.value.field, error.value.similar) == ("team", "wages")
            with pytest.raises(SimilarName) as error:
                owner.set_limit(THERE, "analyst", "benn", part="0.5")
            assert (error.value.field, error.value.similar) == ("name", "ben")
        at = {"ACCOUNTANT_URL": surfaces.server.url}
        for command in (
            ("member", "pause", THERE, "benn", "--reason", "a loop"),
            ("limit", "set", THERE, "--analyst", "benn", "--part", "0.5"),
        ):
            done = surfaces.command(*command, **at)
            assert (done.code, done.out) == (2, "")
            assert "nearly ben, who is one" in done.err
            assert advice_in(done.err) == {"--new"}
        assert surfaces.server.last_sequence() == before
        for ledger in (surfaces.file, served):
            owner = ledger.as_owner("owner", reason="a loop")
            assert owner.pause_member(THERE, "benn", new=True).outcome == "member_paused"
            limit = owner.set_limit(THERE, "analyst", "benn", part="0.5", new=True)
            assert limit.outcome == "limit_set"
            # What is there is not asked about, and a new member is another person.
            assert owner.set_limit(THERE, "analyst", "benn", part="0.4").outcome == "limit_set"
            done = owner.set_member(THERE, "benn", roles=["analyst"])
            assert done.outcome == "member_set"
            assert owner.set_limit(THERE, "analyst", "benn", part="0.5").outcome == "limit_set"


@every_case("field", SIMILAR)
def test_a_name_that_is_meant_is_taken_and_its_repeat_asks_nothing(
    surfaces: Surfaces, field: str
) -> None:
    path, body = record(surfaces.server.clock, field, SIMILAR[field][1])
    content = msgspec.json.encode(body)
    outcome = surfaces.server.post(f"{path}?new=true", body).json()["outcome"]
    assert outcome in {"opened", "member_set", "limit_set"}
    assert surfaces.file.submit(content, new=True).outcome == outcome
    assert surfaces.server.post(path, body).json()["outcome"] == "repeated"
    assert surfaces.file.submit(content).outcome == "repeated"
    # A name that is there is asked about no more.
    body |= {"request_id": new_id(surfaces.server.clock), "reason": "again"}
    assert surfaces.server.post(path, body).status_code == 200
    assert surfaces.file.submit(msgspec.json.encode(body)).outcome in {outcome, "refused"}


def test_a_retry_is_answered_although_its_team_is_gone(surfaces: Surfaces) -> None:
    path, body = record(surfaces.server.clock, "team", "wage")
    assert surfaces.server.post(f"{path}?new=true", body).json()["outcome"] == "member_set"
    content = msgspec.json.encode(body)
    assert surfaces.file.submit(content, new=True).outcome == "member_set"
    for ledger in (surfaces.file, Accountant(surfaces.server.url, clock=surfaces.server.clock)):
        ledger.as_owner("owner").set_member(THERE, "ana", roles=["analyst"], team="wages")
    again = surfaces.server.post(path, body)
    assert (again.status_code, again.json().get("outcome")) == (200, "repeated")
    assert surfaces.file.submit(content).outcome == "repeated"


@every_case(
    ("field", "name"),
    [
        ("dataset", "census-2027"),
        ("policy.population", "people-of-x2"),
        ("schema.source.name", "people2"),
        ("team", "wages-2"),
        ("name", "salaries"),
    ],
)
def test_another_name_is_taken_without_a_question(
    surfaces: Surfaces, field: str, name: str
) -> None:
    path, body = record(surfaces.server.clock, field, name)
    assert surfaces.server.post(path, body).status_code == 200


def test_all_questions_about_one_opening_are_asked_together(surfaces: Surfaces) -> None:
    policy = POLICY | {"population": "People-of-x"}
    with pytest.raises(Unconfirmed) as error:
        surfaces.file.as_owner("owner").open("Census-2026", policy, schema=SCHEMA)
    for words in ("census-2026 is open already", "nearly people-of-x", "reads the source people"):
        assert words in str(error.value)


async def test_the_asynchronous_client_asks_back(tmp_path: Path) -> None:
    async with AsyncAccountant(f"sqlite:///{tmp_path}/own.db") as ledger:
        await ledger.as_owner("owner").open(THERE, POLICY)
        await ledger.as_owner("owner").set_limit(THERE, "team", "wages", part="0.5")
        with pytest.raises(SimilarName, match="nearly team wages"):
            await ledger.as_owner("owner").set_member(THERE, "ana", roles=["analyst"], team="Wages")
        await ledger.as_owner("owner").set_member(
            THERE, "ana", roles=["analyst"], team="Wages", new=True
        )
        # The misspelt team is corrected without a question.
        await ledger.as_owner("owner").set_member(THERE, "ana", roles=["analyst"], team="wages")
        await ledger.as_owner("owner").remove_limit(THERE, "team", "Wages")  # which removes it


def test_a_preview_says_which_names_would_be_asked_back(surfaces: Surfaces, tmp_path: Path) -> None:
    schema = tmp_path / "schema.json"
    source = SCHEMA["source"] | {"name": SIMILAR["schema.source.name"][1]}
    schema.write_text(json.dumps(SCHEMA | {"source": source}))
    run = surfaces.command
    command = ("dataset", "open", SIMILAR["dataset"][1], "--epsilon", "1", "--delta", "1e-6")
    command = (*command, "--population", SIMILAR["policy.population"][1], "--schema", str(schema))
    fields = ["dataset", "policy.population", "schema.source.name"]
    for more in WAYS_TO_LOOK:
        found = run(*command, *more, "--json", ACCOUNTANT_URL=surfaces.server.url).json
        assert [each["field"] for each in found["asked_back"]] == fields
        for each in found["asked_back"]:
            assert each["similar"] == SIMILAR[each["field"]][0]
        done = run(*command, *more, ACCOUNTANT_URL=surfaces.server.url)
        assert (done.code, done.err.count("warning: the opening would be asked back")) == (0, 1)
        meant = run(*command, *more, "--new", "--json", ACCOUNTANT_URL=surfaces.server.url)
        assert (meant.json["asked_back"], "asked back" in meant.err) == ([], False)
    elsewhere = run(*command, "--preview", "--json").json  # no ledger yet
    assert elsewhere["asked_back"] == []


def test_an_opening_that_ends_a_joint_guarantee_is_asked_back(surfaces: Surfaces) -> None:
    policy, clock = POLICY | {"population": "people-of-x"}, surfaces.server.clock
    for ledger in (surfaces.file, Accountant(surfaces.server.url, clock=clock)):
        assert ledger.as_owner("owner").open("patients", policy).outcome == "opened"
        clock.pass_(seconds=1)
        assert ledger.ask(THERE, "pure:0.1", analyst="ben").granted
        clock.pass_(seconds=1)
        with pytest.raises(EndsJointGuarantee, match="for ever: claims would be opened"):
            ledger.as_owner("owner").open("claims", policy)
        ledger.close()
    body = opening(clock, "claims", **policy)
    asked = surfaces.server.post("/datasets", body)
    assert (asked.status_code, asked.json()["error"]) == (409, "ends_joint_guarantee")
    run, url = surfaces.command, surfaces.server.url
    command = ("dataset", "open", "claims", "--epsilon", "1", "--delta", "1e-6")
    command = (*command, "--population", "people-of-x")
    done = run(*command, ACCOUNTANT_URL=url)
    assert (done.code, "--new" in done.err) == (2, True)
    assert "--id" not in done.err, "the same bytes are only asked back again"
    for more in WAYS_TO_LOOK:
        (last,) = run(*command, *more, "--json", ACCOUNTANT_URL=url).json["one_way"][-1:]
        assert last["allowed"] is False
        assert "claims would be opened after something was granted on census-2026" in last["change"]
        assert "nothing any more" in run(*command, *more, ACCOUNTANT_URL=url).out
    elsewhere = run(*command, "--preview", "--json").json["one_way"][-1]  # no ledger yet
    assert elsewhere["allowed"] is True
    assert surfaces.server.post("/datasets?new=true", body).json()["outcome"] == "opened"
    # There is no guarantee left to end.
    body = opening(clock, "returns", **policy)
    assert surfaces.server.post("/datasets", body).status_code == 200


def test_members_of_a_file_are_asked_back_once(opened: Command) -> None:
    run = opened
    file = run.directory / "members.csv"
    sync = ("member", "sync", "census", str(file))
    head = "member,roles,team,until\nowner,owner,,\nben,analyst,wages,\n"
    assert run("member", "set", "census", "ben", "--role", "analyst", "--team", "wages").code == 0
    file.write_text(f"{head}ana,analyst,wage,\n")
    for more in ((), ("--dry-run",)):
        done = run(*sync, *more)
        assert done.code == 2
        assert "team wage is nearly team wages" in done.err
    assert '"ana"' not in run("member", "list", "census", "--json").out
    assert run(*sync, "--new").code == 0
    # It is there now, and the file may correct it.
    file.write_text(f"{head}ana,analyst,wage,\nzoe,analyst,wage,\n")
    assert run(*sync).code == 0
    file.write_text(f"{head}ana,analyst,wages,\n")
    assert run(*sync).code == 0


def test_nothing_that_the_caller_does_not_see_is_named(tmp_path: Path) -> None:
    with RolesServer(tmp_path) as server:

        def client(name: str) -> Accountant:
            return Accountant(server.url, token=server.tokens[name], clock=server.clock)

        policy = POLICY | {"population": "people-of-x", "access": "members"}
        with client("root") as ledger:
            ledger.as_owner().open("payroll", policy, owners=["olga"], schema=SCHEMA)
            with pytest.raises(SimilarName, match="nearly people-of-x"):
                ledger.as_owner().open("claims", policy | {"population": "People-of-x"})
        with client("opie") as ledger:  # has no role on it
            hidden = policy | {"population": "People-of-x"}
            other = SCHEMA | {"source": {"kind": "csv", "name": "peopl"}}
            assert ledger.as_owner().open("Payroll", hidden, schema=other).outcome == "opened"


def test_a_variable_that_is_nearly_a_setting_ends_every_command(accountant: Command) -> None:
    for name in ("ACCOUNTANT_ULR", "ACOUNTANT_URL", "accountant_uri", "ACCOUNTANT_TOKEN_FIEL"):
        done = accountant("dataset", "open", "census", "--epsilon", "1", **{name: "kafka://x:1"})
        assert done.code == 4, done
        assert f"{name} is no setting: did you mean ACCOUNTANT_" in done.err
        assert list(accountant.directory.iterdir()) == []
    allowed = {"ACCOUNTANT_ULR": "x", "ACCOUNTANT_ALLOW_UNKNOWN_SETTINGS": "ACCOUNTANT_ULR"}
    assert accountant("fits", "--help", **allowed).code == 0


def test_a_command_reads_its_variables_in_any_letters(accountant: Command) -> None:
    done = accountant("dataset", "list", accountant_url=f"sqlite:///{accountant.directory}/x.db")
    assert "no such ledger: x.db" in done.err
