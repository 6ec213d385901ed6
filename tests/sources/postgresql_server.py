"""A PostgreSQL of the tests' own, on the loopback address, in a temporary directory."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import psycopg

from streams.sources.source_settings import PostgresqlSource
from tests.patience import PATIENCE_S

OPENS = ()
STARTS = ()

PASSWORD: Final = "pw-4111-secret"
"""Of the user `reader`, who may read each table that is made later."""
_USERS: Final = ("postgres", "nobody")
"""Who runs the server where the tests run as root: it refuses root."""


class PostgresqlServer:
    """Starts a server and makes the user `reader`; stops it, and removes its directory.

    Args:
        programs: the directory of `initdb` and `postgres`.
    """

    def __init__(self, programs: Path) -> None:
        self._programs = programs
        self._directory = Path(tempfile.mkdtemp(prefix="postgresql-"))
        self._user = _other_user() if os.geteuid() == 0 else None
        if self._user is not None:
            shutil.chown(self._directory, self._user)
        self.port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        try:
            data, password = self._directory / "data", self._directory / "password"
            password.write_text(PASSWORD)
            password.chmod(0o644)
            self._started(
                *("initdb", f"--pgdata={data}", "--username=owner", f"--pwfile={password}"),
                *("--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-sync"),
            ).wait(PATIENCE_S)
            self.start()
            self.run(f"CREATE ROLE reader LOGIN PASSWORD '{PASSWORD}'")
            self.run("ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO reader")
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._remove()

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        settings = {
            "port": self.port,
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "fsync": "off",
            "log_min_messages": "panic",
        }
        options = [f"-c{name}={value}" for name, value in settings.items()]
        self._process = self._started("postgres", f"-D{self._directory / 'data'}", *options)
        while True:
            try:
                self.connect().close()
            except psycopg.OperationalError:
                code = self._process.poll()
                assert code is None, f"the server has ended with {code}"
                continue
            return

    def stop(self) -> None:
        """Stop the server at once."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(PATIENCE_S)
            self._process = None

    def connect(self, database: str = "postgres") -> psycopg.Connection[tuple[Any, ...]]:
        """Return a connection of the owner, each of whose statements is committed."""
        return psycopg.connect(self.address(database, "owner"), autocommit=True)

    def address(self, database: str = "postgres", user: str = "reader") -> str:
        """Return libpq's text of a connection."""
        return (
            f"host=127.0.0.1 port={self.port} dbname={database} user={user} password={PASSWORD} "
            f"connect_timeout={int(PATIENCE_S)}"
        )

    def run(self, *statements: str, database: str = "postgres") -> None:
        """Run statements as the owner."""
        with self.connect(database) as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def backends(self) -> list[int]:
        """Return the numbers of the processes that serve the reader."""
        with self.connect() as connection:
            rows: Iterable[tuple[int]] = connection.execute(
                "SELECT pid FROM pg_stat_activity WHERE usename = 'reader'"
            ).fetchall()
        return [pid for (pid,) in rows]

    def source(self, directory: Path, table: str, **fields: Any) -> PostgresqlSource:
        """Return the settings of a table as the reader reads it."""
        file = directory / "connection.txt"
        file.touch(mode=0o600)
        file.write_text(self.address())
        return PostgresqlSource(connection_file=str(file), table=table, **fields)

    def _started(self, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [str(self._programs / program), *arguments],
            cwd=self._directory,
            user=self._user,
            group=None if self._user is None else pwd.getpwnam(self._user).pw_gid,
            extra_groups=None if self._user is None else [],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )

    def _remove(self) -> None:
        self.stop()
        shutil.rmtree(self._directory, ignore_errors=True)


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def _other_user() -> str:
    names = {each.pw_name for each in pwd.getpwall()}
    return next(name for name in _USERS if name in names)
