"""The manifests match their programs: settings, ports, paths, names, Secrets, and the image."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import yaml

from streams.settings import PREFIX, Settings
from streams.tasks.stop_limit import LIMIT_S
from tests.deploy.units import ON_KAFKA, READS_DATA, ROLES, commands
from tests.every_case import every_case

OPENS = ("deploy/**", "Dockerfile", "docker-compose.yml", "docs/how-to/kubernetes.md")

ROOT = Path(__file__).parents[2]
WHERE = ROOT / "deploy/kubernetes"
FILES = sorted(WHERE.rglob("*.yaml"))
WORKLOADS = {f"accountant-{role}": "StatefulSet" for role in ROLES}
WORKLOADS["accountant-gateway"] = "Deployment"
OWN_PORT = {"accountant-worker", "accountant-curator"}
FOR_CLIENTS = {"accountant-gateway", "accountant-serve"}
workload = every_case("name", WORKLOADS)


@cache
def objects():
    return {
        (found["kind"], found["metadata"]["name"]): found
        for file in FILES
        for found in yaml.safe_load_all(file.read_text())
    }


def spec(kind, name):
    return objects()[kind, name]["spec"]


def pod(name):
    return spec(WORKLOADS[name], name)["template"]["spec"]


def container(name):
    (found,) = pod(name)["containers"]
    return found


def labels(name):
    return spec(WORKLOADS[name], name)["template"]["metadata"]["labels"]


def environment_of(name):
    """Return the variables of a container, as text."""
    variables = {}
    for source in container(name)["envFrom"]:
        variables |= objects()["ConfigMap", source["configMapRef"]["name"]]["data"]
    own = container(name).get("env", ())
    return variables | {each["name"]: each.get("value", "a-pod-0") for each in own}


def settings_of(name):
    """Return the settings of a container, those of its own included, as text."""
    found = environment_of(name)
    assert {each for each in found if not each.startswith(PREFIX)} <= {"TMPDIR", "SQLITE_TMPDIR"}
    return {each: value for each, value in found.items() if each.startswith(PREFIX)}


def is_on_kafka(name):
    return name.removeprefix("accountant-") in ON_KAFKA


def mounted(name, path):
    """Return the innermost mount with a path, and its volume."""
    mounts = [
        each
        for each in container(name)["volumeMounts"]
        if path == each["mountPath"] or path.startswith(f"{each['mountPath']}/")
    ]
    mount = max(mounts, key=lambda each: len(each["mountPath"]))
    claimed = spec(WORKLOADS[name], name).get("volumeClaimTemplates", ())
    claims = {each["metadata"]["name"]: each for each in claimed}
    volumes = claims | {each["name"]: each for each in pod(name)["volumes"]}
    return mount, volumes[mount["name"]]


def test_there_is_one_object_of_each_kind_and_name():
    count = sum(len(list(yaml.safe_load_all(file.read_text()))) for file in FILES)
    shared = {"NetworkPolicy", "PodDisruptionBudget", "Service", "ServiceMonitor"}
    wanted = {(kind, name) for kind in shared for name in WORKLOADS}
    wanted |= {(kind, name) for name, kind in WORKLOADS.items()}
    maps = {"accountant", "accountant-gateway", "accountant-curator", "accountant-serve"}
    wanted |= {("ConfigMap", name) for name in maps}
    assert set(objects()) == wanted
    assert count == len(wanted)


@workload
def test_every_setting_exists_and_is_valid(name):
    assert all(type(value) is str for value in settings_of(name).values())
    variables = {key.removeprefix(PREFIX).lower(): text for key, text in settings_of(name).items()}
    settings = Settings(**variables)  # an unknown name or an invalid value raises
    assert settings.ledger.kind == ("kafka" if is_on_kafka(name) else "sqlite")
    assert settings.authenticates
    replicas = spec(WORKLOADS[name], name)["replicas"]
    assert replicas <= (
        1 if name.removeprefix("accountant-") in READS_DATA else settings.partitions
    )
    (role,) = container(name)["args"]
    assert name == f"accountant-{role}"
    assert (
        commands()[role].make_context(role, ["--url", settings.url]).params["url"] == settings.url
    )


@workload
def test_servers_and_brokers_have_no_plaintext_connections(name):
    variables = settings_of(name)
    if is_on_kafka(name):
        assert variables["ACCOUNTANT_KAFKA_SECURITY_PROTOCOL"] == "SASL_SSL"
        assert variables["ACCOUNTANT_KAFKA_USERNAME"] == name
        (kafka,) = [each["projected"] for each in pod(name)["volumes"] if each["name"] == "kafka"]
        secrets = [each["secret"]["name"] for each in kafka["sources"]]
        assert secrets == [f"{name}-kafka", "accountant-kafka-ca"]
    (tls,) = [each["secret"] for each in pod(name)["volumes"] if each["name"] == "tls"]
    assert tls["secretName"] == f"{name}-tls"
    assert {"ACCOUNTANT_TLS_CERTIFICATE", "ACCOUNTANT_TLS_KEY"} <= set(variables)
    assert "ACCOUNTANT_UNAUTHENTICATED_BIND" not in variables
    for text in variables, *(each.read_text() for each in FILES):
        assert "ACCOUNTANT_KAFKA_PASSWORD:" not in text
    # Otherwise a provider could issue one of these names to anybody.
    prefix = variables["ACCOUNTANT_TOKEN_PREFIX"]
    assert variables["ACCOUNTANT_ADMINISTRATORS"].startswith(prefix)


@workload
def test_every_file_of_a_setting_is_one_that_the_pod_mounts(name):
    assert len({each["name"] for each in pod(name)["volumes"]}) == len(pod(name)["volumes"])
    files = {}
    for mount in container(name)["volumeMounts"]:
        _, volume = mounted(name, mount["mountPath"])
        secrets = [each["secret"] for each in volume.get("projected", {}).get("sources", ())]
        held = {item["path"] for secret in secrets for item in secret["items"]}
        if "secret" in volume and volume["secret"]["secretName"].endswith("-tls"):
            held = {"tls.crt", "tls.key"}  # of every Secret of the type kubernetes.io/tls
        files[mount["mountPath"]] = held
    for setting, path in settings_of(name).items():
        if not path.startswith("/"):
            continue
        where, _, file = path.rpartition("/")
        if setting.removeprefix(PREFIX) in {"CHECKPOINTS", "INDEX"} or "DATA_SOURCES" in setting:
            continue  # see the test of what a pod writes
        assert where in files, setting
        assert file in files[where]


@workload
def test_only_a_pods_own_user_can_read_its_secrets(name):
    context = pod(name)["securityContext"]
    # A Secret's files are root's: they are read by their group, which is the pod's.
    assert context["fsGroup"] == context["runAsGroup"]
    modes = [
        source["defaultMode"]
        for volume in pod(name)["volumes"]
        for source in (volume.get("secret"), volume.get("projected"))
        if source
    ]
    assert modes == [0o440] * (3 if is_on_kafka(name) else 2)


def test_a_workers_name_in_the_group_is_its_pods():
    name = container("accountant-worker")["env"][0]
    assert name["name"] == f"{PREFIX}INSTANCE_ID"
    assert name["valueFrom"] == {"fieldRef": {"fieldPath": "metadata.name"}}
    service = spec("StatefulSet", "accountant-worker")["serviceName"]
    assert ("Service", service) in objects()


@workload
def test_what_a_pod_writes_lies_in_a_bounded_volume_that_it_may_write(name):
    written = {
        setting: path
        for setting, path in environment_of(name).items()
        if setting in {"TMPDIR", "SQLITE_TMPDIR"}
        or setting.removeprefix(PREFIX)
        in {"INDEX", "CHECKPOINTS", "DATA_SOURCES_KEY", "DATA_SOURCES_CONFIRMED"}
    }
    url = settings_of(name)[f"{PREFIX}URL"]
    if not is_on_kafka(name):
        written["URL"] = url.removeprefix("sqlite:///")
    # A copy of the answers' topic, which /tmp would not hold.
    assert ("SQLITE_TMPDIR" in written) == (name != "accountant-worker")
    for setting, path in written.items():
        mount, volume = mounted(name, path)
        assert not mount.get("readOnly"), setting
        if setting == f"{PREFIX}INDEX":  # each pod has its own, and a new one builds it again
            assert volume["emptyDir"].keys() == {"sizeLimit"}
        elif setting == "TMPDIR":  # a file system that ends with the pod
            assert "storage" in str(volume["ephemeral"]["volumeClaimTemplate"]["spec"])
        elif name != "accountant-gateway":  # the same one at the next start
            assert volume["spec"]["resources"]["requests"]["storage"]
    if "TMPDIR" in written:
        others = {mounted(name, written[each])[0]["name"] for each in written if each != "TMPDIR"}
        assert mounted(name, written["TMPDIR"])[0]["name"] not in others
    for each in pod(name)["volumes"]:
        assert "emptyDir" not in each or "sizeLimit" in each["emptyDir"], each


@workload
def test_only_roles_that_read_data_mount_them_and_they_cannot_change_them(name):
    sources = settings_of(name).get(f"{PREFIX}DATA_SOURCES")
    reads = name.removeprefix("accountant-") in READS_DATA
    assert (sources is not None) == reads
    claims = [each for each in pod(name)["volumes"] if "persistentVolumeClaim" in each]
    if not reads:
        assert claims == []
        return
    mount, volume = mounted(name, sources)
    assert claims == [volume]
    assert mount["readOnly"] is True
    assert volume["persistentVolumeClaim"] == {"claimName": "accountant-data", "readOnly": True}
    # The group may not get rights on the key of the sources at each start: it would be refused.
    assert pod(name)["securityContext"]["fsGroupChangePolicy"] == "OnRootMismatch"
    # Beside two questions of the default size there is room for the program.
    assert container(name)["resources"]["limits"]["memory"] == "4Gi"


@workload
def test_ports_and_probe_paths_match_those_of_the_servers(name):
    port, probed = container(name)["ports"]
    setting = "METRICS_PORT" if name in OWN_PORT else "PORT"
    assert str(port["containerPort"]) == settings_of(name)[f"{PREFIX}{setting}"]
    (served,) = spec("Service", name)["ports"]
    assert served["targetPort"] == port["name"]
    probes = ("startupProbe", "livenessProbe", "readinessProbe")
    paths = {probe: container(name)[probe]["httpGet"] for probe in probes}
    # At a port of their own, which no Service and no policy leads to.
    assert str(probed["containerPort"]) == settings_of(name)[f"{PREFIX}PROBE_PORT"]
    assert {found["port"] for found in paths.values()} == {probed["name"]}
    assert not any("scheme" in found for found in paths.values())
    assert paths["livenessProbe"]["path"] == paths["startupProbe"]["path"] == "/healthz"
    assert paths["readinessProbe"]["path"] == "/readyz"


@workload
def test_prometheus_scrapes_with_tls_and_needs_a_token_for_metrics_alone(name):
    endpoint, probe = spec("ServiceMonitor", name)["endpoints"]
    (served,) = spec("Service", name)["ports"]
    assert (endpoint["port"], endpoint["path"]) == (served["name"], "/metrics")
    assert (probe["port"], probe["path"]) == (served["name"], "/healthz/metrics")
    for each in endpoint, probe:
        assert each["scheme"] == "https"
        assert each["tlsConfig"]["ca"]["secret"]["key"] == "ca.crt"
        # Pods are asked by their addresses, which no certificate has.
        assert each["tlsConfig"]["serverName"] == name
    assert set(endpoint["authorization"]) == {"credentials"}
    assert "authorization" not in probe
    assert probe["relabelings"] == [{"targetLabel": "job", "replacement": f"{name}-probe"}]


@workload
def test_every_selector_finds_the_pods_and_the_job_has_the_name_of_the_rules(name):
    assert spec("Service", name)["selector"] == labels(name)
    assert spec("NetworkPolicy", name)["podSelector"]["matchLabels"] == labels(name)
    for kind in (WORKLOADS[name], "PodDisruptionBudget", "ServiceMonitor"):
        assert spec(kind, name)["selector"]["matchLabels"] == labels(name)
    assert objects()["Service", name]["metadata"]["labels"] == labels(name)
    assert spec("PodDisruptionBudget", name)["maxUnavailable"] == 1
    job = labels(name)[spec("ServiceMonitor", name)["jobLabel"]]
    # That of a ledger in a file is there as a comment.
    prometheus = (ROOT / "deploy/prometheus/prometheus.yml").read_text()
    assert {job, f"{job}-probe"} <= set(re.findall(r"job_name: (\S+)", prometheus))


@workload
def test_the_network_allows_only_the_named_sources_and_the_destinations_of_the_settings(name):
    policy = spec("NetworkPolicy", name)
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    (entry,) = policy["ingress"]
    port, _ = container(name)["ports"]
    assert [each["port"] for each in entry["ports"]] == [port["name"]]
    inside = [
        each["podSelector"]["matchLabels"]["app.kubernetes.io/name"] for each in entry["from"]
    ]
    assert inside == (["ingress-nginx"] if name in FOR_CLIENTS else []) + ["prometheus"]
    # Without it the pods of that name in any namespace of the same one would be meant.
    assert all(each["namespaceSelector"]["matchLabels"] for each in entry["from"])
    variables = settings_of(name)
    ports = {53}
    if is_on_kafka(name):
        brokers = variables["ACCOUNTANT_URL"].removeprefix("kafka://").split(",")
        ports |= {int(broker.rpartition(":")[2]) for broker in brokers}
    ports |= {443} if "ACCOUNTANT_OIDC_ISSUER" in variables else set()
    out = {each["port"] for rule in policy["egress"] for each in rule["ports"]}
    assert out == ports
    assert all(rule["to"] for rule in policy["egress"])


@workload
def test_a_pod_meets_the_restricted_standard_and_has_time_to_stop(name):
    dockerfile = (ROOT / "Dockerfile").read_text()
    context = pod(name)["securityContext"]
    assert f"USER {context['runAsUser']}" in dockerfile
    assert f"groupadd --gid {context['runAsGroup']} " in dockerfile
    assert context["runAsNonRoot"] is True
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod(name)["automountServiceAccountToken"] is False
    # The cluster's variables start with the name of a service, as settings' variables do.
    assert pod(name)["enableServiceLinks"] is False
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod(name))
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    reads = name.removeprefix("accountant-") in READS_DATA
    found = container(name)
    assert "initContainers" not in pod(name)
    inner = found["securityContext"]
    assert inner["readOnlyRootFilesystem"] is True
    assert inner["allowPrivilegeEscalation"] is False
    assert inner["capabilities"] == {"drop": ["ALL"]}
    assert {"memory", "cpu"} <= set(found["resources"]["requests"])
    assert "memory" in found["resources"]["limits"]
    image = compose["services"]["curator"] if reads else compose["x-accountant"]
    assert found["image"] == image["image"]
    assert not [each for each in pod(name)["volumes"] if "hostPath" in each]
    pause = container(name).get("lifecycle", {}).get("preStop", {}).get("exec", {}).get("command")
    waited = int(pause[1]) if pause else 0
    # Kubernetes counts both: the process ends by itself before it is killed.
    assert pod(name)["terminationGracePeriodSeconds"] > waited + LIMIT_S


def test_secrets_and_claims_are_those_of_the_operating_page():
    """Whoever installs makes each of them by that page, and finds every manifest there."""
    text = (ROOT / "docs/how-to/kubernetes.md").read_text()
    named = set()
    for found in objects().values():
        named |= set(re.findall(r"'(?:secretName|name)': '(accountant-[a-z-]+)'", str(found)))
    secrets = {each for each in named if each.endswith(("-tls", "-tokens", "-kafka", "-ca"))}
    secrets.add("accountant-prometheus")
    for each in secrets:
        assert f" {each} " in text, each
    assert "PersistentVolumeClaim `accountant-data`" in text
    for file in FILES:
        named = file.parent.name if file.parent != WHERE else file.name
        assert f"[{named}](../../{file.parent.relative_to(ROOT)}/" in text, file
    for each in WORKLOADS:
        assert f"--principal {each.removeprefix('accountant-')}={each} " in text or not is_on_kafka(
            each
        )


def test_the_page_makes_topics_that_the_workers_accept():
    page = (ROOT / "docs/how-to/kubernetes.md").read_text()
    before = page.partition("accountant topics create")[0]
    exported = dict(re.findall(r"\b(ACCOUNTANT_[A-Z_]+)=(\S+)", before))
    workers = settings_of("accountant-worker")
    for name in ("ACCOUNTANT_PARTITIONS", "ACCOUNTANT_REPLICATION"):
        assert exported[name] == workers[name]


def test_the_lines_about_checkpoints_of_a_worker_give_it_a_volume_that_workers_share():
    text = (WHERE / "worker.yaml").read_text()
    text = re.sub(
        r"^( +)# (?=- .*checkpoints|  persistentVolumeClaim)", r"\1", text, flags=re.MULTILINE
    )
    (found,) = (each for each in yaml.safe_load_all(text) if each["kind"] == "StatefulSet")
    pod = found["spec"]["template"]["spec"]
    (worker,) = pod["containers"]
    environment = {each["name"]: each.get("value") for each in worker["env"]}
    mounts = {each["mountPath"]: each["name"] for each in worker["volumeMounts"]}
    volumes = {each["name"]: each for each in pod["volumes"]}
    volume = volumes[mounts[environment["ACCOUNTANT_CHECKPOINTS"]]]
    assert volume["persistentVolumeClaim"] == {"claimName": "accountant-checkpoints"}
    assert "volumeClaimTemplates" not in found["spec"]  # each worker would have its own
