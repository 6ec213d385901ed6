"""What is spent is one number everywhere; views of requests name releases made elsewhere."""

from __future__ import annotations

import json
from pathlib import Path

from tests.streams.cli.here import run_here
from tests.streams.gateway.records import request
from tests.streams.pages.dataset.pages_server import PagesServer
from tests.streams.pages.dataset.test_page import words

NOT_IN_ROWS = "count requests alone: ε 0.07 of releases made elsewhere is spent as well"


def test_every_view_agrees_on_what_is_spent(tmp_path: Path) -> None:
    with PagesServer(tmp_path) as server:
        dataset = "apart"
        server.open_for_olga(dataset, filter="basic", epsilon="1", most_per_request="1")
        granted = request(server.clock, dataset=dataset, claim={"type": "pure", "epsilon": "0.46"})
        server.done("ana", "/requests", granted, "granted")
        server.reserved(dataset, "ana", claim={"type": "pure", "epsilon": "0.03"})
        release = {"version": 1, "type": "record", "dataset": dataset, "by": "olga"}
        release |= {"claim": {"type": "pure", "epsilon": "0.07"}, "evidence": "table 3"}
        release |= {"released_at": "2026-11-20T00:00:00.000Z"}
        server.done("olga", f"/datasets/{dataset}/record", release, "recorded")
        page = words(server.page("olga", dataset).text)
        assert "53 % is spent, 3 % is reserved , 44 % is left." in page
        assert f"The chart and the tables of usage {NOT_IN_ROWS}." in page
        path = f"/pages/datasets/{dataset}/report"
        report = words(server.http.get(path, headers=server.auth_headers("olga")).text)
        assert "Spent since the opening: ε 0.53, 53 % of the budget; 3 % is reserved" in report
        assert f"The tables {NOT_IN_ROWS}." in report
        token = tmp_path / "token"
        token.write_text(server.tokens["olga"])
        token.chmod(0o600)
        at = ("--url", server.url, "--token-file", str(token))
        why = " ".join(run_here(tmp_path, "why", dataset, *at).out.split())
        assert "(ε 0.53 and 0.03 of 1)" in why
        assert f"rows {NOT_IN_ROWS}" in why
        found = json.loads(run_here(tmp_path, "report", dataset, "--json", *at).out)
        (month,) = found["by_month"]
        assert (month["spent"], found["elsewhere"]) == ("0.49", "0.07")
        listed = run_here(tmp_path, "dataset", "releases", dataset, *at).out
        assert "olga records pure:0.07, released at 2026-11-20 00:00 UTC, charged ε 0.07" in listed
        (line,) = run_here(tmp_path, "dataset", "releases", dataset, "--json", *at).out.splitlines()
        assert (json.loads(line)["claim"], json.loads(line)["cost"]) == ("pure:0.07", "ε 0.07")
        before = ("report", dataset, "--to", "2026-11-20", "--json", *at)
        assert json.loads(run_here(tmp_path, *before).out)["elsewhere"] == "0"
