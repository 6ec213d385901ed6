"""Thirty analysts of five teams, two engines, an owner and an auditor share one dataset.

One gateway with tokens before a real broker with its authorizer on. Each does their own job, and
tries every job of the others: nothing of that is decided, appended or shown.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from accountant.records import Decision
from streams.auth import token_file
from streams.client import Accountant, UnknownDataset
from streams.errors import NotPermitted, Unauthenticated
from tests.kafka.secured_ledger import SecuredLedger
from tests.kafka.test_principals import ready
from tests.observability.programs import free_port, until

TEAMS = ("amber", "blue", "coral", "dune", "ebony")
ANALYSTS = [f"ana{number}" for number in range(30)]
ENGINES = ("engine1", "engine2")
PEOPLE = ("root", "olga", "audrey", "zoe", *ENGINES, *ANALYSTS)
CLAIM = "pure:0.01"


class Office:
    """Everybody's client of one gateway."""

    def __init__(self, url: str, tokens: dict[str, str], stack: ExitStack) -> None:
        self.url = url
        self.clients = {
            name: stack.enter_context(Accountant(url, token=token))
            for name, token in tokens.items()
        }

    def __getitem__(self, name: str) -> Accountant:
        return self.clients[name]

    def log(self) -> list[Decision]:
        return list(self["audrey"].requests("census"))


@pytest.fixture
def office(secured: SecuredLedger, tmp_path: Path) -> Iterator[Office]:
    port, metrics = free_port(), free_port()
    file = tmp_path / "tokens.json"
    now = time.time_ns() // 1_000_000
    tokens = {name: token_file.create(file, name, now=now).token for name in PEOPLE}
    knows = {
        "ACCOUNTANT_TOKENS": str(file),
        "ACCOUNTANT_ADMINISTRATORS": "root",
        "ACCOUNTANT_METRICS_PORT": str(metrics),
    }
    logs = {user: tmp_path / f"{user}.log" for user in ("worker", "gateway")}
    with ExitStack() as stack:
        stack.enter_context(secured.running("worker", logs["worker"], "worker", **knows))
        gateway = ("gateway", "--port", str(port))
        stack.enter_context(secured.running("gateway", logs["gateway"], *gateway, **knows))
        until("the gateway's readiness", lambda: ready(port), logs["gateway"])
        yield Office(f"http://127.0.0.1:{port}", tokens, stack)
    for log in logs.values():
        said = log.read_text()
        assert not [name for name, token in tokens.items() if token in said]


def test_thirty_analysts_share_a_dataset_and_none_exceeds_their_role(
    office: Office, secured: SecuredLedger
) -> None:
    policy = {"filter": "basic", "epsilon": "10", "access": "members"}
    opened = office["root"].as_owner("root").open("census", policy, owners=["olga"], as_given=True)
    assert opened.outcome == "opened"
    enrol(office)
    with ThreadPoolExecutor(10) as threads:
        replies = list(
            threads.map(lambda name: office[name].ask("census", CLAIM, wait=30), ANALYSTS)
        )
        assert all(reply.granted for reply in replies)
        helped = list(
            threads.map(
                lambda pair: office[pair[0]].ask(
                    "census", CLAIM, analyst=pair[1], via=pair[0], wait=30
                ),
                [(ENGINES[i % 2], name) for i, name in enumerate(ANALYSTS)],
            )
        )
        assert all(reply.granted for reply in helped)
    before = office.log()
    assert Counter(each.granted for each in before)[True] == 60
    for attempt in attempts(office):
        with pytest.raises((NotPermitted, Unauthenticated)):
            attempt()
    assert [each.partition_sequence for each in office.log()] == [
        each.partition_sequence for each in before
    ]
    sees_their_own(office)
    removed_in_the_middle(office)
    audited = secured.run("auditor", "audit", "--json")
    assert audited.returncode == 0, audited.stderr


def enrol(office: Office) -> None:
    olga = office["olga"].as_owner()
    for i, name in enumerate(ANALYSTS):
        done = olga.set_member("census", name, roles=["analyst"], team=TEAMS[i % 5])
        assert done.outcome == "member_set"
    for name in ENGINES:
        assert olga.set_member("census", name, roles=["engine"]).outcome == "member_set"
    assert olga.set_member("census", "audrey", roles=["auditor"]).outcome == "member_set"
    assert Counter(member.team for member in office["olga"].members("census"))["blue"] == 6


def attempts(office: Office) -> Iterator[Callable[[], object]]:
    """Yield each job of another role, tried by every person without that role."""
    jobs: dict[str, Callable[[Accountant, str], object]] = {
        "ask": lambda client, name: client.ask("census", CLAIM, analyst=name),
        "ask for ana0": lambda client, _: client.ask("census", CLAIM, analyst="ana0"),
        "ask via engine1": lambda client, _: client.ask(
            "census", CLAIM, analyst="ana1", via="engine1"
        ),
        "amend": lambda client, name: client.as_owner(name).amend("census", horizon="P9D"),
        "close": lambda client, name: client.as_owner(name).close("census"),
        "set a member": lambda client, name: client.as_owner(name).set_member(
            "census", name, roles=["owner"]
        ),
        "help": lambda client, name: client.as_administrator(name).set_member(
            "census", name, roles=["owner"]
        ),
        "open": lambda client, name: client.as_owner(name).open(
            "mine", {"epsilon": "1", "filter": "basic"}, as_given=True
        ),
        "close as olga": lambda client, _: client.as_owner("olga").close("census"),
    }
    may = {
        "ask": {*ANALYSTS},
        "ask for ana0": {"ana0"},
        "ask via engine1": {"engine1"},
        **{job: {"olga"} for job in ("amend", "close", "set a member", "close as olga")},
        "help": {"root"},
        "open": {"root"},
    }
    some = ("ana0", "ana1", "ana29", *ENGINES, "audrey", "olga", "zoe")
    for job, tried in jobs.items():
        for name in some:
            if name not in may[job]:
                yield lambda tried=tried, name=name: tried(office[name], name)  # type: ignore[misc]
    yield lambda: Accountant(office.url, token="acct_" + "A" * 43).me()


def sees_their_own(office: Office) -> None:
    """Each analyst sees the own requests alone, an engine those it asked, the others all."""
    for name in ("ana0", "ana7"):
        asked = {of(each) for each in office[name].requests("census") if each.granted}
        assert asked == {name}
    for engine in ENGINES:
        vias = {of(each, "via") for each in office[engine].requests("census") if each.granted}
        assert vias == {engine}
    for name in ("olga", "audrey", "root"):
        granted = [each for each in office[name].requests("census") if each.granted]
        assert len({of(each) for each in granted}) == 30
    assert office["zoe"].datasets() == []
    with pytest.raises(UnknownDataset):
        office["zoe"].dataset("census")
    assert office["ana3"].me().datasets[0].team == "dune"


def removed_in_the_middle(office: Office) -> None:
    """A removed member cannot ask from the next record on, even through others."""
    assert office["olga"].as_owner().remove_member("census", "ana5").outcome == "member_removed"
    with pytest.raises(NotPermitted):
        office["ana5"].ask("census", CLAIM)
    with pytest.raises(NotPermitted):
        office["engine1"].ask("census", CLAIM, analyst="ana5", via="engine1")
    assert office["ana6"].ask("census", CLAIM).granted


def of(decision: Decision, field: str = "analyst") -> str:
    return str(json.loads(bytes(decision.request)).get(field))
