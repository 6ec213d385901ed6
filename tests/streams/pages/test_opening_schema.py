"""The schema on the page that opens a dataset: names and types of a source, nothing of a cell."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html import unescape
from typing import Any

import pytest

from streams.sources.schema_skeleton import skeleton_text
from streams.sources.source_facts import read_facts
from streams.sources.source_settings import read_source_settings
from tests.streams.gateway.asking import SCHEMA, data_settings
from tests.streams.pages.dataset.pages_server import PagesServer, form_of
from tests.streams.pages.dataset.test_page import words

DRAFT = {"dataset": "study", "epsilon": "1", "delta": "1e-6", "unit": "person"}


@pytest.fixture(scope="module")
def reading(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PagesServer]:
    """A server that reads the source `people` for `study` and `other`, and `secret` for `hers`."""
    directory = tmp_path_factory.mktemp("schema")
    settings = data_settings(directory, datasets=["study", "other", "taken"])
    file = settings["data_sources"]
    sources = json.loads(file.read_text())
    (directory / "secret.csv").write_text("<b>salary,income\n1,2\n")
    sources["secret"] = {
        "kind": "csv",
        "path": str(directory / "secret.csv"),
        "datasets": ["hers"],
    }
    file.write_text(json.dumps(sources))
    with PagesServer(directory, settings=settings) as made:
        made.open_for_olga("taken", access="members")
        yield made


def page(server: PagesServer, **fields: str) -> Any:
    query = {**DRAFT, **fields}
    return server.http.get("/pages/open", params=query, headers=server.auth_headers("opie"))


def preview(server: PagesServer, schema: object, **fields: str) -> Any:
    """Return the preview of a draft with a schema, as its form sends it."""
    form = page(server, **fields).text.split('id="draft"', maxsplit=1)[1]
    filled = form_of(form, "pages/open".partition("/")[2])
    text = schema if isinstance(schema, str) else json.dumps(schema)
    sent = {**filled, "schema": text, "preview": "yes"}
    headers = {"origin": server.url, "sec-fetch-site": "same-origin"}
    headers |= server.auth_headers("opie")
    return server.http.post("/pages/open", data=sent, headers=headers)


def test_a_source_gives_names_and_types_to_a_dataset_that_may_read_it(
    reading: PagesServer,
) -> None:
    offered = page(reading).text
    assert "source=people" in offered
    assert "secret" not in offered
    made = page(reading, source="people").text
    assert "&#34;name&#34;: &#34;age&#34;" in made
    assert "FILL IN: number, category, boolean, date or time" in made
    assert "from what you know of the people and not from the data" in made
    text = unescape(
        re.findall(r"<textarea id=.o-schema.[^>]*>(.*?)</textarea>", made, re.DOTALL)[0]
    )
    command = skeleton_text(
        "csv",
        "people",
        read_facts(read_source_settings(reading.path.with_name("sources.json"))["people"]),
    )
    assert text.strip() == command[0]
    assert not {"north", "south", "79", "20"} & set(text.replace('"', " ").split())


def test_a_source_of_another_dataset_shows_nothing(reading: PagesServer) -> None:
    for dataset in ("study", "stranger", "taken", "no spaces"):
        answer = page(reading, dataset=dataset, source="secret").text
        assert "salary" not in answer
        assert "income" not in answer
    secret = {**SCHEMA, "source": {"kind": "csv", "name": "secret"}}
    answer = preview(reading, secret)
    assert "income" not in answer.text
    assert "salary" not in answer.text
    assert "Of the source secret" not in answer.text
    assert "Dataset study may not read the source secret" in words(answer.text)
    # A name with markup is text.
    hers = page(reading, dataset="hers", source="secret").text
    assert "&lt;b&gt;salary" in hers
    assert "<b>salary" not in hers
    # The sources that are offered do not say whether a hidden dataset is open.
    assert "source=" not in page(reading, dataset="taken").text


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ("{", "Must be JSON"),
        ("[]", "Must be an object"),
        (
            {**SCHEMA, "columns": [{"type": "number", "name": "age", "lower": "FILL IN: x"}]},
            "Columns[0].lower must be filled in for column age.",
        ),
        (
            {**SCHEMA, "columns": [{"type": "number", "name": "age", "lower": "9", "upper": "1"}]},
            "columns[0]",
        ),
    ],
)
def test_a_wrong_schema_names_its_column_and_the_rule(
    reading: PagesServer, schema: object, said: str
) -> None:
    before = reading.stored_rows()
    answer = preview(reading, schema)
    assert said.casefold() in words(answer.text).casefold()
    assert "What study would promise" not in answer.text
    assert reading.stored_rows() == before


def test_a_filled_schema_is_previewed_and_opened_with_the_dataset(reading: PagesServer) -> None:
    wrong = {**SCHEMA, "columns": [*SCHEMA["columns"], {"type": "boolean", "name": "Age2"}]}
    assert "column `Age2`" in words(preview(reading, wrong).text)
    shown = preview(reading, SCHEMA).text
    assert "What study would promise" in shown
    posted = form_of(shown.split('id="draft"', maxsplit=1)[0], "pages/open".partition("/")[2])
    headers = {"origin": reading.url, "sec-fetch-site": "same-origin"}
    headers |= reading.auth_headers("opie")
    answer = reading.http.post("/pages/open", data=posted, headers=headers)
    assert answer.status_code == 303, words(answer.text)
    view = reading.see("opie", "/datasets/study").json()
    assert [column["name"] for column in view["schema"]["columns"]] == ["age", "region"]


def test_who_may_not_open_gets_no_skeleton(reading: PagesServer) -> None:
    query = {**DRAFT, "dataset": "other", "source": "people"}
    answer = reading.http.get("/pages/open", params=query, headers=reading.auth_headers("ana"))
    assert answer.status_code == 403
    assert "age" not in words(answer.text).split()
