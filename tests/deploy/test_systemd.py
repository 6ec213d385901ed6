"""The units of systemd start the roles of the program, with settings that these accept."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from streams.settings import PREFIX, load_server
from streams.tasks.stop_limit import LIMIT_S
from tests.deploy.units import (
    ON_KAFKA,
    PROGRAM,
    READS_DATA,
    ROLES,
    ROOT,
    WHERE,
    commands,
    environment_of,
    settings_of,
    unit_of,
)
from tests.docs.typed import command_of, without_unit
from tests.every_case import every_case

OPENS = ("deploy/systemd/*", "docs/how-to/*.md", "Dockerfile")

# The score of `systemd-analyze security`, times ten: 0 is locked down, 100 is not confined.
MOST_EXPOSED = 20
DIRECTIVES = frozenset(
    (
        *("After", "CapabilityBoundingSet", "Description", "DynamicUser", "Environment"),
        *("EnvironmentFile", "ExecStart", "LimitNOFILE", "LockPersonality", "MemoryMax"),
        *("NoNewPrivileges", "PrivateDevices", "PrivateTmp", "ProtectClock"),
        *("ProtectControlGroups", "ProtectHome", "ProtectHostname", "ProtectKernelLogs"),
        *("ProtectKernelModules", "ProtectKernelTunables", "ProtectProc", "ProtectSystem"),
        *("ReadOnlyPaths", "Restart", "RestartPreventExitStatus", "RestartSec"),
        *("RestrictAddressFamilies", "RestrictNamespaces", "RestrictRealtime"),
        *("RestrictSUIDSGID", "StateDirectory", "StateDirectoryMode"),
        *("SystemCallArchitectures", "SystemCallFilter"),
        *("TimeoutStopSec", "Type", "UMask", "WantedBy", "Wants", "WorkingDirectory"),
    )
)
"""Directives whose names and values systemd 252 accepts in these units."""
role = every_case("role", ROLES)


def test_every_role_has_a_unit():
    until_a_signal = [
        name for name, each in commands().items() if "until SIGTERM" in str(each.help)
    ]
    assert {*ROLES} == {*until_a_signal} == ON_KAFKA | {"serve"}
    assert {unit.name for unit in WHERE.glob("*.service")} == {
        f"accountant-{each}.service" for each in ROLES
    }
    assert {file.stem for file in WHERE.glob("*.env")} == {*ROLES, "kafka"}


@role
@pytest.mark.parametrize("examples", [False, True], ids=["alone", "with the examples"])
def test_a_unit_starts_its_role_with_settings_that_it_accepts(role, examples, monkeypatch):
    start = shlex.split(unit_of(role).one("ExecStart"))
    assert start == [PROGRAM, role]
    for name, value in environment_of(role, examples=examples).items():
        monkeypatch.setenv(name, value)
    parsed = commands()[role].make_context(role, start[2:])
    settings = load_server(url=parsed.params["url"])  # an unknown name, or an invalid value, raises
    assert settings.ledger.kind == ("kafka" if role in ON_KAFKA else "sqlite")
    assert settings.authenticates == examples
    assert settings.kafka_uses_sasl == settings.kafka_uses_tls == (examples and role in ON_KAFKA)
    assert settings.kafka_username == (f"accountant-{role}" if settings.kafka_uses_sasl else None)
    assert settings.log_format == "json"
    assert settings.probe_port


@role
def test_a_unit_has_no_secret_and_reads_the_settings_of_its_machine(role):
    unit = unit_of(role)
    files = [f"-/etc/accountant/{role}.env"]
    if role in ON_KAFKA:
        files.insert(0, "-/etc/accountant/kafka.env")
    assert unit["EnvironmentFile"] == files
    for name in environment_of(role, examples=True):
        assert not name.endswith(("PASSWORD", "TOKEN", "SECRET", "AUTHORIZATION")), name


@role
def test_a_unit_is_confined_as_all_others_are(role):
    text = (WHERE / f"accountant-{role}.service").read_text()
    hardening = text[text.index("\nNoNewPrivileges=") :]
    other = (WHERE / "accountant-serve.service").read_text()
    assert hardening == other[other.index("\nNoNewPrivileges=") :]
    unit = unit_of(role)
    assert unit.one("DynamicUser") == "yes"
    assert unit.one("ProtectSystem") == "strict"
    assert unit.one("CapabilityBoundingSet") == ""
    assert unit.one("UMask") == "0077"
    assert unit.one("Restart") == "on-failure"
    assert unit.one("RestartPreventExitStatus") == "2 4"
    # The process ends by itself before systemd kills it.
    assert int(unit.one("TimeoutStopSec")) > LIMIT_S + 10
    # What it writes lies in its own directory.
    states = [f"/var/lib/{each}/" for each in unit.get("StateDirectory", ())]
    written = {"INDEX", "CHECKPOINTS", "DATA_SOURCES_KEY", "DATA_SOURCES_CONFIRMED"}
    paths = [unit.environment.get(f"{PREFIX}{name}", "") for name in written]
    if role == "serve":
        paths.append(unit.environment[f"{PREFIX}URL"].removeprefix("sqlite:///"))
    assert all(path.startswith(state) for path in paths if path for state in states)
    assert bool(states) == any(paths)


@role
def test_who_reads_data_cannot_change_them_and_spills_into_a_place_of_its_own(role):
    unit = unit_of(role)
    variables = environment_of(role, examples=True)
    sources = variables.get(f"{PREFIX}DATA_SOURCES", "")
    assert bool(sources) == (role in READS_DATA)
    if role not in READS_DATA:
        assert "TMPDIR" not in variables
        return
    assert unit.one("ReadOnlyPaths").removeprefix("-") == str(Path(sources).parent)
    # A directory of the service's own, which is removed with it; `spill_mb` bounds what is in it.
    assert variables["TMPDIR"] == "/var/tmp"
    assert unit.one("PrivateTmp") == "yes"
    assert unit.one("MemoryMax") == "4G"


def test_roles_on_one_machine_have_different_ports():
    ports = [
        value
        for each in ON_KAFKA
        for name, value in unit_of(each).environment.items()
        if name.endswith("_PORT")
    ]
    assert len(set(ports)) == len(ports) == 6


def test_the_page_has_every_unit_and_every_file_of_an_example():
    page = (ROOT / "docs/how-to/systemd.md").read_text()
    for each in ROLES:
        assert f"`accountant-{each}`" in page
        for value in environment_of(each, examples=True).values():
            if value.startswith("/etc/accountant/"):
                assert Path(value).name in page, value


def test_the_page_makes_topics_with_the_settings_of_the_workers():
    page = (ROOT / "docs/how-to/systemd.md").read_text()
    (line,) = (each for each in page.splitlines() if each.endswith("accountant topics create"))
    made = command_of(without_unit(line)).variables
    workers = environment_of("worker", examples=True)
    for name in ("PARTITIONS", "REPLICATION", "APPLICATION", "URL"):
        assert made[f"{PREFIX}{name}"] == workers[f"{PREFIX}{name}"]


@role
def test_a_command_gets_the_addresses_of_a_unit_from_its_files_alone(role):
    unit, of_files = unit_of(role), settings_of(role)
    names = {"URL", "CHECKPOINTS", "DATA_SOURCES", "DATA_SOURCES_KEY", "DATA_SOURCES_CONFIRMED"}
    for name in {f"{PREFIX}{each}" for each in names} & unit.environment.keys():
        assert name in of_files
        if role not in ON_KAFKA or not name.endswith("_URL"):
            assert of_files[name] == unit.environment[name]


def test_the_page_has_what_differs_between_the_curator_and_serve():
    page = (ROOT / "docs/how-to/systemd.md").read_text()
    (row,) = re.findall(r"^\| serve, with questions \| .*", page, re.MULTILINE)
    of_serve = {Path(each).name for each in settings_of("serve").values()}
    for value in settings_of("curator").values():
        if value.startswith("/etc/accountant/") and Path(value).name not in of_serve:
            assert f"`{Path(value).name}`" in row
    assert f"`/var/lib/{unit_of('serve').one('StateDirectory')}`" in row


def test_the_page_installs_the_versions_of_the_image():
    page = (ROOT / "docs/how-to/systemd.md").read_text()
    image = (ROOT / "Dockerfile").read_text()
    named = re.findall(r"-r (requirements/\w+\.txt)", page)
    assert named
    for each in named:
        assert f"-r {each}" in image


@role
def test_the_backup_page_names_every_file_that_a_role_writes_or_cannot_make_again(role):
    page = (ROOT / "docs/how-to/backup-and-restore.md").read_text()
    section = page.partition("## What to back up\n")[2].partition("\n## ")[0]
    for name, value in environment_of(role, examples=True).items():
        if "/var/lib/" in value or name == f"{PREFIX}TOKENS":
            assert f"`{name}`" in section, name


def test_a_worker_may_write_the_checkpoints_of_its_example():
    text = (WHERE / "worker.env").read_text()
    (path,) = re.findall(r"^#ACCOUNTANT_CHECKPOINTS=(\S+)$", text, re.MULTILINE)
    assert f"#   ReadWritePaths={path}\n" in text


@pytest.mark.parametrize("role", ["serve", "curator"])
def test_a_command_of_the_page_runs_as_the_unit(role):
    page = (ROOT / "docs/how-to/systemd.md").read_text()
    (line,) = (each for each in page.splitlines() if f"--property=User=accountant-{role} " in each)
    unit = unit_of(role)
    for name in ("DynamicUser", "StateDirectory", "StateDirectoryMode", "UMask"):
        assert f"--property={name}={unit.one(name)} " in line


@pytest.mark.parametrize("role", ROLES)
def test_systemd_accepts_every_line_of_a_unit(role, tmp_path):
    verify = shutil.which("systemd-analyze")
    unit = tmp_path / f"accountant-{role}.service"
    text = (WHERE / unit.name).read_text()
    if verify is None:
        # Without systemd: every directive is one that the units had when systemd judged them.
        assert set(unit_of(role)) <= DIRECTIVES
        return
    unit.write_text(text.replace(PROGRAM, shutil.which("true") or "/bin/true"))
    done = subprocess.run([verify, "verify", "--man=no", unit], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    exposed = ["security", "--offline=yes", f"--threshold={MOST_EXPOSED}", "--no-pager", unit]
    done = subprocess.run([verify, *exposed], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-200:] + done.stderr
    assert set(unit_of(role)) <= DIRECTIVES
