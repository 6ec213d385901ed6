"""Kafka's errors as the faults of `streams.errors`, translated here and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from aiokafka import errors as kafka

from streams.errors import (
    CommitRejected,
    CommitUnknown,
    Fenced,
    JournalFault,
    Refused,
    Unavailable,
)

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
_REFUSED: Final = (
    kafka.TopicAuthorizationFailedError,
    kafka.GroupAuthorizationFailedError,
    kafka.ClusterAuthorizationFailedError,
    kafka.TransactionalIdAuthorizationFailed,
    kafka.IncompatibleBrokerVersion,
    kafka.UnsupportedVersionError,
    kafka.OffsetOutOfRangeError,
)


_TOO_LATE: Final = (TimeoutError, kafka.KafkaTimeoutError, kafka.RequestTimedOutError)


class LostResponse(Exception):
    """A response that decides a transaction was lost.

    Not one of the client's errors on purpose: those it would answer by silently sending the
    request again in the same epoch, where it could end the next transaction (KAFKA-17754).
    """


def translated(error: BaseException, *, committing: bool = False) -> JournalFault | Refused:
    """Return the fault that a client's error means."""
    cause = error.__cause__
    if type(error) is kafka.KafkaError and isinstance(cause, Exception):
        error = cause  # the client's sender so wraps whatever has ended it
    name, said = type(error).__name__, str(error)
    what = said if name in said else f"{name}: {said}" if said else name
    if isinstance(error, _FENCED):
        return Fenced(what)
    if committing and isinstance(error, _REJECTED):
        return CommitRejected(what)
    if isinstance(error, _REFUSED):
        return Refused(
            f"the broker refuses ({what}): check ACLs, deleted records and "
            "`accountant topics check`"
        )
    if committing or isinstance(error, LostResponse):
        return CommitUnknown(what)
    if isinstance(error, _TOO_LATE):
        return Unavailable(f"the broker did not answer in time ({what})")
    if isinstance(error, (kafka.KafkaConnectionError, OSError)):
        return Unavailable(f"the broker cannot be reached ({what})")
    return Unavailable(what)


@contextmanager
def translating(*, committing: bool = False) -> Iterator[None]:
    """Translate what the client raises within the block.

    Raises: JournalFault, Refused: as `translated` says.
    """
    try:
        yield
    except (TimeoutError, kafka.KafkaError, LostResponse, OSError) as error:
        raise translated(error, committing=committing) from error
