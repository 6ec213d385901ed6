"""Fill deploy/prometheus/thresholds.yml into the templates next to it, and write rules/*.yml.

With --check it writes nothing, and the exit code is 1 if a file is out of date.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import yaml

HOME = Path(__file__).resolve().parent.parent / "deploy" / "prometheus"
_HEADER = "# Made by scripts/prometheus_rules.py from templates/ and thresholds.yml: edit those.\n"
_PLACE = re.compile(r"@(\w+)@")


def thresholds() -> dict[str, Any]:
    """Return the thresholds, each a mapping with `value` and `reason`."""
    text = (HOME / "thresholds.yml").read_text("utf-8")
    # Read as text: 1e-9 and 2m go into the rules unchanged.
    found = yaml.load(text, Loader=yaml.BaseLoader)  # noqa: S506 - makes strings only
    assert isinstance(found, dict)
    return found


def rules() -> dict[str, str]:
    """Return the text of each file of rules, by its name.

    Raises: KeyError: a template names a threshold that does not exist.
    """
    found = thresholds()
    values = {
        name: each["value"] for name, each in (found["thresholds"] | found["durations"]).items()
    }
    window = (HOME / "templates" / "window.yml").read_text("utf-8")
    values["windows"] = "".join(
        _fill(window, {"window": name, "seconds": seconds})
        for name, seconds in found["windows"].items()
    )
    made = {}
    for name in ("recording.yml", "alerts.yml"):
        lines, alert = [], ""
        for line in (HOME / "templates" / name).read_text("utf-8").splitlines(keepends=True):
            if "- alert: " in line:
                alert = line.split(": ")[1].strip()
            values["runbook"] = f"{found['runbooks']}#{alert.lower()}"
            lines.append(_fill(line, values))
        made[name] = _HEADER + "".join(lines)
    return made


def _fill(text: str, values: dict[str, str]) -> str:
    return _PLACE.sub(lambda match: values[match[1]], text)


def main() -> int:
    """Write the rules, or with --check compare them."""
    stale = []
    for name, text in rules().items():
        path = HOME / "rules" / name
        if "--check" not in sys.argv[1:]:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        elif not path.is_file() or path.read_text("utf-8") != text:
            stale.append(name)
    if stale:
        sys.stderr.write(
            f"out of date: {', '.join(stale)}. Run `python scripts/prometheus_rules.py`\n"
        )
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
