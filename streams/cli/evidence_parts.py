"""What a folder of evidence contains, read from a ledger or from a server."""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, redirect_stdout
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

if TYPE_CHECKING:
    from accountant.answers import NoisyAnswer
    from accountant.views.datasets import DatasetView
    from streams.answers.answer_file import AnswerFile
    from streams.audit.evidence_folder import EvidenceFolder
    from streams.client import Accountant
    from streams.evidence.keys import Verifier
    from streams.log.decision_log import DecisionLog
    from streams.settings import Settings

_ORIGIN: Final = re.compile(rb"accountant/([0-9a-f:sh]+)/([0-9]{1,9})(?:/answers)?")
_STATEMENT: Final = re.compile(rb'"outcome":"(?:recorded|remarked)"')

_ATTEMPTS: Final = 5


class _Notes(NamedTuple):
    """Signed notes of a ledger, by the name of their file, and the keys beside them."""

    files: dict[str, bytes]
    keys: list[Verifier]
    why: str


def write_ledger(
    made: EvidenceFolder,
    url: str,
    source: DecisionLog,
    archives: Sequence[Path],
    places: Sequence[str],
    keys: Sequence[str],
    receipts: Sequence[Path],
    store: Path | None,
    documents: Sequence[Path],
) -> bool:
    """Write the evidence of a whole ledger; return whether its audit has found nothing.

    What may grow meanwhile is read in this order: notes, answers, datasets, log. So the log has
    all that the others are about. A session is settled after its answer is stored. So answers and
    log are read again if an answer was stored while the log was read.

    Args:
        source: the log at the address.
    """
    from streams.audit.checkpoints import key_at, read_receipts
    from streams.audit.log_answers import store_beside
    from streams.files.temporary_directories import ANSWERS, temporary_directory
    from streams.settings import load_command

    store = store or store_beside(source)
    ledger, own = _ledger_of(source), [key_at(each) for each in keys]
    notes = _notes(source, load_command(url=url), ledger, places)
    for name, note in notes.files.items():
        made.add(f"checkpoints/{name}", "a signed note", note)
    if not notes.files:
        made.lacks("checkpoints", notes.why)
    texts = list(dict.fromkeys(each.text for each in own or notes.keys))
    made.add("keys.txt", "public keys; compare them with your own", map(str.encode, texts))
    if not texts:
        made.lacks("public key", "none was named with --key, and none is beside the checkpoints")
    found = [msgspec.json.encode(each) for each in read_receipts(receipts)]
    if found:
        made.add("receipts.jsonl", "receipts of decisions", found)
    else:
        made.lacks("receipts", "none was named with --receipt")
    with temporary_directory(ANSWERS) as temporary, ExitStack() as open_files:
        for attempt in range(_ATTEMPTS):
            copy = Path(temporary) / str(attempt)
            answers = _answers(source, store, copy, open_files)
            views = _views(url)
            is_cut, partitions = _write_log(made, source)
            is_settled = not _has_grown(store, answers)
            if is_settled or attempt == _ATTEMPTS - 1:
                break
            made.drop("log.jsonl")
        if not is_settled:
            why = "questions were answered all the time: run the command again, or of a copy"
            made.lacks("answers of the last seconds", why)
        if is_cut is not None:
            why = f"decisions 1 to {is_cut} are in archives that --archive does not name"
            made.lacks("beginning of the log", why)
        _write_statements(made, made.path / "log.jsonl", documents)
        _write_archives(made, archives)
        _write_answers(made, answers)
        _write_views(made, views)
        is_right = _write_audit(made, None if is_cut is None else source, answers, texts)
    made.finish(_facts(ledger) | {"chained": True, "partitions": partitions})
    return is_right


def write_dataset(
    made: EvidenceFolder,
    url: str,
    token_file: Path | None,
    name: str,
    documents: Sequence[Path],
) -> None:
    """Write the records and answers of one dataset that a caller may read."""
    from accountant.answers import encode_answer
    from accountant.records import encode
    from streams.cli.reading.dataset_reader import get_dataset, reader, with_joint_guarantee
    from streams.client import NoAnswers
    from streams.errors import NotPermitted

    with reader(url, token_file) as ledger:
        get_dataset(ledger, name)
        answers: list[bytes] = []
        try:
            for each in _answers_of(url, ledger, name):
                value = encode_answer(each).decode()
                line = {"partition": 0, "grant": each.grant, "dataset": name}
                line |= {"analyst": each.analyst, "request_id": each.request_id, "value": value}
                answers.append(msgspec.json.encode(line))
        except NoAnswers as error:
            made.lacks("answers", str(error))
        made.add("answers.jsonl", "the answers that the caller may read; not chained", answers)
        records = (encode(each) for each in ledger.requests(name))
        made.add("records.jsonl", f"the decisions on {name}; NOT CHAINED", records)
        _write_statements(made, made.path / "records.jsonl", documents)
        _write_views(made, [with_joint_guarantee(ledger.dataset(name), ledger)])
        try:
            heads = ledger.heads()
        except NotPermitted:
            heads = []
    for what in ("log", "archives", "checkpoints", "receipts", "audit report"):
        made.lacks(what, "it is of the whole ledger: ask an auditor for it")
    made.add("keys.txt", "no public key: nothing here is signed", b"")
    facts = _facts(heads[0].ledger if heads else "unknown")
    made.finish(facts | {"chained": False, "dataset": name, "partitions": []})


