"""The longest time that a process takes to end after a signal, whatever it waits for."""

from __future__ import annotations

import logging
import os
import threading
from typing import Final

from streams.telemetry.logs import get_logger

_log = get_logger(__name__)
LIMIT_S: Final = 27.0
"""From the signal to the end; who starts a process often kills it after 30 seconds."""
CUT: Final = 1
"""The exit code of a process that was ended at the limit."""


def end_within(seconds: float = LIMIT_S) -> None:
    """End this process after so many seconds, if it has not ended by then.

    What it has not done is lost as by a kill: the next start sends each stored step again, runs the
    plain questions that had no answer, and settles in full what had begun. Call it from a handler
    of a signal alone.
    """
    thread = threading.Timer(seconds, _end, args=(seconds,))
    thread.daemon = True
    thread.start()


def _end(seconds: float) -> None:
    _log.error(
        "stop_cut",
        seconds=seconds,
        then="the next start runs plain questions again, and charges begun sessions in full",
    )
    logging.shutdown()
    os._exit(CUT)
