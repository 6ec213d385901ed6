"""Who may do what at the server: every role, every record, every kind of dataset; by hand.

What is not permitted is 403, or 401 to a stranger, and changes neither the log nor `state`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import httpx
import pytest

from tests.every_case import check_each
from tests.streams.auth.roles_server import KINDS, ROLES, Body, RolesServer, setting
from tests.streams.gateway.records import (
    amending,
    answering,
    closing,
    new_id,
    opening,
    pausing,
    request,
)

MEMBERS = [name for name, (access, _) in KINDS.items() if access == "members"]
ANYONE = [name for name, (access, _) in KINDS.items() if access == "anyone"]
NAMES = list(ROLES.values())


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RolesServer]:
    with RolesServer(tmp_path_factory.mktemp("matrix")) as made:
        made.furnish()
        for name in KINDS:  # each again, to be closed
            access, visibility = KINDS[name]
            made.open_for_olga(f"{name}-2", access=access, visibility=visibility)
            made.enrol(f"{name}-2", "ana", "analyst")
        yield made


Send = Callable[[RolesServer, str, str], tuple[str, Body]]
"""Makes path and body of somebody's record on a dataset."""


def _ask(server: RolesServer, name: str, dataset: str, **more: Any) -> tuple[str, Body]:
    return "/requests", request(server.clock, **{"dataset": dataset, "analyst": name, **more})


def _record(kind: str, make: Any, **more: Any) -> Send:
    def made(server: RolesServer, name: str, dataset: str) -> tuple[str, Body]:
        return f"/datasets/{dataset}/{kind}", {**make(server.clock, dataset), "by": name, **more}

    return made


def _member(by: str | None = None, **more: Any) -> Send:
    def made(_: RolesServer, name: str, dataset: str) -> tuple[str, Body]:
        body = setting(by or name, dataset, "new", "analyst", **more)
        return f"/datasets/{dataset}/members", body

    return made


def _open(by: str | None = None, **more: Any) -> Send:
    def made(server: RolesServer, name: str, dataset: str) -> tuple[str, Body]:
        fresh = f"{dataset}-by-{name}-{len(more)}"
        return "/datasets", {**opening(server.clock, fresh), "by": by or name, **more}

    return made


def _open_taken(server: RolesServer, name: str, dataset: str) -> tuple[str, Body]:
    return "/datasets", {**opening(server.clock, dataset), "by": name}


EVERYBODY = {name for name in NAMES if name is not None}
# The names that may, on datasets that are for members, and on those that are for anyone.
TABLE: dict[str, tuple[Send, set[str], set[str]]] = {
    "ask for oneself": (_ask, {"ana", "ben"}, EVERYBODY),
    "ask in another's name": (
        lambda server, _, dataset: _ask(server, "ben", dataset),
        {"ben"},
        {"ben"},
    ),
    "ask for an analyst": (
        lambda server, name, dataset: _ask(server, "ana", dataset, via=name),
        {"eng"},
        {"eng"},
    ),
    "ask for somebody who is no member": (
        lambda server, name, dataset: _ask(server, "nobody", dataset, via=name),
        set(),
        {"eng"},
    ),
    "ask for oneself by the engine's name": (
        lambda server, name, dataset: _ask(server, name, dataset, via="eng"),
        set(),
        {"eng"},
    ),
    "amend": (_record("amend", amending, most_per_request="0.5"), {"olga"}, {"olga"}),
    "amend in the owner's name": (
        _record("amend", amending, most_per_request="0.5", by="olga"),
        {"olga"},
        {"olga"},
    ),
    "set a member": (_member(), {"olga"}, {"olga"}),
    "set a member in the owner's name": (_member(by="olga"), {"olga"}, {"olga"}),
    "set a member as an administrator": (_member(**{"as": "administrator"}), {"root"}, {"root"}),
    "set a member in the administrator's name": (
        _member(by="root", **{"as": "administrator"}),
        {"root"},
        {"root"},
    ),
    **{
        f"{kind}{words}": (_record(kind, partial(pausing, kind=kind), **fields), {name}, {name})
        for kind in ("pause", "resume")
        for words, fields, name in (
            ("", {}, "olga"),
            (" in the owner's name", {"by": "olga"}, "olga"),
            (" as an administrator", {"as": "administrator"}, "root"),
        )
    },
    **{
        f"{kind} a person{words}": (
            _record(
                f"members/{kind}",
                partial(pausing, kind=f"{kind}_member", member="zed", reason="a loop"),
                **fields,
            ),
            {name},
            {name},
        )
        for kind in ("pause", "resume")
        for words, fields, name in (
            ("", {}, "olga"),
            (" in the owner's name", {"by": "olga"}, "olga"),
            (" as an administrator", {"as": "administrator"}, "root"),
        )
    },
    **{
        kind: (_record(kind, partial(answering, kind=kind)), {"olga"}, {"olga"})
        for kind in ("approve", "deny")
    },
    "close": (_record("close", closing), {"olga"}, {"olga"}),
    "open one's own": (_open(), {"root", "opie"}, {"root", "opie"}),
    "open with others": (_open(owners=["opie", "olga"]), {"root", "opie"}, {"root", "opie"}),
    "open for others": (_open(owners=["olga"], reason="help"), {"root"}, {"root"}),
    "open in another's name": (_open(by="root"), {"root"}, {"root"}),
    "open a name that is taken": (_open_taken, {"root"}, {"root", "opie"}),
}


REPEATED_BRAKES = {"already_paused", "not_paused", "person_already_paused", "person_not_paused"}
"""Each name pauses the same dataset, and the same person."""
ALLOWED = {None, "already_opened", "not_pending", *REPEATED_BRAKES}


