"""The matrix of docs/reference/http/access.md says what a real server lets each role do."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import httpx
import pytest

from tests.every_case import check_each
from tests.streams.auth.answering_roles import AnsweringRoles
from tests.streams.auth.roles_server import RolesServer, setting
from tests.streams.gateway.records import amending, closing, new_id, opening, request
from tests.streams.waiting import eventually

OPENS = ("docs/reference/http/access.md",)

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "http" / "access.md"
COLUMNS = ("olga", "ana", "otto", "eng", "aud", "root", "zoe")
CLOSED, OPEN = "closed-own", "open-own"
CLAIM = {"type": "pure", "epsilon": "0.1"}
Call = Callable[[RolesServer, str, str], str]


@cache
def matrix() -> dict[str, list[str]]:
    """Return the cells of each row, by the route that it names first."""
    text = PAGE.read_text(encoding="utf-8").split("## Who may do what", 1)[1]
    rows = re.findall(r"^\| (`.*?`).*? \| (.*) \|$", text, re.MULTILINE)
    found = [
        (route, cells.split(" | "))
        for route, cells in rows
        if cells.count(" | ") == len(COLUMNS) - 1
    ]
    assert len(dict(found)) == len(found), "two rows begin with one route"
    return dict(found)


def access_of(cell: str) -> str:
    """Return what a cell says: `no`, `all`, or `own` for what concerns the caller or the team."""
    if cell == "–":
        return "no"
    return "all" if re.match(r"all\b|for anybody|✓$", cell) else "own"


def access_by_status(answer: httpx.Response) -> str:
    assert answer.status_code in {200, 403, 404}, answer.text
    return "all" if answer.status_code == 200 else "no"


def ask(server: RolesServer, name: str, dataset: str) -> str:
    more = {"analyst": "ana", "via": name} if name == "eng" else {"analyst": name}
    answer = server.send(name, "/requests", request(server.clock, dataset=dataset, **more))
    return "own" if access_by_status(answer) == "all" else "no"


def open_new(server: RolesServer, name: str, _dataset: str) -> str:
    body = opening(server.clock, f"of-{name}") | {"by": name, "owners": [name]}
    return access_by_status(server.send(name, "/datasets", body))


def amend(server: RolesServer, name: str, dataset: str) -> str:
    body = amending(server.clock, dataset, alert_at=["0.5"]) | {"by": name}
    return access_by_status(server.send(name, f"/datasets/{dataset}/amend", body))


def begin(server: RolesServer, name: str, dataset: str) -> str:
    """Take steps of a reservation that nobody has: the ledger answers those who may take them."""
    for kind, who in (("begin", "ana" if name == "eng" else name), ("void", name)):
        made = {"version": 1, "request_id": new_id(server.clock), "type": kind, "analyst": who}
        made |= {"dataset": dataset, "grant": "sha256:" + "0" * 64}
        made |= {"via": name} if name == "eng" and kind == "begin" else {}
        path = f"/datasets/{dataset}/reservations/{kind}"
        if access_by_status(server.send(name, path, made)) == "all":
            return "own"
    return "no"


def help_owners(server: RolesServer, name: str, dataset: str) -> str:
    body = setting(name, dataset, "zed", "auditor") | {"as": "administrator"}
    return access_by_status(server.send(name, f"/datasets/{dataset}/members", body))


def set_members(server: RolesServer, name: str, dataset: str) -> str:
    """Add an analyst to a team. A lead does so in its own team alone."""
    found = []
    for team in ("blue", "red"):
        body = setting(name, dataset, f"new-{name}-{team}", "analyst", team=team)
        answer = server.send(name, f"/datasets/{dataset}/members?new=true", body)
        found.append(access_by_status(answer))
    return found[0] if len(set(found)) == 1 else "own"


def preview(server: RolesServer, name: str, dataset: str) -> str:
    def sent(analyst: str) -> bool:
        body = {"claim": CLAIM, "unit": "person", "neighbours": "add_remove", "analyst": analyst}
        body |= {"via": name} if name == "eng" else {}
        path = f"/datasets/{dataset}/preview"
        answer = server.http.post(path, json=body, headers=server.auth_headers(name))
        return answer.status_code == 200

    if sent("ben") and (name == "eng" or sent("ana")):
        return "own" if name == "eng" else "all"
    return "own" if sent(name) else "no"


def look(path: str) -> Call:
    def looked(server: RolesServer, name: str, dataset: str) -> str:
        return access_by_status(server.see(name, path.replace("{dataset}", dataset)))

    return looked


def requests(server: RolesServer, name: str, dataset: str) -> str:
    answer = server.see(name, f"/datasets/{dataset}/requests")
    if answer.status_code != 200:
        return "no"
    found = [d["request"] for d in answer.json()["decisions"]]
    asked = {each["analyst"] for each in found if each["type"] == "request"}
    return "all" if asked == {"ana", "ben"} else "own"


def reservations(server: RolesServer, name: str, dataset: str) -> str:
    answer = server.see(name, f"/datasets/{dataset}/reservations")
    if answer.status_code != 200:
        return "no"
    whose = {each["analyst"] for each in answer.json()["reservations"]}
    return "all" if whose == {"ana", "ben"} else "own"


def answers(server: RolesServer, name: str, dataset: str) -> str:
    answer = server.see(name, f"/datasets/{dataset}/answers")
    if answer.status_code != 200:
        return "no"
    whose = {each["analyst"] for each in answer.json()["answers"]}
    return "all" if whose == {"ana", "ben"} else "own"


def end_questions(server: RolesServer, name: str, dataset: str) -> str:
    listed = access_by_status(server.see(name, f"/datasets/{dataset}/questions"))
    ended = access_by_status(server.send(name, f"/datasets/{dataset}/questions/end", {}))
    assert listed == ended
    return ended


def members(server: RolesServer, name: str, dataset: str) -> str:
    answer = server.see(name, f"/datasets/{dataset}/members")
    if answer.status_code != 200:
        return "no"
    return "all" if "olga" in {each["member"] for each in answer.json()} else "own"


def budgets(server: RolesServer, name: str, dataset: str) -> str:
    shown = [
        access_by_status(server.see(name, f"/datasets/{dataset}/budgets/{each}")) == "all"
        for each in ("ana", "ben", name)
    ]
    return "all" if all(shown) else "own" if any(shown) else "no"


def usage(server: RolesServer, name: str, dataset: str) -> str:
    if access_by_status(server.see(name, f"/datasets/{dataset}/usage")) == "no":
        return "no"
    return (
        "all"
        if access_by_status(server.see(name, f"/datasets/{dataset}/usage", by="day")) == "all"
        else "own"
    )


def why(server: RolesServer, name: str, dataset: str) -> str:
    answer = server.see(name, f"/datasets/{dataset}/why")
    if answer.status_code != 200:
        return "no"
    return "all" if answer.json()["largest"] else "own"


def report(server: RolesServer, name: str, dataset: str) -> str:
    answer = server.see(name, f"/datasets/{dataset}/report")
    if access_by_status(answer) == "no":
        return "no"
    return "all" if answer.json().get("team") is None else "own"


# Without what a stream or a page needs; those have tests of their own.
CALLS: dict[str, Call] = {
    "`POST /requests`": ask,
    "`POST /datasets`": open_new,
    "`POST .../reservations/begin`": begin,
    "`POST .../amend`": amend,
    "`POST .../members`": set_members,
    "`POST .../pause`": help_owners,
    "`POST .../preview`": preview,
    "`GET /datasets`": look("/datasets/{dataset}"),
    "`GET .../requests`": requests,
    "`GET .../reservations`": reservations,
    "`GET .../answers`": answers,
    "`GET .../questions`": end_questions,
    "`GET .../members`": members,
    "`GET .../budgets/{analyst}`": budgets,
    "`GET .../usage`": usage,
    "`GET .../why`": why,
    "`GET .../report`": report,
    "`GET /me`": look("/head"),
    "`GET /metrics`": look("/metrics"),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RolesServer]:
    with AnsweringRoles(tmp_path_factory.mktemp("access")) as running:
        running.furnish()
        for dataset in (CLOSED, OPEN):
            running.enrol(dataset, "otto", "lead", team="blue")
            running.enrol(dataset, "ben", "analyst", team="blue")
            running.ask_all(dataset)
            for analyst in ("ana", "ben"):
                running.granted(dataset, analyst)
                running.reserved(dataset, analyst)
            running.granted(dataset, "ana", via="eng")
            running.reserved(dataset, "ana", via="eng")
            path = f"/datasets/{dataset}/usage"
            eventually(lambda path=path: running.see("olga", path).status_code == 200)
        yield running


def test_every_call_is_a_row_of_the_page() -> None:
    assert set(CALLS) <= set(matrix())


def test_each_cell_of_the_access_matrix_matches_the_server(server: RolesServer) -> None:
    def check(route: str, name: str) -> None:
        cell = matrix()[route][COLUMNS.index(name)]
        dataset = CLOSED
        if name == "zoe":
            # A caller without a role: allowed where `access` is `anyone`, or a setting names them.
            dataset = OPEN
            if "ACCOUNTANT_" in cell:
                cell = "–"
            elif "if `access`" in cell and not cell.startswith(("own", "totals", "those")):
                cell = "✓"
        elif name == "root" and route == "`POST /datasets`":
            cell = "✓"
        assert CALLS[route](server, name, dataset) == access_of(cell)

    check_each(check, CALLS, COLUMNS)


def test_a_closed_dataset_is_hidden_from_callers_without_a_role(server: RolesServer) -> None:
    assert server.see("zoe", f"/datasets/{CLOSED}").status_code == 404


def test_only_owners_close(server: RolesServer) -> None:
    body = closing(server.clock, CLOSED) | {"by": "ana"}
    assert server.send("ana", f"/datasets/{CLOSED}/close", body).status_code == 403