def _answers_of(url: str, ledger: Accountant, dataset: str) -> Iterable[NoisyAnswer]:
    """Return the answers that a caller may read: a server's, or those beside a file."""
    from streams.answers import answers_path
    from streams.cli.reading.connect import settings_for
    from streams.cli.reading.stored_answers import file_without_server, stored_answers

    file = file_without_server(url)
    if file is not None and answers_path(file, settings_for(url, None).curator_store).exists():
        return stored_answers(file, url, dataset)
    return ledger.answers(dataset)


def _facts(ledger: str) -> dict[str, Any]:
    from accountant.times import iso
    from streams.clock import SystemClock

    made_by = version("streaming-privacy-accountant")
    return {"ledger": ledger, "made_at": iso(SystemClock().now()), "made_by": made_by}


def _ledger_of(source: DecisionLog) -> str:
    from accountant.views.heads import ledger_of

    return ledger_of(source.read(0, 0, 1)[0]) or "unknown"


def _notes(source: DecisionLog, settings: Settings, ledger: str, places: Sequence[str]) -> _Notes:
    """Return the signed notes of a ledger in some places, or where the settings have them."""
    from streams.embedded.checkpointing import directory_of
    from streams.embedded.sqlite_log import SqliteLog
    from streams.evidence.answers_head import is_answers_head
    from streams.evidence.sink_choice import readable_sink_at
    from streams.evidence.store import folder_of
    from streams.kafka.log.topic_sink import topic_sink

    if not places:
        directory = settings.checkpoints if settings.checkpoints != "off" else None
        if isinstance(source, SqliteLog):
            directory = directory_of(settings)
        folder = None if directory is None else folder_of(Path(directory), ledger)
        if folder is None or not folder.is_dir():
            why = "the settings name no directory with any, and --checkpoints was not given"
            return _Notes({}, [], why)
        places = [str(folder)]
    files: dict[str, bytes] = {}
    for place in places:
        for _, note in readable_sink_at(place, settings, topic_sink).notes():
            # Nothing of a note but its partition's number is in the name of its file.
            origin = _ORIGIN.fullmatch(note.partition(b"\n")[0])
            if origin is not None and origin[1].decode() == ledger:
                suffix = "head" if is_answers_head(note) else "note"
                digest = hashlib.sha256(note).hexdigest()[:16]
                files[f"{int(origin[2])}-{digest}.{suffix}"] = note
    why = f"there is none of ledger {ledger} in {', '.join(places)}"
    return _Notes(dict(sorted(files.items())), _keys_beside(places), why)


def _keys_beside(places: Sequence[str]) -> list[Verifier]:
    from streams.audit.local_checkpoints import keys_in

    return [key for place in places if Path(place).is_dir() for key in keys_in(Path(place))]


def _answers(
    source: DecisionLog, store: Path | None, copy: Path, open_files: ExitStack
) -> AnswerFile | str:
    """Return the answers as they are at this moment, or why there are none."""
    import asyncio

    from streams.answers.answer_file import open_answers
    from streams.kafka.log.kafka_log import KafkaLog
    from streams.kafka.service.answers import read_all_answers

    if store is None and isinstance(source, KafkaLog):
        topic = asyncio.run(read_all_answers(source.deployment))
        return topic or "the ledger has no topic of answers, or this principal may not read it"
    if store is None:
        return "no store of answers is beside the log, and --answers was not given"
    with open_answers(store) as live:
        live.copy_to(copy)
    return open_files.enter_context(open_answers(copy))


def _has_grown(store: Path | None, answers: AnswerFile | str) -> bool:
    """Tell whether a file of answers has got more since it was copied."""
    from streams.answers.answer_file import open_answers

    if isinstance(answers, str) or store is None:
        return False
    with open_answers(store) as live:
        return live.ends() != answers.ends()


def _write_answers(made: EvidenceFolder, answers: AnswerFile | str) -> None:
    if isinstance(answers, str):
        made.lacks("answers", answers)
        made.add("answers.jsonl", "no answers", b"")
        return
    is_chained = True

    def lines() -> Iterator[bytes]:
        nonlocal is_chained
        for partition in answers.logs():
            for each, entry in answers.entries(partition):
                line: dict[str, Any] = {"partition": partition, "number": each.number}
                if entry is not None:
                    line |= {"entry": entry.number, "batch": entry.batch}
                    line |= {"random": entry.random.hex(), "hash": entry.hash}
                is_chained &= entry is not None
                line |= {"grant": each.grant, "dataset": each.dataset, "analyst": each.analyst}
                line |= {"request_id": each.request_id, "value": each.value.decode()}
                yield msgspec.json.encode(line)

    made.add("answers.jsonl", "every stored answer, in the order of their store", lines())
    if not is_chained:
        why = (
            "the chain of a topic, or of an earlier version's store, covers records that are not "
            "answers, such as names of machines; `accountant audit` checks it where it is"
        )
        made.lacks("chain of the answers", why)


