"""The OpenAPI document: what the door takes and answers, as a program can check it."""

from __future__ import annotations

from streams.gateway.contract.answers import described
from streams.gateway.contract.schemas import reference

__all__ = ["described", "reference"]
