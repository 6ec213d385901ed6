"""docs/reference/verifying.md is enough: a verifier that imports nothing of this program."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from accountant.views.datasets import DatasetView
from streams.evidence import verify as verifier
from tests.forks import commands

STARTS = ("streams.cli",)
REFERENCE = Path(__file__).resolve().parents[2] / "docs" / "reference"


def verify(log: bytes, note: str, key: str, ledger: str) -> None:
    """Check a log of one partition against a checkpoint, by the page alone."""
    name, key_id, encoded = key.split("+", 2)
    public = base64.b64decode(encoded)
    assert hashlib.sha256(name.encode() + b"\n" + public).digest()[:4].hex() == key_id
    text, signature = note.split("\n\n")
    dash, signer, value = signature.strip().split(" ")
    signed = base64.b64decode(value)
    assert (dash, signer, signed[:4].hex()) == ("\u2014", name, key_id)
    Ed25519PublicKey.from_public_bytes(public[1:]).verify(signed[4:], f"{text}\n".encode())

    origin, count, root, branch, _ = text.split("\n")
    assert origin == f"accountant/{ledger}/0"
    assert branch == "branch 0"
    previous = "sha256:" + "0" * 64
    lines = log.splitlines()
    assert len(lines) == int(count)
    for number, line in enumerate(lines):
        record = json.loads(line)
        assert (record["partition_sequence"], record["previous"]) == (number, previous)
        previous = f"sha256:{hashlib.sha256(line).hexdigest()}"
    assert json.loads(lines[0])["genesis"]["ledger"] == ledger
    assert bytes.fromhex(previous.removeprefix("sha256:")) == base64.b64decode(root)


def test_a_verifier_written_from_the_page_verifies_a_log(tmp_path: Path) -> None:
    def run(*arguments: str) -> str:
        done = commands.run(*arguments, cwd=tmp_path, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    key = run("key", "create", "key", "--name", "census.example.org").strip()
    basic = ("--filter", "basic", "--epsilon", "1")
    run("dataset", "open", "census", *basic, "--by", "owner")
    run("ask", "census", "pure:0.05", "--analyst", "ana")
    ledger = run("head").splitlines()[0].removeprefix("ledger ")
    log, note = run("log", "export").encode(), run("head", "--key", "key")
    verify(log, note, key, ledger)
    with pytest.raises(AssertionError):
        verify(log.replace(b'"ana"', b'"eve"'), note, key, ledger)
    with pytest.raises(InvalidSignature):
        verify(log, note.replace("branch 0", "branch 1"), key, ledger)


def test_the_pages_name_each_outcome_and_each_field_as_shown() -> None:
    text = "".join(page.read_text() for page in REFERENCE.glob("verifying*.md"))
    assert {name for name in verifier.OUTCOMES if f"`{name}`" not in text} == set()
    log = verifier.Log()
    for line in blocks("json")[0].splitlines():
        log.take(line.encode())
    compared = {"dataset", "partition_sequence", "lifetime", "lifetime_guarantee"}
    compared |= log.datasets["a"].shown().keys()
    rest = re.search(r"^Not compared are (.*?)\.", text, re.MULTILINE)
    assert rest is not None
    named = set(re.findall(r"`(\w+)`", rest[1]))
    assert named | compared == set(DatasetView.__struct_fields__)
    assert {name for name in compared if f"`{name}`" not in text} == set()


def blocks(language: str) -> list[str]:
    """Return the worked examples of both pages."""
    pages = [REFERENCE / name for name in ("verifying.md", "verifying-answers.md")]
    text = "\n".join(page.read_text() for page in pages)
    return re.findall(rf"^```{language}\n(.*?\n)```$", text, re.DOTALL | re.MULTILINE)


def test_the_worked_examples_are_one_ledger_that_both_verifiers_accept(tmp_path: Path) -> None:
    (log, answer), (note, key, head) = blocks("json"), blocks("text")
    verify(log.encode(), note, key.strip(), "0123456789abcdef0123456789abcdef")
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "0.note").write_text(note)
    (tmp_path / "checkpoints" / "0.head").write_text(head)
    (tmp_path / "answers.jsonl").write_text(answer)
    found, chains = verifier.Log(), dict[int, list[str]]()
    for line in log.splitlines():
        found.take(line.encode())
    found.end()
    assert [json.loads(line)["outcome"] for line in log.splitlines()] == [
        *("genesis", "opened", "opened", "limit_set"),
        *("reserved", "begun", "settled", "granted", "granted"),
    ]
    assert verifier.check_answers(tmp_path, found, chains).startswith("1 answer ")
    notes = verifier.check_notes(tmp_path, found, [verifier.key_of(key)], chains)
    assert notes == "agreeing: 1 of kind head, 1 of kind checkpoint"
    assert not +found.needs
