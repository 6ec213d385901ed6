"""The manifests fit what they start: settings, ports, paths, names, and the image."""

from __future__ import annotations

from pathlib import Path

import yaml

from streams.settings import PREFIX, Settings
from streams.worker.app import STOP_S

ROOT = Path(__file__).parents[2]
WHERE = ROOT / "deploy/kubernetes"
OBJECTS = {
    found["kind"]: found
    for file in sorted(WHERE.glob("*.yaml"))
    for found in yaml.safe_load_all(file.read_text())
}
SET = OBJECTS["StatefulSet"]["spec"]
POD = SET["template"]["spec"]
LABELS = SET["template"]["metadata"]["labels"]
(WORKER,) = POD["containers"]
SETTINGS = OBJECTS["ConfigMap"]["data"]


def test_there_is_one_object_of_each_kind_and_no_gateway():
    count = sum(len(list(yaml.safe_load_all(f.read_text()))) for f in WHERE.glob("*.yaml"))
    kinds = {
        "ConfigMap": "v1",
        "NetworkPolicy": "networking.k8s.io/v1",
        "PodDisruptionBudget": "policy/v1",
        "Service": "v1",
        "ServiceMonitor": "monitoring.coreos.com/v1",
        "StatefulSet": "apps/v1",
    }
    assert {kind: found["apiVersion"] for kind, found in OBJECTS.items()} == kinds
    assert count == len(kinds)


def test_every_setting_is_known_and_keeps_its_rule():
    assert all(type(value) is str for value in SETTINGS.values())
    given = {name.removeprefix(PREFIX).lower(): value for name, value in SETTINGS.items()}
    settings = Settings(**given)  # an unknown name, or a value that breaks its rule, raises
    assert settings.ledger.kind == "kafka"
    assert SET["replicas"] <= settings.partitions
    (source,) = WORKER["envFrom"]
    assert source["configMapRef"]["name"] == OBJECTS["ConfigMap"]["metadata"]["name"]


def test_a_workers_name_in_the_group_is_its_pods():
    (name,) = WORKER["env"]
    assert name["name"] == f"{PREFIX}INSTANCE_ID"
    assert name["valueFrom"] == {"fieldRef": {"fieldPath": "metadata.name"}}
    assert SET["serviceName"] == OBJECTS["Service"]["metadata"]["name"]
    # Variables of the cluster begin with the name of a service, as those of settings do.
    assert POD["enableServiceLinks"] is False


def test_ports_and_paths_are_the_workers():
    (port,) = WORKER["ports"]
    assert str(port["containerPort"]) == SETTINGS["ACCOUNTANT_METRICS_PORT"]
    (served,) = OBJECTS["Service"]["spec"]["ports"]
    assert (served["port"], served["targetPort"]) == (port["containerPort"], port["name"])
    paths = {p: WORKER[p]["httpGet"] for p in ("startupProbe", "livenessProbe", "readinessProbe")}
    assert {found["port"] for found in paths.values()} == {port["name"]}
    assert paths["livenessProbe"]["path"] == paths["startupProbe"]["path"] == "/healthz"
    assert paths["readinessProbe"]["path"] == "/readyz"
    (endpoint,) = OBJECTS["ServiceMonitor"]["spec"]["endpoints"]
    assert (endpoint["port"], endpoint["path"]) == (served["name"], "/metrics")


def test_every_selector_finds_the_pods_and_the_job_has_the_name_of_the_rules():
    assert OBJECTS["Service"]["spec"]["selector"] == LABELS
    assert OBJECTS["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"] == LABELS
    for kind in ("StatefulSet", "PodDisruptionBudget", "ServiceMonitor"):
        assert OBJECTS[kind]["spec"]["selector"]["matchLabels"] == LABELS
    assert OBJECTS["Service"]["metadata"]["labels"] == LABELS
    job = LABELS[OBJECTS["ServiceMonitor"]["spec"]["jobLabel"]]
    prometheus = yaml.safe_load((ROOT / "deploy/prometheus/prometheus.yml").read_text())
    assert job in {found["job_name"] for found in prometheus["scrape_configs"]}


def test_the_network_lets_in_metrics_and_out_kafka_and_names():
    spec = OBJECTS["NetworkPolicy"]["spec"]
    assert spec["policyTypes"] == ["Ingress", "Egress"]
    (entry,) = spec["ingress"]
    assert [port["port"] for port in entry["ports"]] == ["metrics"]
    assert entry["from"]
    brokers = SETTINGS["ACCOUNTANT_URL"].removeprefix("kafka://").split(",")
    ports = {int(broker.rpartition(":")[2]) for broker in brokers}
    out = {port["port"] for rule in spec["egress"] for port in rule["ports"]}
    assert out == ports | {53}
    assert all(rule["to"] for rule in spec["egress"])


def test_a_worker_runs_as_the_image_has_it_and_has_time_to_stop():
    dockerfile = (ROOT / "Dockerfile").read_text()
    context = POD["securityContext"]
    assert f"USER {context['runAsUser']}" in dockerfile
    assert context["runAsNonRoot"] is True
    inner = WORKER["securityContext"]
    assert inner["readOnlyRootFilesystem"] is True
    assert (inner["allowPrivilegeEscalation"], inner["capabilities"]) == (False, {"drop": ["ALL"]})
    assert POD["terminationGracePeriodSeconds"] > STOP_S
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    assert WORKER["image"] == compose["x-accountant"]["image"]
    assert OBJECTS["PodDisruptionBudget"]["spec"]["maxUnavailable"] == 1
