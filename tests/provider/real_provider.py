"""A certified OpenID provider from npm, as a process that can be killed and started anew."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx

_HERE = Path(__file__).parent


def modules() -> Path:
    """Return the directory where the provider is installed; it is, the first time."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    directory = cache / "streaming-privacy-accountant" / "provider"
    wanted = (_HERE / "package.json").read_bytes()
    done = directory / "installed.json"
    if not done.exists() or done.read_bytes() != wanted:
        directory.mkdir(parents=True, exist_ok=True)
        for name in ("package.json", ".npmrc"):
            shutil.copy(_HERE / name, directory / name)
        command = ["npm", "install", "--ignore-scripts", "--no-package-lock", "--loglevel=error"]
        subprocess.run(command, cwd=directory, check=True, stdout=subprocess.DEVNULL)
        done.write_bytes(wanted)
    return directory


class RealProvider:
    """Gives tokens to programs; makes new keys at each start."""

    def __init__(self, *names: str) -> None:
        self._names = names
        with socket.create_server(("127.0.0.1", 0)) as taken:
            self._port = taken.getsockname()[1]
        self.issuer = f"http://127.0.0.1:{self._port}"
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        directory = modules()
        program = shutil.copy(_HERE / "provider.mjs", directory / "provider.mjs")
        self._process = subprocess.Popen(
            ["node", str(program), str(self._port), *self._names],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline().strip() == self.issuer

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def token(self, name: str, resource: str = "urn:accountant") -> str:
        """Return what the provider gives to a program that shows its secret."""
        form = {
            "grant_type": "client_credentials",
            "client_id": name,
            "client_secret": f"secret of {name}",
            "resource": resource,
        }
        answer = httpx.post(f"{self.issuer}/token", data=form, trust_env=False)
        assert answer.status_code == 200, answer.text
        token: str = answer.json()["access_token"]
        return token

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _t: TracebackType | None,
    ) -> None:
        self.kill()
