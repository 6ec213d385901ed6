"""The compose file matches its programs: files, ports, addresses, checks, and the profiles."""

from __future__ import annotations

import json
import re
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from accountant.questions import Schema
from streams.settings import PREFIX, Settings
from streams.sources.source_settings import read_source_settings
from streams.tasks.stop_limit import LIMIT_S
from streams.testing.kafka_install import DEFAULT_KAFKA_VERSION
from tests.deploy.compose_stack import (
    DOCKERFILE,
    FILE,
    OURS,
    ROOT,
    SERVICES,
    document,
    inside,
    mounts,
    settings_of,
    volumes,
    workers,
)
from tests.every_case import every_case

OPENS = ("docker-compose.yml", "Dockerfile", "deploy/**", "requirements/*", "tests/rendering/*")

SETUP = {"keys", "users", "acls", "topics"}
ONCE = SETUP | {"load"}


def test_without_a_profile_only_the_services_of_a_trial_start():
    small = {name for name, service in SERVICES.items() if "profiles" not in service}
    assert small == {"kafka", "worker", "gateway"} | SETUP
    assert all(service.get("profiles", ["demo"]) == ["demo"] for service in SERVICES.values())


def test_the_demo_has_every_program_between_a_budget_and_a_webhook():
    wanted = {"worker-2", "curator", "prometheus", "alertmanager", "webhook", "grafana", "load"}
    assert wanted <= set(SERVICES)


def test_a_service_starts_together_with_its_dependencies():
    for name, service in SERVICES.items():
        waits = service.get("depends_on", ())
        for other in waits:
            assert other in SERVICES
            assert "profiles" in service or "profiles" not in SERVICES[other], (name, other)
            if isinstance(waits, dict) and waits[other]["condition"] == "service_healthy":
                assert "healthcheck" in SERVICES[other], other


@every_case("name", sorted(set(SERVICES) - ONCE))
def test_every_service_that_stays_is_checked_and_restarted(name):
    check = SERVICES[name]["healthcheck"]
    assert check["test"][0] in {"CMD", "CMD-SHELL"}
    assert check["retries"] * int(check["interval"].rstrip("s")) <= 180
    assert SERVICES[name]["restart"] == "unless-stopped"


def test_the_gateway_stores_its_index_on_a_volume():
    index = SERVICES["gateway"]["environment"]["ACCOUNTANT_INDEX"]
    ((name, where),) = [(name, where) for name, where, how in volumes("gateway") if not how]
    assert name in FILE["volumes"]
    assert index.startswith(where + "/")
    # The image has this directory, and a new volume gets its owner; the rest is read-only.
    assert f"--home-dir {where} " in DOCKERFILE
    others = [each for each in SERVICES if each != "gateway"]
    assert not any("ACCOUNTANT_INDEX" in SERVICES[each].get("environment", {}) for each in others)


def test_the_curator_alone_has_the_data_and_cannot_change_them():
    data = {name: where for name in SERVICES for here, where in mounts(name) if here.name == "data"}
    assert data == {"curator": "/data"}
    assert "./deploy/compose/data:/data:ro" in SERVICES["curator"]["volumes"]
    settings = settings_of("curator")
    sources = read_source_settings(inside("curator", str(settings.data_sources)))
    assert all(Path(each.path).is_file() for each in sources.values())
    # With authentication a source without them answers nobody.
    assert {name: each.datasets for name, each in sources.items()} == {"census": ("census",)}
    ((_, state),) = [(name, where) for name, where, how in volumes("curator") if not how]
    assert str(settings.data_sources_key).startswith(f"{state}/")
    assert str(settings.data_sources_confirmed).startswith(f"{state}/")
    for name in set(SERVICES) - {"curator"}:
        assert "DATA_SOURCES" not in str(SERVICES[name])


def test_what_a_container_writes_is_bounded_and_it_has_time_to_stop():
    ours = {name for name, each in SERVICES.items() if each["image"].startswith(OURS)}
    for name in ours:
        (temporary,) = SERVICES[name]["tmpfs"]
        assert temporary == ("/tmp:size=2g" if name == "curator" else "/tmp:size=64m"), name
        assert float(SERVICES[name]["stop_grace_period"].rstrip("s")) > LIMIT_S
    path = inside("curator", str(settings_of("curator").data_sources))
    spill_mb = sum(each.spill_mb for each in read_source_settings(path).values())
    assert spill_mb * settings_of("curator").curator_parallel <= 2_000
    # Their copy of the answers' topic lies on a volume.
    for name in "gateway", "curator":
        writable = [where for _, where, how in volumes(name) if not how]
        assert writable == [SERVICES[name]["environment"]["SQLITE_TMPDIR"]]


def test_the_schema_of_the_data_is_one_that_a_dataset_may_have():
    schema = inside("curator", "/data/census.schema.json").read_bytes()
    assert msgspec.json.decode(schema, type=Schema).source.name == "census"


def test_only_the_curators_image_has_what_answers_need():
    stages = re.findall(r"^FROM (\S+)(?: AS (\S+))?$", DOCKERFILE, re.MULTILINE)
    assert SERVICES["curator"]["build"]["target"] in {name for _, name in stages}
    # Without a target Docker builds the last stage.
    assert stages[-1] == ("base", "")
    assert DOCKERFILE.rstrip().endswith("COPY --from=build /opt/accountant /opt/accountant")
    images = {name: SERVICES[name]["image"] for name in SERVICES}
    assert [name for name in images if "-curator:" in images[name]] == ["curator"]


@every_case("lock", ["runtime", "curator"])
def test_the_locked_packages_of_an_image_have_the_extras_of_its_commands(lock):
    locked = (ROOT / "requirements" / f"{lock}.txt").read_text()
    for package in "duckdb", "opendp":
        assert (re.search(rf"^{package}==", locked, re.MULTILINE) is not None) == (
            lock == "curator"
        )


