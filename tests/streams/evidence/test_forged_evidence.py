"""Forged evidence: verify.py finds each of these, or verifying.md says that it cannot.

Each line is a forgery: what is changed, how much the forger makes fit again, and which checks fail.
`everything` makes the chain, the answers' chain, the signatures (by the forger's own key, which the
reader is made to believe), the manifest and the sums fit: only what the records say is left.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from decimal import Context, Decimal, localcontext
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from streams.evidence import verify
from tests.streams.evidence.dataset_rows import rows_of, write_rows
from tests.streams.evidence.handed_over import (
    Forger,
    from_outside,
    make_evidence,
    make_ledger,
    verified,
    wrong,
)

Edit = Callable[[Forger], None]
L: Final = 2**252 + 27742317777372353535851937790883648493


class Forged(NamedTuple):
    """A forgery.

    Attributes:
        makes: what the forger makes fit: nothing, sums, chain or everything.
        fails: the check that fails; "" for none: the page says so.
        says: a part of what the check says.
    """

    name: str
    makes: str
    edit: Edit
    fails: str
    says: str = ""


@pytest.fixture(scope="module")
def evidence(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("handed-over")
    make_ledger(directory)
    first = make_evidence(directory, folder="first")
    lines = (first / "log.jsonl").read_bytes().splitlines()
    place = {"partition": 0, "partition_sequence": len(lines) - 1, "hash": verify.sha256(lines[-1])}
    (directory / "receipts.jsonl").write_text(json.dumps(place) + "\n")
    return make_evidence(directory, "--receipt", str(directory / "receipts.jsonl"))


def test_what_nobody_has_forged_is_right(evidence: Path) -> None:
    code, found = verified(evidence, *from_outside(evidence))
    assert (code, wrong(found)) == (0, [])
    code, found = verified(evidence)
    assert (code, wrong(found)) == (3, [])
    assert [each for each in found["notes"] if "PROVED" in each] == [
        "NOT PROVED: no --key from outside",
        "NOT PROVED: no --ledger from outside",
    ]


def test_without_a_checkpoint_nothing_is_proved(evidence: Path, tmp_path: Path) -> None:
    forger = Forger(evidence, tmp_path / "forged")
    for file in (tmp_path / "forged" / "checkpoints").iterdir():
        file.unlink()
    forger.sum()
    code, found = verified(tmp_path / "forged", *from_outside(evidence))
    assert (code, wrong(found)) == (3, [])
    count = len(forger.log)
    assert f"NOT PROVED: partition 0: {count} records are not signed" in found["notes"]


@pytest.mark.parametrize("case", ["no head", "an earlier head", "no chain", "neither"])
def test_an_answer_that_no_head_covers_is_not_proved(
    evidence: Path, tmp_path: Path, case: str
) -> None:
    forger = Forger(evidence, tmp_path / "forged")
    if case != "no chain":
        without_heads(after=case == "an earlier head")(forger)
    if case in {"no chain", "neither"}:
        without_chain(forger)
    code, found = verified(tmp_path / "forged", *from_outside(evidence))
    assert (code, wrong(found)) == (3, [])
    rest = 1 if case == "an earlier head" else 2
    said = f"NOT PROVED: partition 0: the last {rest} answers are not signed"
    assert [each for each in found["notes"] if "PROVED" in each] == [said]


def test_beside_a_false_checkpoint_the_others_cover_what_they_cover(
    evidence: Path, tmp_path: Path
) -> None:
    forger = Forger(evidence, tmp_path / "forged")
    forger.write()
    notes = [each.read_text().split("\n") for each in forger.folder.glob("checkpoints/*.note")]
    most = max(notes, key=lambda lines: int(lines[1]))
    text = "\n".join([most[0], "99", *most[2:5], ""])
    forger.note(forger.folder / "checkpoints" / "0-0.note", text)  # the first by its name
    forger.sum()
    key = (forger.folder / "keys.txt").read_text().strip()
    code, found = verified(forger.folder, "--key", key, *from_outside(evidence)[2:])
    assert (code, wrong(found)) == (1, ["checkpoints"])
    assert not [each for each in found["notes"] if "are not signed" in each]


# ---- edits ----


def in_file(name: str, old: str, new: str) -> Edit:
    """Replace a text in a file, whose first occurrence must be there."""

    def edit(forger: Forger) -> None:
        path = forger.folder / name
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new, 1))

    return edit


def edit_dataset(old: str, new: str) -> Edit:
    """Change what the folder shows of a dataset beside the log."""

    def edit(forger: Forger) -> None:
        in_file("datasets.jsonl", old, new)(forger)
        forger.sum()

    return edit


def hidden_dataset(forger: Forger) -> None:
    """Leave out what the folder shows of one dataset."""
    file = forger.folder / "datasets.jsonl"
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(line for line in lines if '"dataset":"tight"' not in line))
    forger.sum()


def set_in(outcome: str, dataset: str, *places: Any, to: Any, skip: int = 0) -> Edit:
    """Set a field of a decision."""

    def edit(forger: Forger) -> None:
        row = forger.at(outcome, dataset, skip)
        for place in places[:-1]:
            row = row[place]
        assert row[places[-1]] != to
        row[places[-1]] = to

    return edit


def less_spent(dataset: str, name: str, place: int) -> Edit:
    """Charge a claim a tenth less, and lower all later totals by as much, and what is left."""

    def edit(forger: Forger) -> None:
        at = forger.index("granted", dataset, place)
        row = forger.log[at]
        less = Decimal(row["cost"][name]) / 10
        row["cost"][name] = f"{Decimal(row['cost'][name]) - less:f}"
        forger.later(name, dataset, at, lambda text: f"{Decimal(text) - less:f}")
        for each in forger.log[at:]:
            for part in each.get("parts") or [each]:
                if part.get("dataset") == dataset and name in part.get("left", ()):
                    part["left"][name] = f"{Decimal(part['left'][name]) + less:f}"
                for level in part.get("levels", ()):
                    for field in ("totals", "paced"):
                        if part.get("dataset") == dataset and name in level.get(field, ()):
                            level[field][name] = f"{Decimal(level[field][name]) - less:f}"

    return edit


def answer(skip: int, *places: Any, to: Any) -> Edit:
    """Set a field of a stored answer."""

    def edit(forger: Forger) -> None:
        value = json.loads(forger.answers[skip]["value"])
        inner = value
        for place in places[:-1]:
            inner = inner[place]
        inner[places[-1]] = to
        forger.answers[skip]["value"] = json.dumps(value, separators=(",", ":"))

    return edit


def moved(change: Callable[[list[dict[str, Any]]], None]) -> Edit:
    """Change the list of records."""
    return lambda forger: change(forger.log)


def again(outcome: str, dataset: str, **more: Any) -> Edit:
    """Repeat a decision behind itself, with the next number of its dataset."""

    def edit(forger: Forger) -> None:
        at = forger.index(outcome, dataset)
        row = json.loads(json.dumps(forger.log[at])) | more
        row["partition_sequence"] = -1
        forger.log.insert(at + 1, row)
        for each in forger.log[at + 1 :]:
            for part in each.get("parts") or [each]:
                if part.get("dataset") == dataset:
                    part["sequence"] += 1

    return edit


def note(change: Callable[[str], str], signature: Callable[[bytes], bytes] = bytes) -> Edit:
    """Change the newest checkpoint's text, or its signature, by the forger's key."""

    def edit(forger: Forger) -> None:
        forger.write()
        files = [(len(each.read_text()), each) for each in forger.folder.glob("checkpoints/*.note")]
        file = max(files)[1]
        forger.note(file, change(file.read_text().split("\n\n")[0] + "\n"), signature)

    return edit


def malleable(signature: bytes) -> bytes:
    """Return the other S of a signature: S + L, which a verifier must refuse."""
    s = int.from_bytes(signature[32:], "little") + L
    return signature[:32] + s.to_bytes(32, "little")


def another_line(line: int, new: str) -> Callable[[str], str]:
    def change(text: str) -> str:
        lines = text.split("\n")
        lines[line] = new
        return "\n".join(lines)

    return change


def small_order(forger: Forger) -> None:
    """Sign by the point (0, 1): with S = 0 it has signed every text."""
    public = (1).to_bytes(32, "little")
    name = b"accountant\n" + b"\x01" + public
    ident = verify.hashlib.sha256(name).digest()[:4]
    text = f"accountant+{ident.hex()}+{base64.b64encode(bytes([1]) + public).decode()}"
    signature = base64.b64encode(ident + public + bytes(32)).decode()
    for file in forger.folder.glob("checkpoints/*"):
        signed = file.read_text().split("\n\n")[0]
        file.write_text(f"{signed}\n\n— accountant {signature}\n")
    (forger.folder / "keys.txt").write_text(text + "\n")


def cut(rows: list[dict[str, Any]]) -> None:
    del rows[-3:]


def swap(rows: list[dict[str, Any]]) -> None:
    rows[8], rows[9] = rows[9], rows[8]


def another_id(forger: Forger) -> None:
    forger.log[0]["genesis"]["ledger"] = "0" * 32
    for file in forger.folder.glob("checkpoints/*"):
        file.unlink()


def one_more_partition(forger: Forger) -> None:
    forger.log[0]["genesis"]["partitions"] = 2


def without_a_level(forger: Forger) -> None:
    for row in forger.log:
        if row["outcome"] == "granted" and row.get("dataset") == "tight":
            del row["levels"][0]


def period_again(forger: Forger) -> None:
    """Let the second grant begin the period again, within the same period."""
    start = forger.index("granted", "tight", 1)
    before = forger.log[start - 1]["levels"][0]["paced"]["rho"]
    for row in forger.log[start:]:
        for part in row.get("parts") or [row]:
            for level in part.get("levels", ())[:1]:
                level["paced"]["rho"] = f"{Decimal(level['paced']['rho']) - Decimal(before):f}"


def void_more(forger: Forger) -> None:
    """Return 2e-40 more, and lower all later totals by as much."""
    at, more = forger.index("voided", "rho"), Decimal("2e-40")
    with localcontext(Context(prec=60)):
        back = forger.log[at]["reservation"]["returned"]
        back["rho"] = f"{Decimal(back['rho']) + more:f}"
        forger.later("rho", "rho", at, lambda text: f"{Decimal(text) - more:f}")
        for row in forger.log[at:]:
            for part in row.get("parts") or [row]:
                if part.get("dataset") == "rho" and "left" in part:
                    part["left"]["rho"] = f"{Decimal(part['left']['rho']) + more:f}"


def without_use(forger: Forger) -> None:
    for row in forger.log:
        for part in row.get("parts") or [row]:
            for level in part.get("levels", ()):
                level.pop("totals", None)


def removed_limit(forger: Forger) -> None:
    at = forger.index("limit_set", "tight")
    del forger.log[at]["limit"]["part"], forger.log[at]["limit"]["budget"]


def paused_before(forger: Forger, **more: Any) -> None:
    at = forger.index("granted", "rho")
    template = forger.log[forger.index("settled", "rho")]
    names = ("reservation", "held", "levels")
    row = {n: v for n, v in template.items() if n not in names} | {"outcome": "paused"} | more
    forger.log.insert(at, json.loads(json.dumps(row | {"partition_sequence": -1})))
    forger.log[at]["sequence"] = template["sequence"] + 1
    for part in forger.log[at + 1]["parts"]:
        part["sequence"] += part["dataset"] == "rho"


def person_paused_before(forger: Forger) -> None:
    template = forger.log[forger.index("settled", "rho")]
    asker = forger.at("granted", "rho")["request"]["analyst"]
    said = {"member": asker, "by": "olga", "reason": "a loop"}
    request = {"type": "pause_member", "dataset": "rho", **said}
    pause = {**said, "since": template["decided_at"]}
    paused_before(forger, outcome="member_paused", request=request, pause=pause)


def dropped_part(forger: Forger) -> None:
    row = forger.at("granted", "rho")
    row["parts"] = [each for each in row["parts"] if each["dataset"] == "tight"]


def extra_file(forger: Forger) -> None:
    (forger.folder / "base64.py").write_text("raise SystemExit(0)\n")


def other_value(forger: Forger) -> None:
    value = json.loads(forger.answers[0]["value"])
    value["values"] = [str(int(value["values"][0]) + 1)]
    forger.answers[0]["value"] = json.dumps(value, separators=(",", ":"))


def rolled_back(forger: Forger) -> None:
    """Change an answer after a rollback, and add a head that nobody has signed."""
    last, count = forger.log[-1], len(forger.log)
    ledger, after = forger.log[0]["genesis"]["ledger"], forger.last_hash()
    lost = {"branch": 1, "first": count, "last": count + 9, "head": f"sha256:{'a' * 64}"}
    lost["key"] = forger.key.verifier.text
    lines = [f"accountant/{ledger}/0", "rollback", "branch 1", f"lost {count}-{count + 9}"]
    lines += [f"head {lost['head']}", f"after {after}", f"key {lost['key']}", ""]
    lost["signature"] = base64.b64encode(forger.key.sign("\n".join(lines).encode())).decode()
    own = {"outcome": "rolled_back", "note": {"by": "root", "reason": "lost"}, "rollback": lost}
    place = {"partition_sequence": count, "previous": after}
    names = ("type", "version", "rules", "decided_at", "floor")
    forger.log.append({name: last[name] for name in names} | place | own)
    forger.write()
    for file in forger.folder.glob("checkpoints/*.head"):
        text = file.read_text().split("\n\n")[0] + "\n"
        forger.note(file, another_line(3, "branch 1")(text))
    other_value(forger)
    forger.write(sign=False)
    unsigned(forger, count + 5, 0)


def unsigned(forger: Forger, count: int = 1, branch: int = 0) -> None:
    """Add a head of answers that began again, which nobody has signed."""
    ledger, text = forger.log[0]["genesis"]["ledger"], base64.b64encode(bytes(32)).decode()
    lines = [f"accountant/{ledger}/0/answers", str(count), text, f"branch {branch}", "begun 99"]
    lines += ["time 2026-11-30T00:00:00.000Z", ""]
    forger.note(forger.folder / "checkpoints/0-0.head", "\n".join(lines), lambda _: bytes(64))


def unsigned_head(forger: Forger) -> None:
    other_value(forger)
    forger.write(sign=False)
    unsigned(forger)


def without_heads(*, after: int) -> Edit:
    """Change the last answer, and leave out each head of more answers than these."""

    def edit(forger: Forger) -> None:
        value = json.loads(forger.answers[-1]["value"])
        value["values"] = ["12345"]
        forger.answers[-1]["value"] = json.dumps(value, separators=(",", ":"))
        forger.write(sign=False)
        for file in forger.folder.glob("checkpoints/*.head"):
            if int(file.read_text().split("\n")[1]) > after:
                file.unlink()
        forger.sum()

    return edit


def without_answers(forger: Forger) -> None:
    for file in [forger.folder / "answers.jsonl", *forger.folder.glob("checkpoints/*.head")]:
        file.unlink()
    forger.sum()


CHAIN: Final = ("random", "entry", "batch", "hash")


def without_chain(forger: Forger, start: int = 0) -> None:
    """Leave out what chains the answers, from one on, as if they were Kafka's."""
    for row in forger.answers[start:]:
        for name in CHAIN:
            del row[name]
    lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in forger.answers]
    (forger.folder / "answers.jsonl").write_text("".join(lines))
    forger.sum()


