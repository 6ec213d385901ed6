"""Processor time of processes that are no children of the tests, such as a nursery's commands."""

from __future__ import annotations


class _Charged:
    seconds = 0.0


def charge(seconds: float) -> None:
    """Charge the running test with the processor time of a process that another one has started."""
    _Charged.seconds += seconds


def charged_elsewhere() -> float:
    """Return the processor seconds of all calls of `charge`."""
    return _Charged.seconds
