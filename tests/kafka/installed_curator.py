"""A curator as its systemd unit starts it: with the command and the settings of deploy/systemd."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path
from typing import Final

from streams.auth.token_file import create
from tests.deploy.units import PROGRAM, environment_of, unit_of
from tests.kafka.secured_ledger import SecuredLedger
from tests.streams.curator.curated import SCHEMA, write_data

OPENS = ("deploy/systemd/*",)

_ROLE: Final = "curator"
_SECRETS: Final = "/etc/accountant/curator"


class InstalledCurator:
    """The files of the steps of docs/how-to/systemd.md, below another directory than the root.

    Attributes:
        words: the command of the unit, after the program.
        variables: of the unit and the examples of its files. Paths begin in the directory, and the
            addresses are those of the ledger.
        dataset: what its source is for.
        schema: file of the schema that fits the source.
    """

    dataset = "people"

    def __init__(self, secured: SecuredLedger, directory: Path) -> None:
        program, *self.words = shlex.split(unit_of(_ROLE).one("ExecStart"))
        assert program == PROGRAM
        described = environment_of(_ROLE, examples=True)
        own = secured.variables(_ROLE)
        password, own["ACCOUNTANT_KAFKA_PASSWORD"] = own["ACCOUNTANT_KAFKA_PASSWORD"], ""
        self.variables = {
            name: f"{directory}{value}" if value.startswith("/") else value
            for name, value in described.items()
        }
        for value in described.values():
            if value.startswith("/"):
                Path(f"{directory}{value}").parent.mkdir(parents=True, exist_ok=True)
        Path(self.variables["TMPDIR"]).mkdir()
        # Ports that are free on this machine.
        ports = {name: "0" for name in described if name.endswith("_PORT")}
        self.variables |= own | ports
        self._write_secrets(secured, Path(f"{directory}{_SECRETS}"), password)
        self.schema = directory / "people.schema.json"
        self._write_data(Path(self.variables["ACCOUNTANT_DATA_SOURCES"]))

    def _write_secrets(self, secured: SecuredLedger, where: Path, password: str) -> None:
        for name, content in {"kafka.password": password, "metrics.token": "m" * 64}.items():
            (where / name).touch(mode=0o600)
            (where / name).write_text(content)
        # It has the broker's certificate and its key, for this machine.
        for name in "server.pem", "server.key":
            shutil.copy(secured.broker.security.keystore, where / name)
        create(where / "tokens.json", "olga", now=0)

    def _write_data(self, sources: Path) -> None:
        write_data(sources.with_name("census.csv"))
        source = {"kind": "csv", "path": "census.csv", "datasets": [self.dataset]}
        sources.write_text(json.dumps({"people": source}))
        schema = {**SCHEMA, "source": {"kind": "csv", "name": "people"}}
        self.schema.write_text(json.dumps(schema))
