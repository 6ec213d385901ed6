"""The repository has no private addresses or secrets, and its deployment is secure by default."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import yaml

from tests.every_case import every_case

ROOT = Path(__file__).resolve().parent.parent
# Written apart, so that this file does not hold what it looks for.
REGISTRIES = ("pypi" + ".org", "python" + "hosted.org", "registry" + ".npmjs", "maven" + ".org")
MACHINE_PATHS = re.compile(r"(?<![\w.])/(?:work|root|home/\w+|Users/\w+)/")
SECRETS = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY|AKIA[0-9A-Z]{16}|ghp_[0-9A-Za-z]{36}")


def tracked_texts() -> list[tuple[str, str]]:
    listed = subprocess.run(
        ["git", "ls-files"], check=True, cwd=ROOT, capture_output=True, text=True
    ).stdout.splitlines()
    texts = []
    for name in listed:
        path = ROOT / name
        if path.is_file():
            texts.append((name, path.read_text(encoding="utf-8", errors="replace")))
    return texts


def test_no_registry_address_machine_path_or_secret_is_in_the_repository() -> None:
    found = []
    for name, text in tracked_texts():
        found += [f"{name}: {host}" for host in REGISTRIES if host in text]
        found += [f"{name}: {match[0]}" for match in MACHINE_PATHS.finditer(text)]
        found += [f"{name}: {match[0]}" for match in SECRETS.finditer(text)]
    assert not found


@every_case(
    "lock",
    [
        "build.txt",
        "curator.txt",
        "dev.txt",
        "opacus.txt",
        "peers.txt",
        "runtime.txt",
        "security.txt",
        "smartnoise.txt",
    ],
)
def test_every_locked_package_has_a_hash(lock: str) -> None:
    text = (ROOT / "requirements" / lock).read_text()
    packages = re.findall(r"^([A-Za-z0-9._-]+(?:\[[^\]]*\])?==[^\s;\\]+)", text, re.MULTILINE)
    entries = re.split(r"^(?=[A-Za-z0-9])", text, flags=re.MULTILINE)
    with_hash = [entry for entry in entries if "==" in entry and "--hash=sha256:" in entry]
    assert packages
    assert len(with_hash) == len(packages)


def test_every_locked_package_of_node_has_a_hash_and_no_address() -> None:
    directory = ROOT / "tests" / "provider"
    lock = json.loads((directory / "package-lock.json").read_text())
    wanted = json.loads((directory / "package.json").read_text())["dependencies"]
    packages = {name: each for name, each in lock["packages"].items() if name}
    assert packages
    for name, each in packages.items():
        assert each["integrity"].startswith("sha512-"), name
        assert "resolved" not in each, name
    assert {name: packages[f"node_modules/{name}"]["version"] for name in wanted} == wanted


def compose() -> dict[str, Any]:
    return dict(yaml.safe_load((ROOT / "docker-compose.yml").read_text()))


def test_compose_publishes_on_loopback_only() -> None:
    for name, service in compose()["services"].items():
        for port in service.get("ports", []):
            assert str(port).startswith("127.0.0.1:"), f"{name} publishes {port} to the world"


def test_compose_names_exact_images_and_runs_nothing_privileged() -> None:
    for name, service in compose()["services"].items():
        assert re.search(r":v?\d+\.\d+\.\d+$", service["image"]), f"{name}: {service['image']}"
        assert not service.get("privileged")
        assert "no-new-privileges:true" in service["security_opt"], name


def test_the_image_does_not_run_as_root() -> None:
    users = re.findall(r"^USER (\S+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert users
    assert users[-1] not in {"0", "root"}
