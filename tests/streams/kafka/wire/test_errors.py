"""What the Kafka client raises, in our words."""

from __future__ import annotations

import pytest
from aiokafka import errors as kafka

from streams.errors import CommitUnknown, Unavailable
from streams.kafka.wire.errors import translate_error, translate_errors


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (TimeoutError(), "the broker did not answer in time"),
        (TimeoutError("10 s"), "the broker did not answer in time (10 s)"),
        (
            OSError(111, "Connection refused"),
            "the broker cannot be reached (Connection refused)",
        ),
        (
            kafka.KafkaConnectionError("x"),
            "the broker cannot be reached (there is no connection: x)",
        ),
        (kafka.NodeNotReadyError("node 1"), "node not ready: node 1"),
    ],
)
def test_an_error_has_words_and_no_name_of_a_class(error: Exception, said: str) -> None:
    fault = translate_error(error)
    assert isinstance(fault, Unavailable)
    assert str(fault) == said
    assert not str(fault).rstrip().endswith(":")
    assert type(error).__name__ not in str(fault)


def test_within_a_commit_the_outcome_is_unknown() -> None:
    with (
        pytest.raises(CommitUnknown, match=r"\Ano answer came in time\Z"),
        translate_errors(committing=True),
    ):
        raise TimeoutError