@pytest.mark.parametrize("action", TABLE)
def test_the_server_accepts_a_record_only_from_permitted_roles(
    server: RolesServer, action: str
) -> None:
    def check_case(name: str | None, dataset: str) -> None:
        make, of_members, of_anyone = TABLE[action]
        may = name in (of_members if dataset in MEMBERS else of_anyone)
        where = f"{dataset}-2" if action.startswith(("close", "pause", "resume")) else dataset
        path, body = make(server, name or "nobody", where)
        before = server.stored_rows()
        answer = server.send(name, path, body)
        if may:
            assert answer.status_code == 200, answer.text
            assert answer.json().get("reason") in ALLOWED
            assert server.stored_rows()[0] == before[0] + 1
            return
        assert answer.status_code == (401 if name is None else 403), answer.text
        assert answer.json()["error"] == ("unauthenticated" if name is None else "not_permitted")
        assert "totals" not in answer.text
        assert server.stored_rows() == before

    check_each(check_case, NAMES, KINDS)


def test_a_missing_dataset_gets_the_same_answer_as_a_hidden_one(server: RolesServer) -> None:
    def check_case(name: str | None) -> None:
        before, status = server.stored_rows(), 401 if name is None else 403
        sends: list[Send] = [
            *(_ask, _record("amend", amending), _record("close", closing), _member()),
            _member(**{"as": "administrator"}),
            _record("pause", pausing),
            _record("resume", partial(pausing, kind="resume"), **{"as": "administrator"}),
        ]
        for make in sends:
            there, missing = (
                server.send(name, *make(server, name or "nobody", dataset))
                for dataset in ("elsewhere", "missing")
            )
            assert missing.status_code == status
            if there.status_code != status:
                before = server.stored_rows()
            elif name not in {"root", "otto", "olga"}:  # these see `elsewhere`
                assert there.text.replace("elsewhere", "missing") == missing.text
        assert server.stored_rows() == before

    check_each(check_case, NAMES)


_HIDDEN = "dataset closed-own was never opened, or you have no role on it; you are signed in as "


@pytest.mark.parametrize(
    ("name", "make", "result"),
    [
        ("olga", _ask, "olga needs the role analyst on dataset closed-own; ask an owner ("),
        (
            "ana",
            _member(),
            "or the lead of a team about its analysts; you are signed in as ana (analyst)",
        ),
        (
            "ana",
            _member(**{"as": "administrator"}),
            "only administrators may write `as: administrator`; you are signed in as ana (analyst)",
        ),
        (
            "root",
            _member(),
            "you are signed in as root (administrator). An administrator sets members by",
        ),
        (
            "zoe",
            _ask,
            _HIDDEN + "zoe",
        ),
        (
            "eve",
            _ask,
            _HIDDEN + "eve",
        ),
        ("zoe", _open(), "only administrators may, and the names in"),
    ],
)
def test_a_403_names_the_required_role(
    server: RolesServer, name: str, make: Send, result: str
) -> None:
    answer = server.send(name, *make(server, name, "closed-own"))
    assert answer.status_code == 403
    assert result in answer.json()["message"]


def test_an_engine_without_via_gets_a_hint_to_set_it(server: RolesServer) -> None:
    path, body = _ask(server, "ana", "closed-own")
    assert "sets `via` to eng" in server.send("eng", path, body).json()["message"]
    assert "via" not in server.send("ben", path, body).json()["message"]


def test_a_missing_or_invalid_name_gets_422_for_every_dataset(server: RolesServer) -> None:
    def check_case(name: str) -> None:
        before = server.stored_rows()
        for dataset in ("closed-own", "missing"):
            path, ask = _ask(server, name, dataset)
            del ask["analyst"]
            assert server.send(name, path, ask).status_code == 422
            path, member = _member()(server, name, dataset)
            del member["by"]
            assert server.send(name, path, member).status_code == 422
            assert (
                server.send(name, path, {**member, "by": name, "roles": ["king"]}).status_code
                == 422
            )
        assert server.stored_rows() == before

    check_each(check_case, sorted(EVERYBODY))


def test_a_wrong_content_type_gets_415_before_permissions_are_checked(server: RolesServer) -> None:
    headers = {"content-type": "text/plain", **server.auth_headers("zoe")}
    assert server.http.post("/requests", content=b"{}", headers=headers).status_code == 415


def test_suggestions_name_visible_datasets_only(server: RolesServer) -> None:
    path, body = _ask(server, "zoe", "elsewheres")
    refused = server.send("zoe", path, body).json()["message"]
    assert "did you mean" not in refused
    path, body = _ask(server, "otto", "elsewheres")
    assert "did you mean elsewhere?" in server.send("otto", path, body).json()["message"]
    assert "did you mean" not in server.see("zoe", "/datasets/elsewheres").json()["message"]
    assert "did you mean elsewhere?" in server.see("otto", "/datasets/elsewheres").json()["message"]
    one = f"/datasets/{{}}/requests/{new_id(server.clock)}?analyst=zoe"
    for path in (one, "/events?dataset={}"):

        def answer(name: str, dataset: str, path: str = path) -> httpx.Response:
            return server.http.get(path.format(dataset), headers=server.auth_headers(name))

        hidden = answer("zoe", "elsewheres")
        assert hidden.status_code == 404
        assert "did you mean" not in hidden.json()["message"]
        # A hidden dataset has the words of one that was never opened.
        never, is_hidden = (
            answer("zoe", name).json()["message"].replace(name, "NAME")
            for name in ("never-opened", "elsewhere")
        )
        assert never == is_hidden
        assert "did you mean elsewhere?" in answer("otto", "elsewheres").json()["message"]
