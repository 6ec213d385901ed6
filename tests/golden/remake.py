"""Write decided.json again, after a change of the rules: `python -m tests.golden.remake`."""

from __future__ import annotations

import json

from tests.golden.replayed_logs import DECIDED, LOGS, hashes, played

OPENS = ()


def main() -> None:
    found = {name: hashes(played(name)) for name in LOGS}
    DECIDED.write_text(json.dumps(found, indent=1) + "\n")
    print(f"{DECIDED} is written again: commit it with the change that it shows")


if __name__ == "__main__":
    main()
