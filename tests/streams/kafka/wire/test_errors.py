"""What the Kafka client raises, in our words."""

from __future__ import annotations

import pytest
from aiokafka import errors as kafka

from streams.errors import CommitUnknown, Unavailable
from streams.kafka.wire.errors import translate_error, translate_errors


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (TimeoutError(), "the broker did not answer in time (TimeoutError)"),
        (TimeoutError("10 s"), "the broker did not answer in time (TimeoutError: 10 s)"),
        (
            OSError(111, "Connection refused"),
            "the broker cannot be reached (ConnectionRefusedError: [Errno 111] Connection refused)",
        ),
        (kafka.KafkaConnectionError("x"), "the broker cannot be reached (KafkaConnectionError: x)"),
        (kafka.NodeNotReadyError("node 1"), "NodeNotReadyError: node 1"),
    ],
)
def test_an_error_without_a_message_is_only_named(error: Exception, said: str) -> None:
    fault = translate_error(error)
    assert isinstance(fault, Unavailable)
    assert str(fault) == said
    assert not str(fault).rstrip().endswith(":")
    assert str(fault).count(type(error).__name__) == 1


def test_within_a_commit_the_outcome_is_unknown() -> None:
    with pytest.raises(CommitUnknown, match=r"\ATimeoutError\Z"), translate_errors(committing=True):
        raise TimeoutError
