"""A ledger with everything that evidence has, and a folder of evidence that somebody forges."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import io
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from unittest import mock

from streams.evidence import verify
from streams.evidence.keys import SigningKey
from streams.settings import Settings
from tests.faults.ledger import new_id, opening, until
from tests.streams.cli.conftest import Command
from tests.streams.cli.here import run_here
from tests.streams.curator.curated import CuratedLedger, member, opened, question, session

Rows = list[dict[str, Any]]
_HASH: Final = re.compile(r"sha256:[0-9a-f]{64}")
LEVELS: Final = {"type": "brownian", "variance": "400", "sensitivity": "1", "first": "10000"}
FILES: Final = ("ledger.db", "ledger.db.answers")
CLAIMS: Final = (
    {"type": "gaussian", "sigma": "20", "sensitivity": "1"},
    {"type": "laplace", "scale": "97", "sensitivity": "3"},
    {"type": "pure", "epsilon": "0.01"},
    {"type": "repeat", "times": 3, "claim": {"type": "zcdp", "rho": "0.0001"}},
)


def record(kind: str, dataset: str, **more: Any) -> bytes:
    """Return a record, of an owner where it says `by`."""
    body = {"version": 1, "type": kind, "request_id": new_id(), "dataset": dataset}
    return json.dumps(body | more).encode()


def request_on(dataset: str, claim: object, **more: Any) -> bytes:
    """Return a request of ana."""
    of_policy = {"unit": "person", "neighbours": "add_remove"}
    return record("request", dataset, analyst="ana", claim=claim, **of_policy, **more)


async def _use(ledger: CuratedLedger) -> None:
    async def by_owner(kind: str, dataset: str, **more: Any) -> dict[str, Any]:
        return await ledger.send(record(kind, dataset, by="owner", **more), "admin")

    async def step(kind: str, grant: str, **more: Any) -> None:
        done = await ledger.send(record(kind, "rho", analyst="ana", grant=grant, **more))
        assert done["outcome"] in {"begun", "settled", "voided"}, done

    await ledger.send(opened("census"), "admin")
    await ledger.send(member("curator", "curator"), "admin")
    await ledger.send(opening("tight", epsilon="1", delta="1e-6"), "admin")
    await ledger.send(opening("rho", filter="zcdp", rho="0.5", unit="person"), "admin")
    red = json.loads(member("ana", "analyst", dataset="tight")) | {"team": "red"}
    await ledger.send(json.dumps(red).encode(), "admin")
    pace = {"part": "0.4", "period": "P1D"}
    await by_owner("limit", "tight", scope="team", name="red", part="0.9", pace=pace)
    own = {"filter": "zcdp", "rho": "0.02"}
    await by_owner("limit", "tight", scope="analyst", name="ana", policy=own)
    for claim in CLAIMS:
        await ledger.ask(request_on("tight", claim))
    voided = await ledger.ask(request_on("rho", LEVELS, reserve={"until": "PT1H"}))
    settled = await ledger.ask(request_on("rho", LEVELS, reserve={"until": "PT1H"}))
    await step("void", voided)
    await step("begin", settled)
    await step("settle", settled, shown="2500")
    await ledger.ask(request_on("tight", CLAIMS[0], other_datasets=["rho"]))
    refused = await ledger.send(request_on("tight", {"type": "pure", "epsilon": "0.9"}))
    assert refused["reason"] == "exhausted", refused
    await ledger.store.open_log(0, await ledger.id(), 0)
    async with ledger.curated():
        await ledger.answer(await ledger.ask(question()))


async def _use_later(ledger: CuratedLedger) -> None:
    async with ledger.curated():
        grant = await ledger.ask(session())
        await ledger.answer(grant)
        find = ledger.service.open_reservation
        await until(lambda: find("census", grant) is None, "the session is settled")


def make_ledger(directory: Path) -> None:
    """Make `ledger.db` with its answers, and its checkpoints in `checkpoints`.

    `earlier-ledger.db` and its answers have no session yet.
    """

    async def run() -> None:
        ledger = CuratedLedger(
            directory, settings=Settings(checkpoints=str(directory / "checkpoints"))
        )
        async with ledger.open():
            await _use(ledger)
        for name in FILES:
            shutil.copy(directory / name, directory / f"earlier-{name}")
        async with ledger.open():
            await _use_later(ledger)

    asyncio.run(run())


def make_evidence(directory: Path, *arguments: str, code: int = 0, folder: str = "given") -> Path:
    """Run `accountant evidence` of the ledger in a directory, and return the folder."""
    line = ("evidence", folder, "--url", "sqlite:///ledger.db", *arguments)
    done = run_here(directory, *line, accountant_checkpoints=str(directory / "checkpoints"))
    assert done.code == code, done.out + done.err
    return directory / folder


def verdict(accountant: Command, *keys: str, code: int = 0) -> tuple[int, str]:
    """Write the evidence of a ledger with checkpoints in `kept`, and verify it with keys.

    Args:
        code: of the command, 1 where its audit finds something.
    Returns: the verifier's exit code, and what it says of the checkpoints.
    """
    folder = f"given-{len(list(accountant.directory.glob('given-*')))}"
    named = [word for key in keys for word in ("--key", key)]
    done = accountant("evidence", folder, "--checkpoints", "kept", *named)
    assert done.code == code, done.out + done.err
    path = accountant.directory / folder
    found = verified(path, "--ledger", manifest_of(path)["ledger"], *named)
    (said,) = (each["found"] for each in found[1]["checks"] if each["check"] == "checkpoints")
    return found[0], said


def verified(folder: Path, *arguments: str) -> tuple[int, dict[str, Any]]:
    """Run the verifier on a folder; return its exit code, and what it says of each check."""
    out = io.StringIO()
    argv = ["verify.py", str(folder), "--json", *arguments]
    with mock.patch("sys.argv", argv), contextlib.redirect_stdout(out):
        code = verify.main()
    return code, json.loads(out.getvalue())


def wrong(found: dict[str, Any]) -> list[str]:
    """Return the checks that do not hold."""
    return [each["check"] for each in found["checks"] if not each["ok"]]


def from_outside(folder: Path) -> tuple[str, ...]:
    """Return the options with the key and the id of an evidence that nobody has forged."""
    key = (folder / "keys.txt").read_text().split()[0]
    return "--key", key, "--ledger", manifest_of(folder)["ledger"]


def manifest_of(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "manifest.json").read_text())
    return found


class Forger:
    """Whoever has a copy of the evidence and may write every byte of it.

    Attributes:
        log, answers: the rows, to be changed before `write`.
        key: the forger's own.
    """

    def __init__(self, original: Path, folder: Path) -> None:
        shutil.copytree(original, folder)
        self.folder = folder
        self.log = _rows(folder / "log.jsonl")
        self.answers = _rows(folder / "answers.jsonl")
        self.key = SigningKey("accountant", bytes(range(32)))

    def index(self, outcome: str, dataset: str, skip: int = 0) -> int:
        """Return the place of a decision in the log."""
        found = [i for i, each in enumerate(self.log) if _is(each, outcome, dataset)]
        return found[skip]

    def last_hash(self) -> str:
        """Return the hash of the last record in the file."""
        return _digest((self.folder / "log.jsonl").read_text().splitlines()[-1])

    def at(self, outcome: str, dataset: str, skip: int = 0) -> dict[str, Any]:
        """Return a decision."""
        return self.log[self.index(outcome, dataset, skip)]

    def later(self, name: str, dataset: str, start: int, change: Callable[[str], str]) -> None:
        """Change a total in a decision and in all later ones of its dataset."""
        for row in self.log[start:]:
            for part in row.get("parts") or [row]:
                if part.get("dataset") == dataset and "totals" in part:
                    part["totals"][name] = change(part["totals"][name])

    def write(self, *, chain: bool = True, sign: bool = True, sums: bool = True) -> None:
        """Write the changed rows, with as much as is asked for made to fit them."""
        renamed: dict[str, str] = {}

        def renew(text: str) -> str:
            return _HASH.sub(lambda found: renamed.get(found[0], found[0]), text)

        lines, previous = list[str](), "sha256:" + "0" * 64
        before = (self.folder / "log.jsonl").read_text().splitlines()
        known = {each["partition_sequence"]: line for line in before if (each := json.loads(line))}
        for number, row in enumerate(self.log):
            old = known.get(row.get("partition_sequence", -1), "")
            line = old if old and json.loads(old) == row else _text(row)
            if chain:
                due = {"partition_sequence": number, "previous": previous}
                line = renew(line)
                line = line if due.items() <= json.loads(line).items() else renew(_text(row | due))
            lines.append(line)
            previous = _digest(line)
            renamed[_digest(old)] = previous
        if lines != before:
            (self.folder / "log.jsonl").write_text("".join(line + "\n" for line in lines))
        if chain:
            self._chain_answers(renew, json.loads(lines[0])["genesis"]["ledger"])
            path = self.folder / "receipts.jsonl"
            if path.exists():
                path.write_text(renew(path.read_text()))
        if sign:
            self._sign([_digest(line) for line in lines])
        if sums:
            self.sum()

    def _chain_answers(self, renew: Callable[[str], str], ledger: str) -> None:
        head = _digest(_text(["answers", ledger, 0]))
        lines = []
        for place, row in enumerate(self.answers, 1):
            row |= {"value": renew(row["value"]), "grant": renew(row["grant"]), "entry": place}
            own = [row["grant"], row["dataset"], row["analyst"], row["request_id"]]
            content = [head, row["random"], place, row["batch"], 0, row["number"], *own]
            value = hashlib.sha256(row["value"].encode()).hexdigest()
            head = row["hash"] = _digest(_text([*content, value]))
            lines.append(_text(row))
        (self.folder / "answers.jsonl").write_text("".join(line + "\n" for line in lines))

    def _sign(self, hashes: list[str]) -> None:
        chain = [each["hash"] for each in self.answers]
        for file in (self.folder / "checkpoints").iterdir():
            lines = file.read_text().split("\n\n")[0].split("\n")
            of, count = (
                (chain, int(lines[1])) if file.suffix == ".head" else (hashes, int(lines[1]))
            )
            if count > len(of):
                file.unlink()
            elif count:
                lines[2] = base64.b64encode(bytes.fromhex(of[count - 1][7:])).decode()
                self.note(file, "\n".join(lines) + "\n")
            else:
                self.note(file, "\n".join(lines) + "\n")
        (self.folder / "keys.txt").write_text(self.key.verifier.text + "\n")

    def note(self, file: Path, text: str, change: Callable[[bytes], bytes] = bytes) -> None:
        """Write a note that the forger's key has signed.

        Args:
            change: of the signature.
        """
        signature = change(self.key.sign(text.encode()))
        value = base64.b64encode(self.key.verifier.id + signature).decode()
        file.write_text(f"{text}\n— {self.key.verifier.name} {value}\n")

    def sum(self) -> None:
        """Write manifest and sums again."""
        manifest = manifest_of(self.folder)
        names = {str(each.relative_to(self.folder)) for each in self.folder.rglob("*.*")}
        sums = {name: _sha256(self.folder / name) for name in names - {"manifest.json"}}
        lines = (self.folder / "log.jsonl").read_bytes().splitlines()
        manifest["ledger"] = json.loads(lines[0]).get("genesis", {}).get("ledger", "")
        manifest["partitions"] = [
            {
                "partition": 0,
                "records": len(lines),
                "head": f"sha256:{hashlib.sha256(lines[-1]).hexdigest()}",
            }
        ]
        manifest["files"] = [{"name": name, "sha256": digest} for name, digest in sums.items()]
        (self.folder / "manifest.json").write_text(json.dumps(manifest))
        sums["manifest.json"] = _sha256(self.folder / "manifest.json")
        text = "".join(f"{digest}  {name}\n" for name, digest in sums.items())
        (self.folder / "SHA256SUMS").write_text(text)


def _rows(path: Path) -> Rows:
    return [json.loads(line) for line in path.read_text().splitlines()]


def _text(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _digest(line: str) -> str:
    return f"sha256:{hashlib.sha256(line.encode()).hexdigest()}"


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _is(row: dict[str, Any], outcome: str, dataset: str) -> bool:
    names = [row.get("dataset"), *(each["dataset"] for each in row.get("parts", ()))]
    return row["outcome"] == outcome and dataset in names
