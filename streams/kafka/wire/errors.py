"""Translate Kafka's errors to the faults of `streams.errors`; no other module does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from aiokafka import errors as kafka

from streams.error_words import own_text, words_of
from streams.errors import (
    CommitRejected,
    CommitUnknown,
    Fenced,
    JournalFault,
    Refused,
    Unavailable,
)
from streams.kafka.wire.diagnose_auth import ConnectionDenied


class BrokerAuthFailed(Refused):
    """The brokers reject this process's credentials, or it does not trust their certificate."""


_FENCED: Final = (
    kafka.ProducerFenced,
    kafka.InvalidProducerEpoch,
    kafka.InvalidProducerIdMapping,
    kafka.InvalidTxnState,
)
_REJECTED: Final = (
    kafka.MessageSizeTooLargeError,
    kafka.RecordListTooLargeError,
    kafka.InvalidMessageError,
    kafka.CorruptRecordException,
    kafka.InvalidTimestampError,
)
_DENIED: Final = {
    kafka.TopicAuthorizationFailedError: "topic",
    kafka.GroupAuthorizationFailedError: "group",
    kafka.ClusterAuthorizationFailedError: "cluster",
    kafka.TransactionalIdAuthorizationFailed: "transactional id",
}
_REFUSED: Final = (
    kafka.IncompatibleBrokerVersion,
    kafka.UnsupportedVersionError,
)


_TOO_LATE: Final = (TimeoutError, kafka.KafkaTimeoutError, kafka.RequestTimedOutError)


def translate_error(error: BaseException, *, committing: bool = False) -> JournalFault | Refused:
    """Return the fault that a client's error means."""
    cause = error.__cause__
    if type(error) is kafka.KafkaError and isinstance(cause, Exception):
        error = cause  # the client's sender, and ours, wrap the error that ended them
    what = words_of(error)
    if isinstance(error, _FENCED):
        return Fenced(what)
    if committing and isinstance(error, _REJECTED):
        return CommitRejected(what)
    if isinstance(error, ConnectionDenied):
        return BrokerAuthFailed(error.reason)
    if (denied := _DENIED.get(type(error))) is not None:
        return Refused(
            f"the broker denies this process's principal a {denied} ({what}): check "
            "ACCOUNTANT_KAFKA_USERNAME, and the ACLs of its role (run `accountant topics acls`)"
        )
    if isinstance(error, kafka.OffsetOutOfRangeError):
        return Refused(
            f"records that are to be read next do not exist ({what}): they were deleted, or the "
            "topic was made again. Restore the topic (docs/how-to/backup-and-restore.md)"
        )
    if isinstance(error, _REFUSED):
        return Refused(f"the broker rejects the request ({what}): run a newer broker")
    if committing:
        return CommitUnknown(what)
    if isinstance(error, _TOO_LATE):
        said = own_text(error)
        return Unavailable("the broker did not answer in time" + (f" ({said})" if said else ""))
    if isinstance(error, (kafka.KafkaConnectionError, OSError)):
        return Unavailable(f"the broker cannot be reached ({what})")
    return Unavailable(what)


@contextmanager
def translate_errors(*, committing: bool = False) -> Iterator[None]:
    """Translate the client's errors within the block.

    Raises: JournalFault, Refused: as `translate_error` says.
    """
    try:
        yield
    except (TimeoutError, kafka.KafkaError, OSError) as error:
        raise translate_error(error, committing=committing) from error
