"""Every command of every page: those that a ledger in a file is enough for run as printed.

Of the others the words are parsed. Tutorials are worked through in `test_tutorials.py`, runbooks in
`tests/runbooks`.
"""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections.abc import Callable
from contextlib import ExitStack
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from accountant.times import iso
from streams import Accountant
from streams.clock import SystemClock
from tests.docs.blocks import ROOT, blocks, pages, text
from tests.docs.tutorial import matches
from tests.docs.typed import (
    NEEDS,
    Typist,
    command_of,
    is_accountants,
    lines,
    need,
    problem,
    without_unit,
)
from tests.streams.clock import TestClock
from tests.streams.embedded.archived import HOURS, fill, latest

OPENS = (
    "README.md",
    "SECURITY.md",
    "docs/**",
    "deploy/**",
    "Makefile",
    "pyproject.toml",
    "requirements/*.txt",
)

RUN_BY_ANOTHER_TEST: Final = {
    "README.md": "tests/docs/test_tutorials.py",
    "docs/runbooks.md": "tests/runbooks",
    "docs/how-to/evidence.md": "tests/streams/cli/test_evidence.py",
    "docs/how-to/many-requests.md": "tests/streams/gateway/test_many_requests_page.py",
    "docs/how-to/other-kafka-clients.md": "tests/kafka/test_other_kafka_clients.py",
    "docs/reference/commands.md": "tests/docs/test_reference.py",
}
OF_OTHERS: Final = {"confluent-kafka", "jupyter", "pandas"}
"""Packages that others have published."""
POLICY: Final = {"epsilon": "1", "delta": "1e-6"}


def commands(page: str) -> list[str]:
    """Return the blocks of a page that a shell reads."""
    return [each.body for each in blocks(text(page), "sh", "console")]


def typed(page: str) -> bool:
    return (
        bool(commands(page))
        and page not in RUN_BY_ANOTHER_TEST
        and page not in FOLLOWS
        and not page.startswith("docs/tutorials/")
    )


