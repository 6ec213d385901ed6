"""The program on Quix Streams: charge each request to its dataset's running sum, or refuse it.

It runs in the environment of requirements/peers.txt. Arguments: bootstrap, application, source
topic, output topic, state directory, limit (in units of 1e-12), bytes of an answer.
"""

from __future__ import annotations

import sys
from decimal import Decimal
from typing import Any

from quixstreams import Application, State

_DIGITS = 12
_COMMIT_S = 1.0
_REQUEST_BYTES = 251


def main() -> None:
    bootstrap, application, source, output, directory, limit, answer_bytes = sys.argv[1:]
    most, filler = int(limit), "." * (int(answer_bytes) - _REQUEST_BYTES)

    def charge(request: dict[str, Any], state: State) -> dict[str, Any]:
        before = state.get("sum", 0)
        cost = int(Decimal(request["claim"]["epsilon"]).scaleb(_DIGITS))
        granted = before + cost <= most
        total = before + cost if granted else before
        if granted:
            state.set("sum", total)
        outcome = "granted" if granted else "refused"
        return {"outcome": outcome, "total": total, "request": request, "filler": filler}

    app = Application(
        bootstrap,
        consumer_group=application,
        processing_guarantee="exactly-once",
        auto_offset_reset="earliest",
        commit_interval=_COMMIT_S,
        state_dir=directory,
        loglevel="WARNING",
    )
    frame = app.dataframe(app.topic(source))
    frame = frame.apply(charge, stateful=True)
    frame.to_topic(app.topic(output))
    app.run()


if __name__ == "__main__":
    main()
