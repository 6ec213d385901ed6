"""A real `serve` with authentication, and the commands of each caller."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from tests.patience import PATIENCE_S
from tests.streams.cli.conftest import Command, Done, environment

NAMES = ("root", "olga", "otto", "ana", "ben", "eng", "aud")


class AuthenticatedServer:
    """`serve` before `accountant.db`; `root` is the administrator.

    Attributes:
        url: where it listens.
        tokens: by name.
        log: what it has logged, once it has ended.
    """

    log = ""

    def __init__(self, command: Command, url: str, tokens: dict[str, str]) -> None:
        self._command = command
        self.url = url
        self.tokens = tokens

    def by(self, name: str, *arguments: str, **more: str) -> Done:
        """Run a command with somebody's token, without saying where the ledger is."""
        return self._command(*arguments, ACCOUNTANT_TOKEN=self.tokens[name], **more)

    def done(self, name: str, *arguments: str) -> Done:
        """Run a command that must succeed."""
        found = self.by(name, *arguments)
        assert found.code == 0, found.err + found.out
        return found


@contextlib.contextmanager
def authenticated_server(command: Command) -> Iterator[AuthenticatedServer]:
    """Start it, with a token for each of `NAMES`."""
    file = ("--tokens", "tokens.json")
    tokens = {
        name: command("token", "create", "--name", name, *file, "--json").json["token"]
        for name in NAMES
    }
    known = {"ACCOUNTANT_TOKENS": "tokens.json", "ACCOUNTANT_ADMINISTRATORS": "root"}
    process = command.start("serve", "--port", "0", env=environment(**known))
    made = AuthenticatedServer(command, "", tokens)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("listening at "), line + process.communicate()[1]
        made.url = line.split()[-1]
        yield made
    finally:
        process.terminate()
        _, error = process.communicate(timeout=PATIENCE_S)
        made.log = error
        assert not any(token in error for token in tokens.values())