def open_dataset(typist: Typist, *datasets: str, file: str = "accountant.db") -> None:
    """Open datasets in a ledger's file, and ask of each."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in typist.variables.items():
            patch.setenv(name, value)
        with Accountant(f"sqlite:///{typist.directory / file}", analyst="ana") as ledger:
            for dataset in datasets:
                ledger.as_owner("registrar").open(dataset, POLICY)
                ledger.ask(dataset, "pure:0.01")


def with_census(typist: Typist) -> None:
    open_dataset(typist, "census")


def for_an_auditor(typist: Typist) -> None:
    with_census(typist)
    open_dataset(typist, "census", file="copy.db")
    (typist.directory / "mnt" / "elsewhere").mkdir(parents=True)
    typist.reads = {"PUBLIC": r"(\S+\+[0-9a-f]{8}\+\S+)", " ID": r"ledger( [0-9a-f]{32})"}


def to_archive(typist: Typist) -> None:
    """Leave a ledger that was used until now, and archive its older half."""
    file = typist.directory / "accountant.db"
    fill(file, TestClock(SystemClock().now() - HOURS * 3_600_000))
    typist.instead["2026-10-01"] = iso(latest(file))


def to_back_up(typist: Typist) -> None:
    open_dataset(typist, "census", file="ledger.db")
    typist.reads["41:sha256:..."] = r"head (\d+:sha256:[0-9a-f]{64})"


def with_groups(typist: Typist) -> None:
    with_census(typist)
    groups = {"census-owners": ["registrar"], "census-analysts": ["ana"], "team-blue": ["ana"]}
    (typist.directory / "groups.json").write_text(json.dumps(groups))
    typist.variables["ACCOUNTANT_OWNER"] = "registrar"


def with_tokens(typist: Typist) -> None:
    """Serve an earlier ledger with tokens; a line has the one that its comment says."""
    with_census(typist)
    typist.variables |= {"ACCOUNTANT_TOKENS": "tokens.json", "ACCOUNTANT_ADMINISTRATORS": "root"}
    typist.types("accountant token create --name root > root.token")
    typist.types("accountant token create --name olga > olga.token")
    typist.types("accountant serve")
    typist.tokens = {"the administrator": "root.token", "olga": "olga.token"}
    typist.tokens |= {"the earlier owner": "olga.token"}


def served(typist: Typist) -> None:
    typist.types("accountant serve")


def of_the_system(typist: Typist) -> None:
    """Make the directory that the systemd unit makes."""
    (typist.directory / "var" / "lib" / "accountant").mkdir(parents=True)
    typist.reads["OLD"] = r"(t-[0-9a-f]{12}) +ana "


def with_files(typist: Typist) -> None:
    """Write the two files of the page that compares filters."""
    policy, requests = (
        each.body for each in blocks(text("docs/how-to/choose-a-filter.md"), "json")
    )
    (typist.directory / "policy.json").write_text(policy)
    (typist.directory / "requests.jsonl").write_text(requests)


def with_sources(typist: Typist) -> None:
    """Write a file of sources, and a schema for one of them."""
    (typist.directory / "visits-1.csv").write_text("age;region\n70;north\n30;south\n")
    (typist.directory / "census.csv").write_text("age;region\n70;north\n30;south\n")
    sources = {
        name: {"kind": "csv", "path": path, "delimiter": ";", "datasets": [name]}
        for name, path in {"visits": "visits-*.csv", "census": "census.csv"}.items()
    }
    (typist.directory / "sources.json").write_text(json.dumps(sources))
    schema = {
        "source": {"kind": "csv", "name": "visits"},
        "columns": [{"type": "number", "name": "age", "lower": "0", "upper": "120"}],
        "neighbours": "add_remove",
    }
    (typist.directory / "visits.schema.json").write_text(json.dumps(schema))
    typist.filled_in["schema.json"] = "visits.schema.json"


def of_a_unit(typist: Typist) -> None:
    """Make the directories that the page and its units make, with sources and a ledger."""
    (typist.directory / "var" / "lib" / "accountant").mkdir(parents=True)
    open_dataset(typist, "census", file="var/lib/accountant/ledger.db")
    (typist.directory / "var" / "lib" / "accountant-curator").mkdir(parents=True)
    data = typist.directory / "srv" / "accountant"
    data.mkdir(parents=True)
    with_sources(Typist(data, typist.serving))


STATES: Final[dict[str, Callable[[Typist], None]]] = {
    "docs/how-to/answer-questions.md": with_sources,
    "docs/how-to/archive.md": to_archive,
    "docs/how-to/authentication.md": of_the_system,
    "docs/how-to/backup-and-restore.md": to_back_up,
    "docs/how-to/checkpoints.md": for_an_auditor,
    "docs/how-to/choose-a-filter.md": with_files,
    "docs/how-to/close-open-datasets.md": with_tokens,
    "docs/how-to/data-sources.md": with_sources,
    "docs/how-to/follow-a-request.md": served,
    "docs/how-to/members-from-groups.md": with_groups,
    "docs/how-to/systemd.md": of_a_unit,
}
FOLLOWS: Final = {"docs/how-to/ask-questions.md": "docs/how-to/answer-questions.md"}
"""A page whose reader has followed another one before, in the same shell."""


def run(page: str, directory: Path) -> None:
    """Type a page's commands in the state that it begins with."""
    directory.mkdir()
    with ExitStack() as serving:
        typist = Typist(directory, serving)
        STATES.get(page, lambda _: None)(typist)
        following = [each for each, before in FOLLOWS.items() if before == page]
        joined = "\n".join(map(text, (page, *following)))
        for block in blocks(joined, "sh", "console", "python", "text"):
            if block.language == "text":
                assert matches(block.body, typist.printed), f"{page} shows\n{block.body}"
            elif block.title:
                (directory / block.title).write_text(block.body)
            elif block.language in {"sh", "console"}:
                typist.types(block.body)
            elif block.language == "python" and following:
                typist.runs(block.body)


@pytest.mark.parametrize("page", [page for page in pages() if typed(page)])
def test_the_commands_of_a_page_run_as_printed(page: str, tmp_path: Path) -> None:
    run(page, tmp_path / "typed")


@cache
def recipes() -> set[str]:
    return set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))


@cache
def extras() -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return set(project["optional-dependencies"])


def wrong_packages(words: list[str]) -> str:
    """Return what is wrong with the words after `pip install`: a package, a file of versions."""
    options = {"--require-hashes", "--no-deps", "--no-build-isolation", "-r"}
    files = [after for before, after in pairwise(words) if before == "-r"]
    missing = [each for each in files if not (ROOT / each).is_file()]
    if missing:
        return f"no file {missing[0]}"
    packages = [each for each in words if each not in {*options, *files}]
    return next(filter(None, map(wrong_package, packages)), "")


def wrong_package(wanted: str) -> str:
    """Return why a package cannot be installed so; "" if it can."""
    if not (ours := re.fullmatch(r"(?:\.|\./WHEEL)(?:\[([\w,-]+)\])?", wanted)):
        return "" if wanted in OF_OTHERS else f"nobody has published {wanted}"
    missing = {each for each in (ours[1] or "").split(",") if each} - extras()
    return f"no extra {', '.join(sorted(missing))}" if missing else ""


@cache
def services_of_compose() -> dict[str, Any]:
    file = yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))
    return dict(file["services"])


def wrong_services(words: list[str]) -> str:
    """Return what is wrong with the words after `docker compose`: a profile, a service, a command.

    `run` gives the words after its service to the entry point, which is `accountant`.
    """
    profiles = {each for of in services_of_compose().values() for each in of.get("profiles", [])}
    if words[0] == "--profile":
        if words[1] not in profiles:
            return f"no profile {words[1]}"
        words = words[2:]
    options = {"--entrypoint": 2}
    verb, rest = words[0], words[1:]
    while rest and rest[0].startswith("-"):
        rest = rest[options.get(rest[0], 1) :]
    services = rest[:1] if verb == "run" else rest
    missing = [each for each in services if each not in services_of_compose()]
    if missing:
        return f"no service {missing[0]}"
    return problem(rest[1:]) if verb == "run" else ""