def rewound(forger: Forger) -> None:
    """An older copy of everything, with the notes of that time."""
    notes = forger.folder.glob("checkpoints/*.note")
    counts = {int(each.read_text().split("\n")[1]): each for each in notes}
    least = min(counts)
    for file in forger.folder.glob("checkpoints/*"):
        if file != counts[least]:
            file.unlink()
    lines = (forger.folder / "log.jsonl").read_bytes().splitlines(keepends=True)[:least]
    (forger.folder / "log.jsonl").write_bytes(b"".join(lines))
    hashes = set(re.findall(rb"sha256:[0-9a-f]{64}", b"".join(lines)))
    grants = {verify.sha256(line[:-1]) for line in lines} | {each.decode() for each in hashes}
    answers = (forger.folder / "answers.jsonl").read_text().splitlines(keepends=True)
    kept = [each for each in answers if json.loads(each)["grant"] in grants]
    (forger.folder / "answers.jsonl").write_text("".join(kept[:0]))
    (forger.folder / "receipts.jsonl").write_text("")
    write_rows(forger.folder, rows_of([line.rstrip(b"\n") for line in lines]))
    forger.sum()


RHO = ("granted", "tight")
FORGERIES: Final = [
    # bytes
    Forged("a byte of the log", "nothing", in_file("log.jsonl", '"ana"', '"eve"'), "files"),
    Forged(
        "a byte of an answer", "nothing", in_file("answers.jsonl", "answered", "Answered"), "files"
    ),
    Forged("a byte of the audit", "nothing", in_file("audit.txt", "ok", "OK"), "files"),
    Forged("a byte of the guarantee", "nothing", in_file("datasets.txt", "ε", "E"), "files"),
    Forged("a byte of the verifier", "nothing", in_file("verify.py", "raise", "print"), "files"),
    Forged("the manifest", "nothing", in_file("manifest.json", '"version"', '"vers"'), "files"),
    Forged(
        "the manifest's head",
        "nothing",
        in_file("manifest.json", '"head": "sha256:', '"head": "sha256:0'),
        "files",
    ),
    Forged("one more file", "nothing", extra_file, "files"),
    Forged("one file less", "nothing", lambda f: (f.folder / "audit.json").unlink(), "files"),
    Forged(
        "an empty list of sums",
        "nothing",
        lambda f: (f.folder / "SHA256SUMS").write_text(""),
        "files",
    ),
    # sums made again
    Forged(
        "a name, sums made again", "sums", in_file("log.jsonl", '"ana"', '"eve"'), "log", "previous"
    ),
    Forged(
        "a grant's number",
        "sums",
        set_in(*RHO, "partition_sequence", to=99),
        "log",
        "partition_sequence",
    ),
    Forged(
        "a hash in the chain",
        "sums",
        set_in(*RHO, "previous", to=f"sha256:{'1' * 64}"),
        "log",
        "previous",
    ),
    Forged("records in another order", "sums", moved(swap), "log", "partition_sequence"),
    Forged("a record less", "sums", moved(lambda rows: rows.pop(9)), "log", "partition_sequence"),
    Forged("the end cut off", "sums", moved(cut), "datasets", "sequence of census"),
    Forged("the genesis cut off", "sums", moved(lambda rows: rows.pop(0)), "log"),
    Forged(
        "a second genesis", "sums", moved(lambda rows: rows.insert(1, rows[0])), "log", "genesis"
    ),
    Forged(
        "a name twice in a record",
        "sums",
        in_file("log.jsonl", '"rules":1', '"rules":1,"rules":1'),
        "log",
        "names in an object",
    ),
    Forged("an answer's hash", "sums", lambda f: f.answers[0].update(hash="x"), "", ""),
    Forged(
        "a receipt",
        "sums",
        in_file("receipts.jsonl", '"partition_sequence":', '"partition_sequence":1'),
        "receipts",
    ),
    # the chain made again: the true key has not signed it
    Forged(
        "a name, chain made again",
        "chain",
        set_in(*RHO, "request", "analyst", to="eve"),
        "log",
        "limits",
    ),
    Forged(
        "an id, chain made again",
        "chain",
        set_in("refused", "tight", "request", "request_id", to="0"),
        "checkpoints",
    ),
    Forged("the end cut off, chain made again", "chain", moved(cut), "datasets"),
    Forged(
        "another ledger's id",
        "chain",
        lambda f: f.log[0]["genesis"].update(ledger="0" * 32),
        "checkpoints",
    ),
    Forged("a value of an answer", "chain", other_value, "checkpoints", "answer"),
    # everything made again: what the records say
    Forged("another id, no checkpoint", "everything", another_id, "ledger"),
    Forged("a partition that is not there", "everything", one_more_partition, "log", "partitions"),
    Forged(
        "a larger budget",
        "everything",
        set_in("opened", "tight", "budget", "rho", to="1"),
        "log",
        "budget",
    ),
    Forged(
        "a larger budget of zcdp",
        "everything",
        set_in("opened", "rho", "budget", "rho", to="1"),
        "log",
        "budget",
    ),
    Forged(
        "a larger budget of basic",
        "everything",
        set_in("opened", "census", "budget", "epsilon", to="9"),
        "log",
        "budget",
    ),
    Forged(
        "a smaller promise",
        "everything",
        set_in("opened", "tight", "policy", "epsilon", to="0.5"),
        "log",
        "budget",
    ),
    Forged(
        "a larger budget of deltas",
        "everything",
        set_in("opened", "tight", "budget", "delta", to="1e-6"),
        "log",
    ),
    Forged("a cost", "everything", set_in(*RHO, "cost", "rho", to="0.001"), "log", "growth"),
    Forged("a total", "everything", set_in(*RHO, "totals", "rho", to="0.001"), "log"),
    Forged("what is left", "everything", set_in(*RHO, "left", "rho", to="0.5"), "log", "left"),
    Forged(
        "a count of mechanisms",
        "everything",
        set_in(*RHO, "totals", "mechanisms", to=2),
        "log",
        "mechanisms",
    ),
    Forged(
        "a part of a unit",
        "everything",
        lambda f: f.at(*RHO).update(rounded_up={"rho": "1/3"}),
        "log",
    ),
    Forged("a Gaussian charged less", "everything", less_spent("tight", "rho", 0), "log", "costs"),
    Forged("a Laplace charged less", "everything", less_spent("tight", "rho", 1), "log", "costs"),
    Forged(
        "a pure claim charged less", "everything", less_spent("tight", "rho", 2), "log", "costs"
    ),
    Forged("a batch charged less", "everything", less_spent("tight", "rho", 3), "log", "costs"),
    Forged(
        "a pure epsilon charged less",
        "everything",
        less_spent("census", "epsilon", 0),
        "log",
        "costs",
    ),
    Forged("an odometer's sum", "everything", less_spent("tight", "loss_time", 0), "log", "costs"),
    Forged(
        "a claim of less noise",
        "everything",
        set_in(*RHO, "request", "claim", "sigma", to="10"),
        "log",
        "costs",
    ),
    Forged(
        "a number of a dataset", "everything", set_in(*RHO, "sequence", to=99), "log", "sequence"
    ),
    Forged("a grant decided twice", "everything", again(*RHO), "log"),
    Forged("an opening decided twice", "everything", again("opened", "rho"), "log", "opening"),
    Forged(
        "a refusal that charges",
        "everything",
        set_in("refused", "tight", "totals", "rho", to="0.1"),
        "log",
        "totals",
    ),
    Forged("a grant during a pause", "everything", paused_before, "log", "stop"),
    Forged(
        "a grant of a paused person", "everything", person_paused_before, "log", "paused person"
    ),
    Forged("a dataset left out of a grant", "everything", dropped_part, "log", "datasets"),
    Forged(
        "time that goes back",
        "everything",
        set_in(*RHO, "decided_at", to="2020-01-01T00:00:00.000Z"),
        "log",
        "decided_at",
    ),
    Forged("other rules", "everything", set_in(*RHO, "rules", to=2), "log", "rules"),
    Forged(
        "an outcome of no kind",
        "everything",
        set_in("refused", "tight", "outcome", to="waived"),
        "log",
        "outcome",
    ),
    Forged(
        "a claim for another unit",
        "everything",
        set_in(*RHO, "request", "unit", to="visit"),
        "log",
        "unit",
    ),
    Forged(
        "a policy that nobody asked for",
        "everything",
        set_in("opened", "rho", "policy", "unit", to="visit"),
        "log",
        "policy",
    ),
    Forged(
        "a record of another partition",
        "everything",
        set_in(*RHO, "source", "partition", to=1),
        "log",
        "source.partition",
    ),
    Forged(
        "a generation",
        "everything",
        set_in(*RHO, "generation", to=2),
        "log",
        "sequence",
    ),
    Forged(
        "a cost in a sum that is not there",
        "everything",
        lambda f: f.at(*RHO)["cost"].update(epsilon="0"),
        "log",
        "names",
    ),
    Forged(
        "totals of a dataset as shown",
        "sums alone",
        edit_dataset('"mechanisms":2', '"mechanisms":1'),
        "datasets",
        "census",
    ),
    Forged(
        "a policy as shown",
        "sums alone",
        edit_dataset(
            '"filter":"zcdp","epsilon":null,"rho":"0.5"',
            '"filter":"zcdp","epsilon":null,"rho":"0.1"',
        ),
        "datasets",
        "rho",
    ),
    Forged(
        "an earlier number of a dataset as shown",
        "sums alone",
        edit_dataset('"sequence":6', '"sequence":7'),
        "datasets",
        "sequence of census",
    ),
    Forged(
        "a void guarantee as shown",
        "sums alone",
        edit_dataset('"guarantee":""', '"guarantee":"void"'),
        "datasets",
        "guarantee of census",
    ),
    Forged(
        "a dataset that is not shown", "sums alone", hidden_dataset, "datasets", "not show tight"
    ),
    # reservations
    Forged(
        "a void of no grant",
        "everything",
        set_in("voided", "rho", "request", "grant", to=f"sha256:{'1' * 64}"),
        "log",
        "grant",
    ),
    Forged(
        "a settlement beyond its maximum",
        "everything",
        set_in("settled", "rho", "request", "shown", to="100"),
        "log",
        "levels",
    ),
    Forged(
        "a settlement at another level",
        "everything",
        set_in("settled", "rho", "request", "shown", to="9000"),
        "log",
        "falls",
    ),
    Forged(
        "a void that returns more",
        "everything",
        set_in("voided", "rho", "reservation", "returned", "rho", to="1"),
        "log",
    ),
    Forged("a void that returns a unit more", "everything", void_more, "log", "falls"),
    Forged(
        "a settlement without begin",
        "everything",
        set_in("begun", "rho", "outcome", to="closed"),
        "log",
    ),
    Forged(
        "a void after begin", "everything", set_in("settled", "rho", "outcome", to="voided"), "log"
    ),
    Forged(
        "a void of another's reservation",
        "everything",
        set_in("voided", "rho", "reservation", "analyst", to="eve"),
        "log",
        "analyst",
    ),
    Forged("settled twice", "everything", again("settled", "rho"), "log"),
    # limits
    Forged("a limit that a grant leaves out", "everything", without_a_level, "log", "limits"),
    Forged(
        "a limit's use",
        "everything",
        set_in(*RHO, "levels", 0, "totals", "rho", to="0.001"),
        "log",
        "limit",
    ),
    Forged(
        "a period's use",
        "everything",
        set_in(*RHO, "levels", 0, "paced", "rho", to="0.001"),
        "log",
        "limit",
    ),
    Forged(
        "a limit's own use",
        "everything",
        set_in(*RHO, "levels", 1, "totals", "rho", to="0.001"),
        "log",
        "costs",
    ),
    Forged(
        "a limit's budget",
        "everything",
        set_in("limit_set", "tight", "limit", "budget", "rho", to="1"),
        "log",
        "limit",
    ),
    Forged(
        "a limit's version",
        "everything",
        set_in("limit_set", "tight", "limit", "version", to=2),
        "log",
        "version",
    ),
    Forged("a limit without its part", "everything", removed_limit, "log"),
    Forged(
        "a period's budget",
        "everything",
        set_in("limit_set", "tight", "limit", "pace", "budget", "rho", to="1"),
        "log",
        "limit",
    ),
    Forged(
        "a period's length",
        "everything",
        set_in("limit_set", "tight", "limit", "pace", "period", to="P9D"),
        "log",
        "period",
    ),
    Forged("a limit without its use", "everything", without_use, "log", "counts"),
    Forged("a period that begins again", "everything", period_again, "log", "paced"),
    # answers
    Forged(
        "an answer's scale",
        "everything",
        answer(0, "statistics", 0, "scale", to="2"),
        "answers",
        "noise",
    ),
    Forged(
        "an answer's cost",
        "everything",
        answer(0, "cost", to={"epsilon": "0.5"}),
        "answers",
        "cost",
    ),
    Forged(
        "an answer's claim",
        "everything",
        answer(0, "claim", "epsilon", to="0.5"),
        "answers",
        "content",
    ),
    Forged(
        "an answer's question",
        "everything",
        answer(0, "question", to={"ask": "count", "where": "age > 9"}),
        "answers",
        "content",
    ),
    Forged(
        "an answer's analyst", "everything", answer(0, "analyst", to="eve"), "answers", "content"
    ),
    Forged(
        "an answer to no grant",
        "everything",
        lambda f: f.answers[0].update(grant=f"sha256:{'1' * 64}"),
        "answers",
    ),
    Forged(
        "an answer without its chain",
        "nothing",
        lambda f: without_chain(f, 1),
        "answers",
        "chain",
    ),
    Forged(
        "an answer twice",
        "everything",
        lambda f: f.answers.append(dict(f.answers[0])),
        "answers",
        "earlier",
    ),
    Forged(
        "a session's last level",
        "everything",
        answer(1, "levels", -1, "level", to="9"),
        "answers",
        "level",
    ),
    Forged(
        "a session's scale",
        "everything",
        answer(1, "statistics", 0, "scale", to="2"),
        "answers",
        "noise",
    ),
    Forged(
        "another law with another scale",
        "everything",
        lambda f: (
            answer(0, "statistics", 0, "law", to="laplace")(f),
            answer(0, "statistics", 0, "scale", to="9")(f),
        ),
        "answers",
        "law",
    ),
    Forged(
        "a failure with a value",
        "everything",
        answer(0, "outcome", to="failed"),
        "answers",
        "failed",
    ),
    # signatures
    Forged(
        "the other S of a signature", "signed", note(str, malleable), "checkpoints", "no known key"
    ),
    Forged(
        "one record more in a note", "signed", note(another_line(1, "99")), "checkpoints", "cut off"
    ),
    Forged(
        "another hash in a note",
        "signed",
        note(another_line(2, base64.b64encode(bytes(32)).decode())),
        "checkpoints",
    ),
    Forged(
        "another branch in a note",
        "signed",
        note(another_line(3, "branch 7")),
        "checkpoints",
        "branch",
    ),
    Forged(
        "another ledger in a note",
        "signed",
        note(another_line(0, f"accountant/{'0' * 32}/0")),
        "checkpoints",
        "origin",
    ),
    Forged(
        "a zero before a number",
        "signed",
        note(another_line(3, "branch 00")),
        "checkpoints",
        "number",
    ),
    Forged(
        "a bit of a signature",
        "signed",
        note(str, lambda s: bytes([s[0] ^ 1]) + s[1:]),
        "checkpoints",
    ),
    Forged("an unsigned head after a rollback", "signed", rolled_back, "checkpoints", "answer"),
    Forged("an unsigned head", "signed", unsigned_head, "checkpoints", "no known key"),
    Forged("a key of small order", "small", small_order, "checkpoints", "no known key"),
    # what no verifier can notice alone: verifying.md says so
    Forged("everything, by another key", "everything", lambda f: None, ""),
    Forged("answers left out with their heads", "sums alone", without_answers, ""),
    Forged("an older copy of everything", "sums alone", rewound, ""),
]


