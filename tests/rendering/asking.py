"""What the dashboards ask Prometheus, in Grafana's words: variables, steps, intervals."""

from __future__ import annotations

import json
import re
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

OPENS = ("deploy/grafana/json/*",)

ROOT = Path(__file__).parents[2]
BOARDS = ROOT / "deploy" / "grafana" / "json"
NAMES = ("overview", "dataset", "service")

# Grafana asks for as many points as the panel is wide.
_POINTS = 500


def board(name: str) -> dict[str, Any]:
    """Return a committed dashboard."""
    return dict(json.loads((BOARDS / f"{name}.json").read_text(encoding="utf-8")))


def panels(dashboard: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield its panels, those of folded rows included, rows left out."""
    for panel in dashboard["panels"]:
        if panel["type"] == "row":
            yield from panel.get("panels", ())
        else:
            yield panel


@dataclass(frozen=True, kw_only=True)
class Window:
    """The time shown, in seconds since 1970, and what Prometheus scrapes by, in seconds."""

    start: float
    end: float
    scrape: float = 10

    @property
    def step(self) -> int:
        return max(int(self.scrape), int((self.end - self.start) / _POINTS), 1)


class Prometheus:
    """A running one.

    Raises: RuntimeError: it does not take a query; the message has the query and what it says.
    """

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")

    def _get(self, path: str, **parameters: str | float) -> Any:
        encoded = urllib.parse.urlencode(parameters)
        try:
            with urllib.request.urlopen(f"{self._url}{path}?{encoded}", timeout=30) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(f"{parameters}: {error.read().decode()}") from error

    def instant(self, expr: str, at: float | None = None) -> list[dict[str, Any]]:
        """Return the vector that `expr` is now, or was."""
        moment = time.time() if at is None else at
        return list(self._get("/api/v1/query", query=expr, time=moment)["result"])

    def range(self, expr: str, window: Window) -> list[dict[str, Any]]:
        """Return the matrix that `expr` was over a window, aligned to its steps as Grafana does."""
        start = window.start // window.step * window.step
        asked = {"query": expr, "start": start, "end": window.end, "step": window.step}
        return list(self._get("/api/v1/query_range", **asked)["result"])

    def values(self, label: str, selector: str) -> list[str]:
        """Return the values that a label has."""
        return list(self._get(f"/api/v1/label/{label}/values", **{"match[]": selector}))


def interpolated(text: str, variables: Mapping[str, str], window: Window) -> str:
    """Return a query with Grafana's variables put in."""
    rate = max(window.step + window.scrape, 4 * window.scrape)
    known = {
        **variables,
        "__rate_interval": f"{int(rate)}s",
        "__interval": f"{window.step}s",
        "__range": f"{int(window.end - window.start)}s",
    }
    return re.sub(r"\$\{?(\w+)\}?", lambda found: known[found[1]], text)


def variables(dashboard: Mapping[str, Any], source: Prometheus, **chosen: str) -> dict[str, str]:
    """Return what each variable is: as chosen, all there are, or the first one."""
    values = dict(chosen)
    window = Window(start=0, end=0)
    for variable in dashboard["templating"]["list"]:
        name = variable["name"]
        if name in values:
            continue
        if variable["type"] == "query":
            query = interpolated(variable["query"]["query"], values, window)
            found = re.fullmatch(r"label_values\((.+), (\w+)\)", query)
            assert found, query
            known = sorted(source.values(found[2], found[1]))
            assert known, f"no value for ${name}: {query}"
            values[name] = variable["allValue"] if variable["includeAll"] else known[0]
        else:
            values[name] = variable["query"]
    return values


def answer(
    target: Mapping[str, Any], source: Prometheus, values: Mapping[str, str], window: Window
) -> list[dict[str, Any]]:
    """Return what Prometheus answers to one query of a panel."""
    expr = interpolated(target["expr"], values, window)
    if target.get("instant"):
        return source.instant(expr, window.end)
    return source.range(expr, window)
