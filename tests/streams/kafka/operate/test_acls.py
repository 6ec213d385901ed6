"""The ACLs of the roles: the shipped script, and the check of other ACLs."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from streams.kafka.deployment import Deployment
from streams.kafka.operate.acls.bindings import CLUSTER, Binding, Kind, Operation
from streams.kafka.operate.acls.check import compare
from streams.kafka.operate.acls.commands import script
from streams.kafka.operate.acls.roles import ROLES
from streams.kafka.wire.security import Security

OPENS = ("deploy/kafka/*", "docs/**", "docker-compose.yml")

ROOT = Path(__file__).parents[4]
WHERE = Deployment(
    bootstrap="broker:9093", partitions=2, security=Security("SASL_SSL", "root", "secret")
)
PRINCIPALS = {f"User:{role}": role for role in ROLES}


def rule(principal: str, operation: str, name: str, kind: str = "TOPIC", **more: Any) -> Binding:
    return Binding(
        principal=principal, operation=Operation[operation], kind=Kind[kind], name=name, **more
    )


def of_roles(*roles: str) -> list[Binding]:
    return [each for role in roles for each in ROLES[role].bindings(f"User:{role}", WHERE)]


def read_back(line: str) -> Iterable[tuple[Any, ...]]:
    """Yield the ACLs that one of Kafka's commands adds, by its documentation."""
    words = shlex.split(line)
    pairs = [(word, words[i + 1]) for i, word in enumerate(words[:-1])]
    (principal,) = [value for option, value in pairs if option == "--allow-principal"]
    operations = [value for option, value in pairs if option == "--operation"]
    kinds = {"--topic": Kind.TOPIC, "--group": Kind.GROUP, "--transactional-id": 5}
    resources = [(kinds[option], value) for option, value in pairs if option in kinds]
    if "--cluster" in words:
        resources.append((Kind.CLUSTER, CLUSTER))
    for kind, name in resources:
        for operation in operations:
            yield principal, operation, kind, name, "prefixed" in words


def test_the_shipped_script_matches_the_roles() -> None:
    shipped = (ROOT / "deploy/kafka/acls.sh").read_text()
    assert shipped.split("set -eu\n\n", 1)[1] == script(WHERE, PRINCIPALS), (
        "regenerate deploy/kafka/acls.sh: `accountant topics acls --url kafka://broker:9093`"
    )


def test_the_commands_add_every_rule_and_no_other() -> None:
    lines = [line for line in script(WHERE, PRINCIPALS).splitlines() if line[:1] == "k"]
    added = [each for line in lines for each in read_back(line)]
    rules = [
        (each.principal, each.operation.word, each.kind, each.name, each.prefixed)
        for each in of_roles(*ROLES)
    ]
    assert sorted(added) == sorted(rules)
    assert all("--bootstrap-server broker:9093 --command-config" in line for line in lines)


def test_each_principal_is_recognised_by_its_rules() -> None:
    found = compare(WHERE, of_roles(*ROLES), {"User:operator": "operator"})
    assert (found.problems, found.warnings) == ([], [])
    assert found.roles == {role: [f"User:{role}"] for role in ROLES}


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ([rule("User:engine", "WRITE", "decisions")], "User:engine may Read decisions/state, Wri"),
        ([rule("User:engine", "ALL", "deci", prefixed=True)], "User:engine may Alter decisions"),
        ([rule("User:engine", "WRITE", "accountant-1", "TRANSACTIONAL_ID")], "transactional ids"),
        ([rule("User:x", "WRITE", "*", "TRANSACTIONAL_ID"), rule("User:x", "WRITE", "admin")], "x"),
        ([rule("User:*", "READ", "decisions")], "User:*, which is everyone, may Read"),
        ([rule("User:ANONYMOUS", "WRITE", "*")], "User:ANONYMOUS, which is everyone"),
        ([rule("User:x", "ALTER", CLUSTER, "CLUSTER")], "User:x may Alter the cluster"),
        ([rule("User:x", "DELETE", "state")], "User:x may Delete state"),
        ([rule("User:gateway", "READ", "accountant", "GROUP")], "decisions/group accountant"),
        ([rule("User:gateway", "READ", "accountant-answers", "GROUP")], "accountant-answers"),
        (of_roles("operator"), "add `--principal operator=operator`"),
    ],
)
def test_more_rights_than_a_role_are_a_problem(more: list[Binding], expected: str) -> None:
    rules = of_roles("engine", "gateway", "worker")
    assert compare(WHERE, rules, {}).problems == []
    (problem,) = compare(WHERE, [*rules, *more], {}).problems
    assert expected in problem
    assert "; " not in problem, "a semicolon separates problems"


def test_a_principal_that_only_reads_is_a_warning() -> None:
    found = compare(WHERE, [rule("User:copy", "READ", "*")], {})
    assert found.problems == []
    assert found.warnings[0].startswith("User:copy may Read admin/alerts/answers/dead-letters")


def test_a_denied_right_is_not_allowed() -> None:
    allowed = rule("User:engine", "ALL", "*")
    denied = [
        rule("User:engine", operation, topic, allow=False)
        for operation in ("READ", "WRITE", "CREATE", "DELETE", "ALTER", "ALTER_CONFIGS")
        for topic in ("admin", "decisions", "state", "dead-letters", "alerts", "answers")
    ]
    (problem,) = compare(WHERE, [allowed, *denied], {}).problems
    assert problem.startswith(
        "User:engine may Alter requests, AlterConfigs requests, Create requests, Delete requests, "
        "Read requests, Write requests: no role allows all of this"
    )
    from_elsewhere = rule("User:engine", "ALL", "*", allow=False, host="10.0.0.1")
    assert compare(WHERE, [allowed, from_elsewhere], {}).problems


def test_a_named_principal_has_its_role_and_nothing_else() -> None:
    named = {"User:engine": "auditor", "User:olga": "owner"}
    found = compare(WHERE, of_roles("engine"), named)
    assert found.problems == [
        "User:engine may not Read answers, which auditors need",
        "User:engine may Write requests, which no auditor may",
        "User:olga may not Read decisions/state, Write admin, which owners need",
    ]


@pytest.mark.parametrize("role", ROLES)
def test_a_role_that_lacks_any_of_its_rights_is_a_problem(role: str) -> None:
    rules = of_roles(role)
    named = {f"User:{role}": role}
    assert compare(WHERE, rules, named).problems == []
    unseen = [
        f"{each.operation.word} {each.name}"
        for each in rules
        if not compare(WHERE, [other for other in rules if other != each], named).problems
    ]
    # To describe shows names alone, and what a worker cannot describe it says at its start.
    assert all(each.startswith("Describe") for each in unseen), unseen


def test_a_page_that_gives_worker_and_gateway_rights_gives_curator_and_operator_theirs() -> None:
    pages = [*(ROOT / "docs").rglob("*.md"), ROOT / "deploy/kafka/README.md"]
    lacking = []
    for page in [*pages, ROOT / "docker-compose.yml"]:
        named = set(re.findall(r"--principal[ =](\w+)=", page.read_text()))
        if {"worker", "gateway"} <= named and not {"curator", "operator"} <= named:
            lacking.append(page.name)
    assert lacking == []
