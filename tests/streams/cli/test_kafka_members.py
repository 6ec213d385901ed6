"""The commands of members of a ledger on Kafka, on a real broker, and through its gateway."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterator

from tests.patience import PATIENCE_S
from tests.streams.cli.conftest import Command, environment

STARTS = ("streams.cli",)

POLICY = ("--filter", "basic", "--epsilon", "1", "--most-per-request", "1")


@contextlib.contextmanager
def running(command: Command, *arguments: str, **where: str) -> Iterator[str]:
    process: subprocess.Popen[str] = command.start(*arguments, env=environment(**where))
    try:
        assert process.stdout is not None
        # A worker says nothing: requests wait for it.
        line = process.stdout.readline() if arguments[0] == "gateway" else ""
        yield line.split()[-1] if line else ""
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE_S)


def test_members_are_set_on_kafka_and_known_at_its_gateway(broker, application, accountant):
    where = {
        "ACCOUNTANT_URL": f"kafka://{broker.bootstrap}",
        "ACCOUNTANT_APPLICATION": application,
        "ACCOUNTANT_TOPIC_PREFIX": f"{application}-",
        "ACCOUNTANT_PARTITIONS": "2",
    }
    assert accountant("topics", "create", **where).code == 0
    tokens = {
        name: accountant("token", "create", "--name", name, "--tokens", "t.json", "--json")
        .json["token"]
        for name in ("olga", "ana", "eng")
    }  # fmt: skip
    members = [
        {"member": "olga", "roles": ["owner"]},
        {"member": "ana", "roles": ["analyst"], "team": "blue"},
        *({"member": f"u{i}", "roles": ["analyst"]} for i in range(200)),
    ]
    (accountant.directory / "members.json").write_text(json.dumps(members))
    with running(accountant, "worker", "--metrics-port", "0", **where):
        for name in ("survey", "census"):
            opened = accountant(
                *("dataset", "open", name, *POLICY, "--by", "olga"),
                *("--access", "members", "--population", "city", "--wait", "60"),
                **where,
            )
            assert opened.code == 0, opened.err
        by = ("--by", "olga", "--wait", "60")
        done = accountant("member", "set", "survey", "eng", "--role", "engine", *by, **where)
        assert done.code == 0, done.err
        done = accountant("member", "sync", "survey", "members.json", *by, **where)
        assert done.code == 0, done.err
        assert "201 to add, 0 to change, 1 to remove" in done.out
        again = accountant("member", "sync", "survey", "members.json", *by, **where)
        assert "nothing to change" in again.out
        listed = accountant("member", "list", "survey", "--json", **where)
        assert len(listed.rows) == 202
        shown = accountant("dataset", "show", "survey", **where)
        assert "202 (owner 1, analyst 201)" in shown.out
        assert "Together they guarantee ε = 2, δ = 0." in " ".join(shown.out.split())
        denied = accountant(
            "ask", "survey", "pure:0.1", "--analyst", "ben", "--wait", "60", **where
        )
        assert (denied.code, "not_permitted" in denied.out) == (1, True)
        known = {"ACCOUNTANT_TOKENS": "t.json", "ACCOUNTANT_PORT": "0"}
        with running(accountant, "gateway", **where, **known) as url:

            def at(name: str, *command: str):
                return accountant(*command, ACCOUNTANT_URL=url, ACCOUNTANT_TOKEN=tokens[name])

            assert at("ana", "me", "--json").json["datasets"][0]["team"] == "blue"
            asked = at("ana", "ask", "survey", "pure:0.1", "--wait", "30")
            assert asked.code == 0, asked.err + asked.out
            assert at("eng", "ask", "survey", "pure:0.1", "--wait", "30").code == 1
            done = at("olga", "member", "set", "survey", "eng", "--role", "engine", "--wait", "30")
            assert done.code == 0, done.err
            # What the gateway knows follows the log: it may lag behind the answer.
            through = ("ask", "survey", "pure:0.1", "--analyst", "ana", "--via", "eng")
            assert any(at("eng", *through).code == 0 for _ in range(20))
            (own,) = at("ana", "member", "list", "survey", "--json").rows
            assert own["member"] == "ana"
    assert accountant("audit", **where).code == 0
