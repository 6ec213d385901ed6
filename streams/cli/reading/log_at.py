"""Opens the log that a path or an address names."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from streams.cli.printing.typed_names import close_with_command
from streams.errors import InputInvalid, Refused
from streams.log.archives import opened
from streams.log.decision_log import MAX_LINE
from streams.log.exported_log import ExportedLog

if TYPE_CHECKING:
    from streams.log.decision_log import DecisionLog

_SQLITE: Final = b"SQLite format 3\x00"
_OF_DECISIONS: Final = b'"previous":"sha256:'  # only decisions have this


def log_at(address: str, archives: Sequence[Path] = ()) -> DecisionLog:
    """Return the log that a path or an address names.

    Args:
        archives: of the beginning of a ledger's file, in order.
    Raises: AddressInvalid, InputInvalid, NoSuchLedger, Refused, FileNotFoundError.
    """
    source = _source(address)
    if not archives:
        return source
    from streams.embedded.sqlite_log import SqliteLog

    if not isinstance(source, SqliteLog):
        hint = "name the ledger's file: --url sqlite:///FILE"
        raise InputInvalid("--archive needs a ledger's file", hint=hint)
    log = SqliteLog(source.path, tuple(archives))
    close_with_command(log.close)
    return log


def _source(address: str) -> DecisionLog:
    from streams.address import ledger_url
    from streams.settings import load_command

    if "://" not in address:
        return _of_file(Path(address))
    where = ledger_url(address)
    if where.kind == "sqlite":
        path = Path(where.target)
        if not path.is_file():
            from streams.client.connection.connect import check_exists

            check_exists(path)
        try:
            return _of_file(path)
        except InputInvalid as error:  # the same fault as for a command that needs the ledger
            hint = error.hint or ""
            raise Refused(f"{error}. {hint[:1].upper()}{hint[1:]}") from error
    if where.kind == "kafka":
        from streams.kafka.deployment import deployment_of
        from streams.kafka.log.kafka_log import KafkaLog

        return KafkaLog(deployment_of(load_command(url=address)))
    raise InputInvalid(
        "the whole log cannot be read over HTTP",
        hint="name the log itself: --url sqlite:///FILE or --url kafka://HOST:PORT. A server shows "
        "its end at `GET /head`, and a dataset's decisions at `GET /datasets/NAME/requests`",
    )


def _of_file(path: Path) -> DecisionLog:
    with path.open("rb") as file:
        begin = file.read(len(_SQLITE))
        is_sqlite = begin == _SQLITE
        if not is_sqlite:
            with opened(path) as lines:
                begin = lines.read(MAX_LINE)
    if not is_sqlite and not _was_log(begin):
        hint = "name a ledger's file, or the output of `accountant log export` or `decide`"
        raise InputInvalid(f"{path} is not a decision log", hint=hint)
    if is_sqlite:
        from streams.embedded.sqlite_log import SqliteLog

        log = SqliteLog(path)
        close_with_command(log.close)
        return log
    return ExportedLog(path)


def _was_log(begin: bytes) -> bool:
    """Tell whether a file with this beginning is a log, even a damaged one.

    The audit reports damage; this only rejects files that never were a log.
    """
    import msgspec

    from accountant.records import DECODE_ERRORS

    begin = begin.lstrip()
    line = begin.split(b"\n", 1)[0]
    for text in (line, begin):  # other JSON may have several lines
        with suppress(*DECODE_ERRORS):
            found = msgspec.json.decode(text)
            decision = isinstance(found, dict) and found.get("type") == "decision"
            return decision or _OF_DECISIONS in line
    return not begin or line.startswith(b"{") or _OF_DECISIONS in line