@every_case("name", sorted(set(SERVICES)))
def test_no_service_runs_as_root(name):
    service = SERVICES[name]
    if service["image"].startswith(OURS):
        assert "USER 10001" in DOCKERFILE
        assert service["read_only"] is True
    else:
        assert str(service["user"]).split(":")[0] not in {"", "0", "root"}
    assert name == "kafka" or service["cap_drop"] == ["ALL"]


def test_the_broker_is_the_one_that_the_tests_run_on():
    assert SERVICES["kafka"]["image"] == f"apache/kafka:{DEFAULT_KAFKA_VERSION}"


def test_every_setting_exists():
    known = {f"{PREFIX}{name.upper()}" for name in Settings.model_fields}
    for name, service in SERVICES.items():
        for variable in service.get("environment", {}):
            if variable.startswith(PREFIX):
                assert variable in known, f"{name}: {variable}"


def test_workers_have_different_names():
    names = [SERVICES[worker]["environment"]["ACCOUNTANT_INSTANCE_ID"] for worker in workers()]
    assert len(set(names)) == len(names) == 2


def test_no_port_is_published_twice():
    published = [port for service in SERVICES.values() for port in service.get("ports", ())]
    outside = [port.rsplit(":", 1)[0] for port in published]
    assert len(set(outside)) == len(outside)


def test_every_file_that_is_mounted_is_in_the_repository():
    for name in SERVICES:
        for here, _ in mounts(name):
            assert here.is_dir(), f"{name}: {here}"


def test_prometheus_scrapes_every_process_and_alerts_alertmanager():
    settings = document("deploy/prometheus/prometheus.yml")
    jobs = {job["job_name"]: job for job in settings["scrape_configs"]}
    for name, job in jobs.items():
        assert job["scheme"] == "https"
        assert set(job["tls_config"]) == {"ca_file"}
        if not name.endswith("-probe"):
            assert set(job["authorization"]) == {"credentials_file"}
            probe = jobs[f"{name}-probe"]
            assert probe["metrics_path"] == "/healthz/metrics"
            assert "authorization" not in probe
            assert probe["static_configs"] == job["static_configs"]
    targets = {
        target
        for job in settings["scrape_configs"]
        for static in job["static_configs"]
        for target in static["targets"]
    }
    assert targets == {*(f"{worker}:8001" for worker in workers()), "gateway:8000", "curator:8001"}
    targets = settings["alerting"]["alertmanagers"][0]["static_configs"][0]["targets"]
    assert targets == ["alertmanager:9093"]
    command = SERVICES["prometheus"]["command"]
    assert inside("prometheus", option(command, "--config.file")).is_file()


def option(command, name):
    (value,) = [word.split("=", 1)[1] for word in command if word.startswith(f"{name}=")]
    return value


def test_alertmanager_delivers_to_the_webhook_of_the_demo():
    settings = document("deploy/alertmanager/alertmanager.yml")
    urls = [
        urlsplit(hook["url"])
        for receiver in settings["receivers"]
        for hook in receiver.get("webhook_configs", ())
    ]
    assert urls
    assert {url.hostname for url in urls} == {"webhook"}
    assert {url.port for url in urls} == {9095}
    assert inside("webhook", SERVICES["webhook"]["entrypoint"][1]).is_file()
    command = SERVICES["alertmanager"]["command"]
    assert inside("alertmanager", option(command, "--config.file")).is_file()


def test_grafana_finds_its_data_source_and_its_dashboards():
    environment = SERVICES["grafana"]["environment"]
    (source,) = document("deploy/grafana/provisioning/datasources/prometheus.yml")["datasources"]
    assert source["url"] == "${PROMETHEUS_URL}"
    assert environment["PROMETHEUS_URL"] == "http://prometheus:9090"
    assert source["type"] == "prometheus"
    scrape = document("deploy/prometheus/prometheus.yml")["global"]["scrape_interval"]
    assert source["jsonData"]["timeInterval"] == scrape
    image = SERVICES["prometheus"]["image"]
    assert image == f"prom/prometheus:v{source['jsonData']['prometheusVersion']}"

    (provider,) = document("deploy/grafana/provisioning/dashboards/accountant.yml")["providers"]
    boards = inside("grafana", provider["options"]["path"])
    assert {path.stem for path in boards.glob("*.json")} == {"overview", "dataset", "service"}
    home = inside("grafana", environment["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"])
    assert home.is_file()
    assert provider["allowUiUpdates"] is False
    assert inside("grafana", "/etc/grafana/provisioning").is_dir()


def test_grafana_allows_everyone_to_view_and_no_one_to_edit():
    environment = SERVICES["grafana"]["environment"]
    assert environment["GF_AUTH_ANONYMOUS_ORG_ROLE"] == "Viewer"
    assert environment["GF_SECURITY_DISABLE_INITIAL_ADMIN_CREATION"] == "true"
    assert not [name for name in environment if "PASSWORD" in name]


def test_grafana_has_the_version_of_the_components_that_render_the_pictures():
    drawn = json.loads((ROOT / "tests" / "rendering" / "package.json").read_text("utf-8"))
    versions = drawn["dependencies"]
    assert SERVICES["grafana"]["image"] == f"grafana/grafana:{versions['@grafana/ui']}"
    for name, version in versions.items():
        assert re.fullmatch(r"\d+\.\d+\.\d+", version), f"{name} has no exact version"


def test_no_lock_file_of_npm_names_its_registry():
    rendering = ROOT / "tests" / "rendering"
    assert "package-lock=false" in (rendering / ".npmrc").read_text(encoding="utf-8")
    assert not list(rendering.glob("*lock*"))
