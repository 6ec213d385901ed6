"""docker-compose.yml as tests look at it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from streams.settings import PREFIX, Settings

OPENS = ("docker-compose.yml", "Dockerfile", "deploy/**")

ROOT = Path(__file__).parents[2]
FILE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
SERVICES: dict[str, Any] = FILE["services"]
OURS = "streaming-privacy-accountant"
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")


class ComposeStack(NamedTuple):
    """A broker with its users, and the keys of its clients.

    Attributes:
        home: the volumes of the keys, as a first start leaves them.
        internal, clients: the ports of the broker's listeners.
    """

    home: Path
    internal: int
    clients: int

    def here(self, text: str) -> str:
        """Return a setting of a container with the paths and addresses of this machine."""
        text = text.replace("kafka:9092", f"127.0.0.1:{self.clients}")
        text = text.replace("127.0.0.1:9094", f"127.0.0.1:{self.internal}")
        return text.replace("/etc/accountant", str(self.home))

    def environment(self, service: Mapping[str, object], **more: str) -> dict[str, str]:
        """Return the environment of a container, adapted to a local process."""
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("ACCOUNTANT_")}
        variables = dict(service["environment"])  # type: ignore[call-overload]
        return inherited | {name: self.here(str(value)) for name, value in variables.items()} | more


def document(path: str) -> Any:
    """Return the content of a file of the repository."""
    return yaml.safe_load((ROOT / path).read_text(encoding="utf-8"))


def mounts(service: str) -> Iterator[tuple[Path, str]]:
    """The files of this repository in a container: (local path, path in the container)."""
    for volume in SERVICES[service].get("volumes", ()):
        here, there, *_ = volume.split(":")
        if here.startswith("./"):
            yield ROOT / here, there


def inside(service: str, path: str) -> Path:
    """Return the file of this repository that a container sees at a path."""
    for here, there in mounts(service):
        if path == there or path.startswith(there + "/"):
            return here / path[len(there) :].lstrip("/")
    raise AssertionError(f"{service} has nothing of ours at {path}")


def volumes(service: str) -> Iterator[tuple[str, str, list[str]]]:
    """The volumes of a container: name, path in it, mode."""
    for volume in SERVICES[service].get("volumes", ()):
        name, where, *how = volume.split(":")
        if not name.startswith("./"):
            yield name, where, how


def workers() -> list[str]:
    """The services that are workers."""
    return [name for name, service in SERVICES.items() if service.get("command") == ["worker"]]


def settings_of(service: str) -> Settings:
    """Return the settings of a container; unknown or invalid ones raise."""
    variables = {
        name.removeprefix(PREFIX).lower(): value
        for name, value in SERVICES[service]["environment"].items()
        if name.startswith(PREFIX)
    }
    return Settings(**variables)


def listeners() -> dict[str, str]:
    """Return the broker's advertised addresses, by listener."""
    listeners = SERVICES["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"].split(",")
    return dict(each.split("://") for each in listeners)


def broker_properties() -> dict[str, str]:
    """Return the settings that the broker's image makes of its environment, without `log.dirs`."""
    found = {}
    for name, value in SERVICES["kafka"]["environment"].items():
        if name.startswith("KAFKA_") and name != "KAFKA_LOG_DIRS":
            key = name.removeprefix("KAFKA_").lower().replace("_", ".")
            found[key.replace("...", "-").replace("..", "_")] = value
    return found
