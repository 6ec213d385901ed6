"""A server with roles, on whose datasets ana, ben, and eng for ana ask a question."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from streams.server.app import Pages
from tests.streams.auth.roles_server import KINDS, RolesServer
from tests.streams.gateway.asking import asking, data_settings, opening_with_schema

DATASETS: Final = (*KINDS, "elsewhere", "hidden", "survey")
"""The datasets that the file of sources names for the data."""
_WAIT: Final = {"prefer": "wait=30"}


class AnsweringRoles(RolesServer):
    """A `RolesServer` whose datasets have a schema, and data.

    Attributes:
        asked: the id of each question, by dataset and sender.
    """

    def __init__(self, directory: Path, *, pages: Pages | None = None) -> None:
        settings = data_settings(directory, datasets=DATASETS)
        super().__init__(directory, settings=settings, pages=pages)
        self.asked = dict[tuple[str, str], str]()

    def open_for_olga(self, dataset: str, **policy: object) -> None:
        policy = {"epsilon": "100", "population": "people", "access": "anyone", **policy}
        body = opening_with_schema(self.clock, dataset, **policy)
        self.done("root", "/datasets?new=true", body | {"by": "root", "owners": ["olga"]}, "opened")

    def ask_all(self, dataset: str) -> None:
        """Ask, and wait for the answers."""
        for sender, analyst in (("ana", "ana"), ("eng", "ana"), ("ben", "ben")):
            more = {} if sender == analyst else {"via": sender}
            body = asking(self.clock, dataset, analyst, **more)
            self.done(sender, "/requests", body, "granted")
            self.asked[dataset, sender] = body["request_id"]
            path = f"/answers/{body['request_id']}?dataset={dataset}&analyst={analyst}"
            answer = self.http.get(path, headers=self.auth_headers("olga") | _WAIT)
            assert answer.status_code == 200, answer.text
