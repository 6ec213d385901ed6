"""One reader of JSON for what people write and peers send: it refuses a key that stands twice."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec
import pytest

from accountant.strict_json import read_json

OPENS = ("accountant/**/*.py", "streams/**/*.py")
ROOT: Final = Path(__file__).parents[2]
DECODERS: Final = {"decode", "Decoder", "loads", "load", "JSONDecoder"}
ELSEWHERE: Final = {
    "records of the log, whose bytes the hash chain and the audit compare": {
        *("accountant/display/admin_refusals.py", "accountant/display/datasets.py"),
        *("accountant/display/refusals.py", "accountant/records/members.py"),
        *("accountant/records/records.py", "accountant/records/request_names.py"),
        *("accountant/records/reservation_rows.py", "accountant/records/state_rows.py"),
        *("accountant/records/dataset_facts.py", "accountant/partition/ids.py"),
        *("accountant/questions/schema.py", "accountant/versions.py"),
        *("accountant/replay/apply.py", "accountant/replay/decider.py"),
        *("accountant/replay/grant_run.py", "accountant/replay/notable_records.py"),
        *("accountant/records/pending_rows.py", "accountant/replay/pending_requests.py"),
        *("accountant/views/pending.py", "streams/cli/reading/grants.py"),
        *("accountant/records/asks.py", "accountant/replay/asks.py"),
        *("accountant/replay/reservations.py", "accountant/replay/sealed_log.py"),
        *("accountant/views/visibility.py", "streams/log/log_filter.py"),
        *("streams/audit/answer_comparison.py", "streams/cli/printing/tables.py"),
        *("streams/cli/reading/log_at.py", "streams/gateway/replay.py"),
        *("streams/pages/dataset/request_rows.py", "streams/curator/sessions.py"),
    },
    "requests, which `read_plain` checks beside": {
        *("accountant/records/inputs.py", "accountant/records/previews.py"),
        "accountant/records/openings.py",
        *("accountant/advice/offline.py", "streams/cli/ask_many.py"),
    },
    "what this process has encoded": {
        *("accountant/records/coerce.py", "streams/client/releases/grants.py"),
        *("streams/client/requests/requests.py", "streams/client/requests/response_matcher.py"),
        *("streams/client/questions/answers.py", "streams/client/sessions/session_record.py"),
        *("streams/gateway/batch_lines.py", "streams/gateway/submit.py"),
        *("streams/gateway/asks.py", "streams/pages/opening/opening_page.py"),
        *("streams/pages/dataset/ask.py", "streams/pages/render.py"),
        "streams/sources/view_names.py",
    },
    "what a server of this program answers its clients": {
        *("accountant/advice/preview.py", "accountant/records/http_bodies.py"),
        *("accountant/views/datasets.py", "accountant/views/limit_views.py"),
        *("accountant/views/overview.py", "accountant/views/reservations.py"),
        *("accountant/views/usage.py", "accountant/views/why/report.py"),
        "accountant/views/period_report.py",
        *("streams/client/http/problems.py", "streams/client/http/question_queue.py"),
        *("streams/client/http/readiness.py", "streams/client/http/service.py"),
    },
    "stored answers, whose bytes a hash chain compares": {
        *("accountant/answers/answer.py", "streams/kafka/service/answers.py"),
    },
    "evidence, by a program that stands alone and refuses a key that stands twice": {
        "streams/evidence/verify.py",
    },
    "files and rows that this program alone writes": {
        *("streams/alerts/relay_start.py", "streams/answers/mark.py"),
        *("streams/client/releases/codec.py", "streams/client/releases/process_identity.py"),
        *("streams/files/lock_holder.py", "streams/sources/unfinished_reading.py"),
        "streams/testing/broker_security.py",
    },
}
"""The modules that decode JSON without the reader, by what they read."""


def decoders(module: Path) -> Iterator[str]:
    """Yield each use of a JSON decoder in a module, under whatever name it is imported."""
    text = module.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(text if "json" in text else "")):
        if isinstance(node, ast.ImportFrom) and node.module in {"json", "msgspec.json"}:
            yield from (each.name for each in node.names if each.name in DECODERS)
        if isinstance(node, ast.Attribute) and node.attr in DECODERS:
            owner = ast.unparse(node.value)
            if owner in {"json", "msgspec.json"}:
                yield f"{owner}.{node.attr}"
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(".json"):
            yield ast.unparse(node)  # of a response


def test_nothing_else_decodes_what_people_write_or_peers_send() -> None:
    modules = [path for part in ("accountant", "streams") for path in (ROOT / part).rglob("*.py")]
    found = {str(path.relative_to(ROOT)) for path in modules if any(decoders(path))}
    listed = [name for names in ELSEWHERE.values() for name in names]
    assert len(listed) == len(set(listed))
    assert found - {"accountant/strict_json.py"} == set(listed)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b'{"a":1,"a":1}', "key 'a' stands twice in one object"),
        (b'[{"b":{"\\u0061":1,"a":2}}]', "key 'a' stands twice in one object"),
        (b'{"a":NaN}', "JSON is malformed"),
        (b'{"a":1} {}', "Extra data, line 1"),
        (b"\xef\xbb\xbf{}", "JSON is malformed"),
        (b'"\xff"', "UTF-8"),
        ('"\\ud800"', "truncated"),
        (b"[" * 100_000, "nests too deep"),
        (b'{"a":"x"}', "Expected `int`"),
    ],
)
def test_what_is_no_json_is_refused_in_words(content: bytes | str, words: str) -> None:
    kind = dict[str, int] if words.startswith("Expected") else object
    with pytest.raises(msgspec.DecodeError, match=words):
        read_json(content, kind)


def test_values_are_those_of_the_decoder() -> None:
    text = '{"a":1,"b":[1.5,{"a":"\\u00e9","c":null}],"d":{"a":true}}'
    assert read_json(text) == read_json(text.encode()) == msgspec.json.decode(text)
    assert read_json(b'{"a":12345678901234567890}', dict[str, int]) == {"a": 12345678901234567890}
