"""Every Python program of every page runs, or is quoted from an example that a test runs."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from accountant.answers import Granted
from accountant.questions import (
    Schema,
    derive,
    evaluate,
    parse_noise,
    parse_question,
)
from accountant.questions.schema import check_schema
from accountant.views.datasets import Alert
from streams import Accountant
from tests.docs.blocks import ROOT, blocks, pages, text
from tests.streams.alerts.test_delivered_ids import alert

OPENS = ("README.md", "docs/**", "examples/*")

RUN_BY_ANOTHER_TEST: Final = {
    "README.md": "tests/docs/test_readme_python.py",
    "docs/how-to/ask-questions.md": "tests/docs/test_commands_of_pages.py",
    "docs/how-to/engines.md": "tests/streams/engines/test_examples.py",
    "docs/how-to/opacus.md": "tests/streams/engines/test_opacus.py",
    "docs/how-to/other-kafka-clients.md": "tests/kafka/test_other_kafka_clients.py",
    "docs/how-to/read-decisions.md": "tests/kafka/test_other_kafka_clients.py",
    "docs/reference/accuracy-first.md": "tests/accountant/questions/test_page.py",
    "docs/reference/questions.md": "tests/accountant/questions/test_page.py",
}
POLICY: Final = {"epsilon": "1", "delta": "1e-6", "beside": "none"}
Names = dict[str, Any]


def programs(page: str) -> list[str]:
    return [each.body for each in blocks(text(page), "python")]


@cache
def examples() -> str:
    return "\n".join(each.read_text() for each in sorted((ROOT / "examples").glob("*.py")))


def is_quoted(program: str) -> bool:
    """Tell whether each line of a program is one of an example."""
    return all(line.strip() in examples() for line in program.splitlines())


def of_pages() -> list[str]:
    """Return the pages with programs that this file runs."""
    return [
        page
        for page in pages()
        if page not in RUN_BY_ANOTHER_TEST
        and not page.startswith("docs/tutorials/")
        and any(not is_quoted(each) for each in programs(page))
    ]


def test_programs_that_another_test_runs_are_there() -> None:
    for page, test in RUN_BY_ANOTHER_TEST.items():
        assert programs(page)
        assert Path(page).name in (ROOT / test).read_text(encoding="utf-8")


def with_question(directory: Path) -> Names:
    """Return a question, and a source that it reads."""
    (directory / "census.csv").write_text("age\n70\n30\n")
    source = {"kind": "csv", "path": "census.csv", "datasets": ["census"]}
    (directory / "sources.json").write_bytes(msgspec.json.encode({"census": source}))
    text = """{"source": {"kind": "csv", "name": "census"}, "neighbours": "add_remove",
        "columns": [{"type": "number", "name": "age", "lower": "0", "upper": "120"}]}"""
    schema = check_schema(msgspec.json.decode(text, type=Schema))
    checked, noise = parse_question("count where age > 65", schema), parse_noise("epsilon: 1")
    names: Names = {"schema": schema, "checked": checked, "derivation": derive(checked, noise)}
    ids = {"dataset": "census", "request_id": "1", "analyst": "ana", "grant": "sha256:0"}
    return names | {
        "evaluate": evaluate,
        "rows": [{"age": "70"}, {"age": "30"}],
        "key": b"k" * 32,
        "granted": Granted(
            **ids, question=checked.question, noise=noise, claim=names["derivation"].claim
        ),
    }


def with_ledger(directory: Path, *datasets: str) -> Names:
    """Return a ledger in a file, and what its reader has written."""
    ledger = Accountant(f"sqlite:///{directory / 'accountant.db'}", analyst="ana")
    for dataset in datasets:
        ledger.as_owner("olga").open(dataset, POLICY)
    return {"ledger": ledger}


def with_sessions(directory: Path) -> Names:
    """Return the mechanisms of sessions, which draw nothing: these are the reader's."""
    return with_ledger(directory, "flu", "clinic", "registry") | {
        "read_cases": lambda: lambda level: 100,
        "is_precise": lambda count, variance: variance == "62500",
        "join": lambda: 7,
    }


def with_alert(_: Path) -> Names:
    return {"ids_stored_so_far": [], "alert": alert("0.8"), "act": list[Alert]().append}


STATES: Final[dict[str, Callable[[Path], Names]]] = {
    "docs/how-to/data-sources.md": with_question,
    "docs/how-to/many-requests.md": lambda directory: with_ledger(directory, "census"),
    "docs/how-to/run-a-session.md": with_sessions,
    "docs/reference/answers.md": with_question,
    "docs/reference/python-calls.md": lambda directory: with_ledger(directory, "census"),
    "docs/reference/records/alert.md": with_alert,
    "docs/reference/several-datasets.md": lambda directory: (
        with_ledger(directory, "sales", "returns") | {"CLAIM": "pure:0.01"}
    ),
}


@pytest.mark.parametrize("page", of_pages())
def test_the_programs_of_a_page_run(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("XDG_DATA_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setenv("ACCOUNTANT_URL", f"sqlite:///{tmp_path / 'accountant.db'}")
    names: Names = {}
    for block in blocks(text(page), "python"):
        # A program with a title is a file, which the commands of its page run.
        if not block.title and not is_quoted(block.body):
            names |= STATES.get(page, lambda _: {})(tmp_path)
            try:
                exec(block.body.replace("10_000", "100"), names)
            finally:
                if "ledger" in names:
                    names["ledger"].close()
