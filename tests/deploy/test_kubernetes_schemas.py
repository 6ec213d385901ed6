"""The manifests match Kubernetes' own schemas, and an unknown field is an error."""

from __future__ import annotations

import copy
from functools import cache
from itertools import product
from pathlib import Path

import kubernetes_validate
import yaml

from tests.every_case import every_case
from tests.nightly import rounds

OPENS = ("deploy/kubernetes/**",)

WHERE = Path(__file__).parents[2] / "deploy/kubernetes"
# The operator's own kind, which Kubernetes does not describe.
FOREIGN = {"monitoring.coreos.com/v1"}
FIRST = "1.29"


@cache
def objects():
    """Return each object that Kubernetes describes, by its kind and name."""
    return {
        f"{found['kind']} {found['metadata']['name']}": found
        for file in sorted(WHERE.rglob("*.yaml"))
        for found in yaml.safe_load_all(file.read_text())
        if found["apiVersion"] not in FOREIGN
    }


@cache
def versions():
    """Return the versions of Kubernetes from the first that can run the manifests, in order."""
    every = sorted(
        {version.rpartition(".")[0] for version in kubernetes_validate.utils.all_versions()},
        key=lambda version: tuple(map(int, version.split("."))),
    )
    return every[every.index(FIRST) :]


def problem(found, version):
    """Return the errors by the schemas of a version of Kubernetes; None without errors."""
    try:
        validated_as = kubernetes_validate.validate(found, version, strict=True)
    except kubernetes_validate.ValidationError as error:
        return f"{'.'.join(map(str, error.path))}: {error.message}"
    assert validated_as == version
    return None


def test_only_the_operators_kinds_are_skipped():
    everything = [
        found for file in WHERE.rglob("*.yaml") for found in yaml.safe_load_all(file.read_text())
    ]
    left_out = {found["kind"] for found in everything if found["apiVersion"] in FOREIGN}
    assert left_out == {"ServiceMonitor"}
    assert len(objects()) + 4 == len(everything)


def tried():
    """Return the versions to validate with: by day the first and the last of them."""
    first, *between, last = versions()
    return [first, last, *between][: rounds(2, 9)]


@every_case(("name", "version"), lambda: product(objects(), tried()))
def test_every_object_matches_kubernetes_schemas(name, version):
    assert problem(objects()[name], version) is None


@every_case(
    ("name", "path", "wrong", "expected"),
    [
        ("Deployment accountant-gateway", "spec", {"replica": 2}, "replica"),
        (
            "Deployment accountant-gateway",
            "spec.template.spec.containers.0.securityContext",
            {"readOnlyRootFilesytem": True},
            "readOnlyRootFilesytem",
        ),
        ("StatefulSet accountant-worker", "spec", {"replicas": "2"}, "'2' is not"),
        (
            "StatefulSet accountant-worker",
            "spec.template.spec.containers.0.readinessProbe.httpGet",
            {"schema": "HTTPS"},
            "schema",
        ),
        (
            "StatefulSet accountant-curator",
            "spec.template.spec.volumes.1.ephemeral.volumeClaimTemplate.spec",
            {"accessMode": []},
            "accessMode",
        ),
        ("NetworkPolicy accountant-gateway", "spec.ingress.0", {"form": []}, "form"),
        ("Service accountant-gateway", "spec.ports.0", {"port": None}, "None is not"),
        ("ConfigMap accountant", "data", {"ACCOUNTANT_PARTITIONS": 4}, "4 is not"),
        ("PodDisruptionBudget accountant-worker", "spec", {"maxUnavailble": 1}, "maxUnavailble"),
    ],
)
def test_a_broken_manifest_is_rejected(name, path, wrong, expected):
    broken = copy.deepcopy(objects()[name])
    place = broken
    for step in path.split("."):
        place = place[int(step)] if step.isdecimal() else place[step]
    place.update(wrong)
    for version in (FIRST, versions()[-1]):
        found = problem(broken, version)
        assert found is not None
        assert found.startswith(path)
        assert expected in found