def _views(url: str) -> Sequence[DatasetView]:
    from streams.cli.reading.dataset_reader import reader, with_joint_guarantees

    with reader(url) as ledger:
        views = ledger.datasets()
        return with_joint_guarantees(views, views, ledger)


def _write_views(made: EvidenceFolder, views: Sequence[DatasetView]) -> None:
    from accountant.display.datasets import joint_sentence, uncertain_guarantee
    from streams.cli.printing.output import stdout
    from streams.cli.printing.tables import dataset_details

    def show() -> None:
        for view in views:
            joint = view.joint_guarantee
            more = [("together", joint_sentence(joint))] if joint else []
            stdout().print(dataset_details(view, more=more))

    made.uncertain = [said for view in views if (said := uncertain_guarantee(view))]
    made.add("datasets.txt", "policy and guarantee of each dataset, in words", _capture(show))
    made.add("datasets.jsonl", "the same as JSON", map(msgspec.json.encode, views))


def _write_log(
    made: EvidenceFolder, source: DecisionLog
) -> tuple[int | None, list[dict[str, Any]]]:
    """Write the log; return the last decision that only archives have, and each partition's end."""
    from streams.cli.printing.output import count_progress, progress

    partitions: list[dict[str, Any]] = []
    archived: int | None = None

    def lines() -> Iterator[bytes]:
        nonlocal archived
        for part in source.parts():
            last, count = b"", 0
            if part.sealed is not None and part.archived is not None:
                archived = count = part.archived[0]
            task = bars.add_task(f"partition {part.number}", total=part.total)
            with count_progress(bars, part.values, task) as values:
                for last in values:
                    count += 1
                    yield last
            head = f"sha256:{hashlib.sha256(last).hexdigest()}"
            partitions.append({"partition": part.number, "records": count, "head": head})

    with progress() as bars:
        made.add("log.jsonl", "the decision log, byte for byte, one record a line", lines())
    return archived, partitions


def _write_statements(made: EvidenceFolder, log: Path, documents: Sequence[Path]) -> None:
    """Write in words what owners have said of the past, and the documents that they name.

    Args:
        log: the written records.
        documents: the files that may be such documents.
    """
    from accountant.display.outside import document_of, statement_words
    from accountant.records import decode_decision
    from streams.errors import Refused

    with log.open("rb") as lines:
        found = [decode_decision(line) for line in lines if _STATEMENT.search(line)]
    # Other records may hold the same bytes: no words are made of them.
    words = filter(None, map(statement_words, found))
    made.add("statements.txt", "releases made elsewhere and remarks", map(str.encode, words))
    needed = dict.fromkeys(filter(None, map(document_of, found)))
    for file in documents:
        content = file.read_bytes()
        name = f"sha256:{hashlib.sha256(content).hexdigest()}"
        if name not in needed:
            raise Refused(f"no record of a release names {file}: none has its hash, {name}")
        del needed[name]
        made.add(f"documents/{name[7:]}{file.suffix}", f"the document {name}", content)
    for name in needed:
        made.lacks(f"document {name}", "--document has not named it")


def _write_archives(made: EvidenceFolder, archives: Sequence[Path]) -> None:
    for number, file in enumerate(archives, 1):
        name = f"archives/{number}-{file.name}"
        made.add(name, "an archive of the log's beginning", file.read_bytes())


def _write_audit(
    made: EvidenceFolder, cut: DecisionLog | None, answers: AnswerFile | str, keys: Sequence[str]
) -> bool:
    """Audit what was written, and write the report; return whether nothing was found.

    Args:
        cut: the log itself, where its beginning is missing: only there is the state at its seal.
    """
    from streams.audit.checkpoints import read_evidence
    from streams.cli.audit import audit_log, print_audit, print_audit_json
    from streams.log.exported_log import ExportedLog

    notes, receipts = made.path / "checkpoints", made.path / "receipts.jsonl"
    looked = notes.is_dir() and bool(keys)
    found = audit_log(
        cut or ExportedLog(made.path / "log.jsonl"),
        lambda: read_evidence(
            str(notes) if looked else None,
            [*keys] if looked else None,
            [receipts] * receipts.exists(),
        ),
        None if isinstance(answers, str) else answers,
        looked=looked,
    )
    made.add(
        "audit.txt",
        "the report of `accountant audit`",
        _capture(partial(print_audit, found)),
    )
    made.add("audit.json", "the same as JSON", _capture(partial(print_audit_json, found)))
    return found.is_right


def _capture(show: Callable[[], None]) -> bytes:
    """Return what a function prints."""
    out = io.BytesIO()
    with io.TextIOWrapper(out, encoding="utf-8", write_through=True) as text:
        with redirect_stdout(text):
            show()
        text.flush()
        return out.getvalue()
