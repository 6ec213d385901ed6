"""A record means the same whatever way it comes: what is left out has one value, the safe one."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import msgspec

from accountant.policy import Policy
from streams.cli.root import command
from streams.client import Accountant, AsyncAccountant, AsyncOwner, Owner
from tests.examples_of_records import CALLS, COMMANDS
from tests.streams.auth.roles_server import RolesServer
from tests.streams.gateway.records import new_id, opening, request

OF_THE_COMMAND = {"url", "wait", "json", "dry_run", "new", "replace_ledger", "as_given", "preview"}
"""How it is sent and shown, not what."""


def test_an_opening_that_names_no_access_is_for_members_by_whatever_way(
    census: RolesServer,
) -> None:
    by_http = {**opening(census.clock, "by-http"), "by": "opie", "request_id": new_id(census.clock)}
    first = census.done("opie", "/datasets", by_http, "opened")
    assert census.done("opie", "/datasets", by_http, "repeated")["first"]["hash"] == first["hash"]
    spaced = msgspec.json.format(msgspec.json.encode({**by_http, "dataset": "by-spaced-http"}))
    headers = {"content-type": "application/json", **census.auth_headers("opie")}
    assert census.http.post("/datasets?new=true", content=spaced, headers=headers).is_success
    for_all = {**opening(census.clock, "for-all", access="anyone"), "by": "opie"}
    census.done("opie", "/datasets?new=true", for_all, "opened")
    with Accountant(census.url, token=census.tokens["opie"], clock=census.clock) as ledger:
        raw = {**by_http, "dataset": "by-bytes", "request_id": new_id(census.clock)}
        assert ledger.submit(msgspec.json.encode(raw), new=True).outcome == "opened"
        ledger.as_owner("opie").open("by-python", {"filter": "basic", "epsilon": "1"}, new=True)
    for dataset in ("by-http", "by-spaced-http", "by-bytes", "by-python"):
        policy = census.see("opie", f"/datasets/{dataset}").json()["policy"]
        assert policy.get("access") == "members", dataset
        asked = census.send(
            "zoe", "/requests", request(census.clock, dataset=dataset, analyst="zoe")
        )
        assert asked.status_code == 403, dataset
    asked = census.send("zoe", "/requests", request(census.clock, dataset="for-all", analyst="zoe"))
    assert asked.json()["outcome"] == "granted"


def _commands(group: Any, names: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    for name, each in group.commands.items():
        if hasattr(each, "commands"):
            yield from _commands(each, (*names, name))
        else:
            yield " ".join((*names, name)), each


def test_what_a_command_or_a_call_leaves_out_is_left_out_of_the_record() -> None:
    defaults = dict(zip(Policy.__struct_fields__, Policy.__struct_defaults__, strict=True))
    wrong = list[str]()
    for name, each in _commands(command()):
        for option in each.params if name in COMMANDS else ():
            # A period has no default on the wire: a limit without one has no period.
            is_known = option.name in OF_THE_COMMAND or (name, option.name) == (
                "limit set",
                "period",
            )
            has = option.default
            if not is_known and has not in (None, False, "", (), defaults.get(option.name)):
                wrong.append(f"accountant {name} --{option.name}: {has}")
    for owner in (Owner, AsyncOwner, Accountant, AsyncAccountant):
        for name in [*CALLS, "ask", "reserve"]:
            for argument in inspect.signature(getattr(owner, name, lambda: 0)).parameters.values():
                has = argument.default
                if argument.name in {*OF_THE_COMMAND, "codec"} or has is inspect.Parameter.empty:
                    continue
                if has not in (None, False, "", ()):
                    wrong.append(f"{owner.__name__}.{name}({argument.name}={has})")
    assert not wrong
