"""docker-compose.yml as tests look at it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from streams.settings import PREFIX, Settings

ROOT = Path(__file__).parents[2]
FILE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
SERVICES: dict[str, Any] = FILE["services"]
OURS = "streaming-privacy-accountant:"
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")


def document(path: str) -> Any:
    """Return what a file of the repository holds."""
    return yaml.safe_load((ROOT / path).read_text(encoding="utf-8"))


def mounts(service: str) -> Iterator[tuple[Path, str]]:
    """The files of this repository in a container: (path here, path there)."""
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
    """The volumes of a container: name, path there, how."""
    for volume in SERVICES[service].get("volumes", ()):
        name, where, *how = volume.split(":")
        if not name.startswith("./"):
            yield name, where, how


def workers() -> list[str]:
    """The services that are workers."""
    return [name for name, service in SERVICES.items() if service.get("command") == ["worker"]]


def settings_of(service: str) -> Settings:
    """Return the settings of a container; what is unknown or breaks a rule raises."""
    given = {
        name.removeprefix(PREFIX).lower(): value
        for name, value in SERVICES[service]["environment"].items()
        if name.startswith(PREFIX)
    }
    return Settings(**given)


def listeners() -> dict[str, str]:
    """Return the addresses that the broker tells its clients, by listener."""
    told = SERVICES["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"].split(",")
    return dict(each.split("://") for each in told)
