"""What `visibility` lets analysts learn of each other beside what its table says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.streams.auth.survey_server import SurveyServer


class _ServerWithVisibility(SurveyServer):
    def __init__(self, directory: Path, visibility: str) -> None:
        super().__init__(directory)
        self._visibility = visibility

    def open_for_olga(self, dataset: str, **policy: Any) -> None:
        super().open_for_olga(dataset, **{"visibility": self._visibility, **policy})


def test_decisions_of_others_contain_their_teams_and_limits(tmp_path: Path) -> None:
    """As docs/reference/http/access.md says: `why` leaves out teams, whole decisions have them."""
    with _ServerWithVisibility(tmp_path, "members") as server:
        server.furnish()
        why = server.see("zoe", "/datasets/survey/why").json()
        assert {row["team"] for row in why["by_analyst"]} == {None}
        result = server.see("zoe", "/datasets/survey/requests").text
        assert '"scope":"team","name":"red"' in result
        assert '"pace_left"' in result


def test_with_own_visibility_an_analyst_gets_no_largest_grants(tmp_path: Path) -> None:
    with _ServerWithVisibility(tmp_path, "own") as server:
        server.furnish()
        assert server.see("olga", "/datasets/survey/why").json()["largest"]
        # Whether one's own are among the largest of all would tell how large others' are.
        assert not server.see("ana", "/datasets/survey/why").json().get("largest")
