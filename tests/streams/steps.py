"""How much a call does, counted in steps of the interpreter: the same on every machine."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def steps(call: Callable[[], object]) -> int:
    """Return how many bytecodes a call runs in this thread.

    The garbage collector waits meanwhile: what it calls back would be counted, too.
    """
    count = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal count
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return trace

    before, collecting = sys.gettrace(), gc.isenabled()
    gc.disable()
    try:
        # Python 3.12 traces bytecodes only once some frame has asked for them before.
        for traced in (lambda: None), call:
            count = 0
            sys.settrace(trace)
            traced()
            sys.settrace(None)
    finally:
        sys.settrace(before)
        if collecting:
            gc.enable()
    assert count > 0, "nothing was counted"
    return count
