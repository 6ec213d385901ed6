"""Each file that a person writes, and each field of a form, is refused with a key twice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
import typer

from accountant.errors import BudgetError
from accountant.records.inputs import Undecodable
from accountant.records.receipts import read_receipt
from accountant.records.schema_file import read_schema_file
from streams.auth import token_file
from streams.cli.ask_many import _request_in
from streams.cli.reading.member_file import read_members
from streams.cli.reading.policy_options import read_policy
from streams.client.login.stored_login import find_login, login_file
from streams.errors import Refused
from streams.pages.dataset.question_form import question_record
from streams.sources.confirmed_facts import ConfirmedFacts
from streams.sources.source_settings import read_source_settings
from tests.every_case import check_rows

SERVER: Final = "https://ledger.example"
TOKENS: Final = '{"version":1,"tokens":[]}'
LOGIN: Final = (
    '{"version":1,"url":"https://ledger.example","issuer":"i","client_id":"c","token_endpoint":"t",'
    '"revocation_endpoint":null,"more":{},"access_token":"a","refresh_token":"r","issued":1,'
    '"expires":null}'
)
SOURCE: Final = '{"people":{"kind":"csv","path":"people.csv"}}'
SCHEMA: Final = (
    '{"source":{"kind":"csv","name":"people"},"unit":{"column":"id","rows":1},"columns":'
    '[{"type":"boolean","name":"t"}],"neighbours":"add_remove"}'
)
MEMBERS: Final = '[{"member":"olga","roles":["owner"]}]'


def by_path(read: Callable[[Path], object]) -> Callable[[Path, str], object]:
    def write_and_read(path: Path, text: str) -> object:
        path.write_text(text)
        path.chmod(0o600)
        return read(path)

    return write_and_read


def stored_login(_: Path, text: str) -> object:
    path = login_file(SERVER)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return by_path(lambda _: find_login(SERVER))(path, text)


def line_of_requests(_: Path, text: str) -> object:
    found = _request_in(text.encode())
    if isinstance(found, Undecodable):
        raise found
    return found


def page_field(_: Path, text: str) -> object:
    noise = '{"epsilon":"1"}'
    fields = {
        "question": text,
        "noise": noise,
        "request_id": "01a22954-0000-7000-8000-000000000000",
    }
    return question_record(fields, "survey", "ana")


READERS: Final[dict[str, tuple[Callable[[Path, str], object], str, str, str]]] = {
    # what: how it is read, its text, and of that what stands twice
    "sources": (by_path(read_source_settings), SOURCE, '"kind":"csv"', '"kind":"csv"'),
    "tokens": (by_path(token_file.read), TOKENS, '"tokens":[]', '"tokens":[]'),
    "login": (stored_login, LOGIN, '"issued":1', '"issued":1'),
    "schema": (
        by_path(lambda path: read_schema_file(path.read_bytes())),
        SCHEMA,
        '"rows":1',
        '"rows":500',
    ),
    "policy": (by_path(read_policy), '{"epsilon":"1"}', '"epsilon":"1"', '"epsilon":"9"'),
    "members": (by_path(read_members), MEMBERS, '"roles":["owner"]', '"roles":["analyst"]'),
    "members' columns": (
        by_path(read_members),
        "member,roles,team\nolga,owner,x\n",
        ",team\nolga,owner,x",
        ",team\nolga,owner,x,y",
    ),
    "receipt": (
        lambda _, text: read_receipt(text.encode()),
        '{"partition":0,"partition_sequence":7,"hash":"sha256:00"}',
        '"partition_sequence":7',
        '"partition_sequence":8',
    ),
    "line of requests": (
        line_of_requests,
        '{"dataset":"a","claim":"pure:0.1","request_id":"x"}',
        '"dataset":"a"',
        '"dataset":"b"',
    ),
    "page": (page_field, '{"ask":"count"}', '"ask":"count"', '"ask":"count"'),
}


WORDS: Final = {
    **dict.fromkeys(("tokens", "login"), "is damaged"),  # a command writes these files
    "page": "must be as the page wrote it",
}


def test_no_file_may_have_a_key_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))

    def check_case(what: str) -> None:
        read, text, once, again = READERS[what]
        assert text.count(once) == 1
        path = tmp_path / "file"
        assert read(path, text) is not None
        twice = text.replace(",team\n", ",team,team\n").replace("olga,owner,x", "olga,owner,x,y")
        if not once.startswith(",team"):
            twice = text.replace(once, f"{once},{again}")
        with pytest.raises((BudgetError, ValueError, typer.Exit)) as error:
            read(path, twice)
        said = str(error.value) + capsys.readouterr().err
        assert WORDS.get(what, "stands twice") in said, said

    check_rows(check_case, [(what,) for what in READERS])
    facts = ConfirmedFacts(tmp_path / "facts")
    by_path(lambda _: None)(tmp_path / "facts", '{"people":{},"people":{}}')
    with pytest.raises(Refused, match="does not have its form"):
        facts.get("people")