def forged(evidence: Path, folder: Path, each: Forged) -> tuple[int, dict[str, Any]]:
    """Forge a copy of the evidence, and verify it as its reader would."""
    forger = Forger(evidence, folder)
    _, ledger_option, ledger = from_outside(evidence)[1:]
    before = (folder / "log.jsonl").read_bytes(), (folder / "answers.jsonl").read_bytes()
    rows = json.dumps([forger.log, forger.answers])
    each.edit(forger)
    is_in_file = (folder / "log.jsonl").read_bytes() != before[0]
    if each.makes == "sums" and not is_in_file and json.dumps([forger.log, forger.answers]) != rows:
        forger.write(chain=False, sign=False)
    elif each.makes in {"sums", "signed", "small"}:
        forger.sum()
    elif each.makes in {"chain", "everything"}:
        forger.write(sign=each.makes == "everything")
    key = from_outside(evidence)[1]
    if each.makes in {"everything", "signed", "small"}:
        key = (folder / "keys.txt").read_text().strip()
    return verified(folder, "--key", key, ledger_option, ledger)


@pytest.mark.parametrize("each", FORGERIES, ids=lambda each: each.name)
def test_a_forgery_is_found_or_named(evidence: Path, tmp_path: Path, each: Forged) -> None:
    code, found = forged(evidence, tmp_path / "forged", each)
    checks = wrong(found)
    assert (code, checks[:1]) == ((1, [each.fails]) if each.fails else (0, [])), found["checks"]
    said = next((c["found"] for c in found["checks"] if c["check"] == each.fails), "")
    assert each.says in said
    if each.name == "everything, by another key":  # the reader's own key shows it
        own = verified(tmp_path / "forged", *from_outside(evidence))
        assert (own[0], wrong(own[1])) == (1, ["checkpoints"])
        assert verified(tmp_path / "forged")[0] == 3