def wrong(line: str) -> str:
    """Return what is wrong with a line of code: its command, its recipe or what it installs.

    A command named in prose may lack what it needs, and have a word for each value.
    """
    line = re.sub(r" \[OPTIONS\]| \.\.\.", "", line.removeprefix("$ ")).replace("\\\n", " ")
    line = without_unit(line)
    if recipe := re.match(r"(?:[A-Z_]+=\S+ )*make ([a-z-]+)", line):
        return "" if recipe[1] in recipes() else f"no recipe {recipe[1]}"
    if compose := re.match(r"docker compose (.*)", line):
        return wrong_services(shlex.split(compose[1], comments=True))
    if packages := re.match(r"(?:\S*/|\S*python3? -m )?pip install ([^#]*)", line):
        return wrong_packages(shlex.split(packages[1]))
    for part in re.split(r" (?:\||&&) ", line) if is_accountants(line) else ():
        if is_accountants(part) and not {"--help", "--version"} & set(
            words := command_of(part).words[1:]
        ):
            said = problem(words)
            if not re.match(r"Missing |.*requires an argument|.*'[A-Z]+' is not a valid", said):
                return said
    return ""


def named(page: str) -> list[str]:
    """Return every line of code of a page, in a block or within a sentence."""
    fenced = blocks(text(page), "sh", "console", "")
    found = [line for each in fenced for line in lines(each.body)]
    without = re.sub(r"^ *```.*?^ *```$", "", text(page), flags=re.MULTILINE | re.DOTALL)
    return found + [" ".join(each.split()) for each in re.findall(r"`([^`]+)`", without)]


def test_every_command_recipe_and_extra_that_a_page_names_exists() -> None:
    every = {(page, line): wrong(line) for page in pages() for line in named(page)}
    assert not [(*where, said) for where, said in every.items() if said]


def test_one_page_says_what_each_extra_is_for() -> None:
    table = re.findall(r"^\| (`[^|]+) \| [^|]+ \|$", text("docs/how-to/embedded.md"), re.MULTILINE)
    assert sorted(extras()) == sorted(re.findall(r"`([\w-]+)`", " ".join(table)))
    for page in pages():
        for line in text(page).splitlines():
            named = re.findall(
                r"\[extras?\]\([^)]*embedded\.md#install\)((?: (?:and )?`[\w-]+`)+)", line
            )
            assert set(re.findall(r"`([\w-]+)`", " ".join(named))) <= extras(), (page, line)


def test_the_commands_that_pages_run_are_these() -> None:
    """A change of another command reaches the parser alone: `tests/selection` reads the names."""
    found = {
        command_of(line.replace("\\\n", " ")).words[1]
        for page in pages()
        if typed(page) or page in FOLLOWS
        for body in commands(page)
        for line in lines(body)
        if is_accountants(line) and not need(line)
    }
    assert found == {
        "approval",
        "ask",
        "audit",
        "compare",
        "dataset",
        "fits",
        "gateway",
        "head",
        "key",
        "limit",
        "log",
        "me",
        "member",
        "more",
        "mine",
        "plan",
        "serve",
        "source",
        "token",
    }


def test_a_command_that_is_refused_is_noticed(tmp_path: Path) -> None:
    assert "no command askk" in wrong("accountant askk census")
    assert "--analist" in wrong("$ accountant ask census pure:1 --analist ana")
    assert "extra argument" in wrong("accountant mine ana")
    assert wrong("accountant ask DATASET CLAIM [OPTIONS]") == ""
    assert wrong("make no-such-recipe") == "no recipe no-such-recipe"
    assert wrong("pip install '.[servers]'") == "no extra servers"
    assert wrong("pip install -r requirements/run.txt .") == "no file requirements/run.txt"
    assert "nobody has published" in wrong("pip install 'streaming-privacy-accountant[server]'")
    assert wrong("docker compose --profile demos up") == "no profile demos"
    assert wrong("docker compose logs --follow webhooks") == "no service webhooks"
    assert "no command" in wrong("docker compose run --rm --entrypoint accountant keys tokens")
    with ExitStack() as serving, pytest.raises(AssertionError, match="--delta is missing"):
        Typist(tmp_path, serving).types("accountant dataset open census --epsilon 10\n")


def test_each_need_is_one_of_a_page_and_no_excuse_for_a_file() -> None:
    every = [line for page in pages() for line in named(page)]
    unused = [start for start in NEEDS if not any(re.match(start, line) for line in every)]
    assert not unused
    assert need("accountant audit --url kafka://broker:9092") == "brokers"
    assert need("accountant audit ledger.db") == ""
