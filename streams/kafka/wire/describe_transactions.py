"""The request DescribeTransactions, which the client library lacks (KIP-664, Kafka 3.0).

The library carries no types, and names its classes by their version.
"""

from __future__ import annotations

from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import (
    CompactArray,
    CompactString,
    Int16,
    Int32,
    Int64,
    Schema,
    TaggedFields,
)

_API_KEY = 65


class DescribeTransactionsResponse_v0(Response):  # type: ignore[misc]  # noqa: N801
    """The state of each transaction; `start_time_ms` is the coordinator's time, -1 before one."""

    API_KEY = _API_KEY
    API_VERSION = 0
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "transaction_states",
            CompactArray(
                ("error_code", Int16),
                ("transactional_id", CompactString("utf-8")),
                ("transaction_state", CompactString("utf-8")),
                ("timeout_ms", Int32),
                ("start_time_ms", Int64),
                ("producer_id", Int64),
                ("producer_epoch", Int16),
                (
                    "topics",
                    CompactArray(
                        ("topic", CompactString("utf-8")),
                        ("partitions", CompactArray(Int32)),
                        ("tags", TaggedFields),
                    ),
                ),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )


class DescribeTransactionsRequest_v0(RequestStruct):  # type: ignore[misc]  # noqa: N801
    """As it is sent."""

    FLEXIBLE_VERSION = True
    API_KEY = _API_KEY
    API_VERSION = 0
    RESPONSE_TYPE = DescribeTransactionsResponse_v0
    SCHEMA = Schema(
        ("transactional_ids", CompactArray(CompactString("utf-8"))), ("tags", TaggedFields)
    )


class DescribeTransactionsRequest(Request[DescribeTransactionsRequest_v0]):  # type: ignore[misc]
    """Asks the coordinator for the state of one transactional id."""

    API_KEY = _API_KEY

    def __init__(self, transactional_id: str) -> None:
        self._transactional_id = transactional_id

    def build(
        self, request_struct_class: type[DescribeTransactionsRequest_v0]
    ) -> DescribeTransactionsRequest_v0:
        """Return the request in the version that the broker speaks."""
        return request_struct_class([self._transactional_id], {})
