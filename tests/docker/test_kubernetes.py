"""The Kubernetes manifests: held against the schemas of Kubernetes itself, against compose, and against each other."""

from __future__ import annotations

import copy
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from service.routes.health import router as health
from service.settings import Settings

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docker" / "kubernetes"
VERSIONS = ("1.28.0", "1.37.0")
"""Whoever keeps the rules of both keeps those of the versions between."""

Document = dict[str, Any]


@cache
def documents() -> list[Document]:
    files = sorted(FOLDER.glob("*.yaml"))
    return [document for file in files for document in yaml.safe_load_all(file.read_text())]


def of_kind(kind: str) -> dict[str, Document]:
    return {one["metadata"]["name"]: one for one in documents() if one["kind"] == kind}


def workloads() -> dict[str, Document]:
    """Name of each workload -> the specification of its pods."""
    found = {**of_kind("Deployment"), **of_kind("StatefulSet"), **of_kind("Job")}
    return {name: one["spec"]["template"]["spec"] for name, one in found.items()}


def container(name: str) -> Document:
    (found,) = workloads()[name]["containers"]
    assert isinstance(found, dict)
    return found


def environment(name: str) -> dict[str, Any]:
    return {one["name"]: one.get("value", one.get("valueFrom")) for one in container(name)["env"]}


def validate(document: Document, version: str) -> None:
    """Raises ValidationError; a field that Kubernetes does not have is one, too."""
    import kubernetes_validate  # half a second, of those alone who run this

    kubernetes_validate.validate(document, version, strict=True)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("document", documents(), ids=lambda one: f"{one['kind']}-{one['metadata']['name']}")
def test_kubernetes_takes_it(document: Document, version: str) -> None:
    validate(document, version)


@pytest.mark.parametrize(
    ("field", "value"),
    [("replicas", "two"), ("replica", 2), ("template", {"spec": {"containers": [{"image": "x"}]}})],
    ids=["type", "no-such-field", "missing-field"],
)
def test_kubernetes_would_not_take_everything(field: str, value: object) -> None:
    document = copy.deepcopy(of_kind("Deployment")["api"])
    document["spec"][field] = value
    from kubernetes_validate import ValidationError

    with pytest.raises(ValidationError):
        validate(document, VERSIONS[-1])


def test_all_that_a_service_needs_is_there() -> None:
    assert workloads().keys() == {"api", "migrate", "postgres", "worker-cpu", "worker-gpu"}
    assert {one["metadata"].get("namespace") for one in documents() if one["kind"] != "Namespace"} == {"fusetune"}
    assert of_kind("PodDisruptionBudget").keys() == {"api", "worker-cpu", "worker-gpu"}
    assert of_kind("Deployment")["api"]["spec"]["replicas"] >= 2


def test_labels_lead_to_pods() -> None:
    labels = {name: one["spec"]["template"]["metadata"]["labels"] for name, one in of_kind("StatefulSet").items()}
    labels |= {name: one["spec"]["template"]["metadata"]["labels"] for name, one in of_kind("Deployment").items()}
    for name, one in {**of_kind("StatefulSet"), **of_kind("Deployment")}.items():
        assert one["spec"]["selector"]["matchLabels"] == labels[name]
    for name, one in of_kind("PodDisruptionBudget").items():
        assert one["spec"]["selector"]["matchLabels"] == labels[name]
    selected = {name: one["spec"]["selector"] for name, one in of_kind("Service").items()}
    assert selected == {name: labels["api" if name == "fusetune" else name] for name in selected}
    for name, one in of_kind("StatefulSet").items():
        assert one["spec"]["serviceName"] == name
        assert name in selected
    ports = {port["name"]: port["containerPort"] for port in container("api")["ports"]}
    assert ports == {of_kind("Service")["fusetune"]["spec"]["ports"][0]["targetPort"]: Settings().port}


def test_it_is_what_compose_has() -> None:
    composed = yaml.safe_load((ROOT / "docker" / "compose.yaml").read_text())["services"]
    assert container("postgres")["image"] == composed["db"]["image"]
    assert container("migrate")["command"] == composed["migrate"]["command"]
    for name in ("worker-gpu", "worker-cpu"):
        for probe in ("startupProbe", "livenessProbe"):
            assert container(name)[probe]["exec"]["command"] == composed["worker"]["healthcheck"]["test"][1:]
    images = {name: container(name)["image"].rpartition("/")[2].partition(":")[0] for name in workloads()}
    assert images == {
        "postgres": "postgres", "migrate": "fusetune-api", "api": "fusetune-api",
        "worker-gpu": "fusetune-worker", "worker-cpu": "fusetune-worker",
    }  # fmt: skip
    assert all(":" in container(name)["image"] and not container(name)["image"].endswith(":latest") for name in images)


def test_settings_are_settings() -> None:
    known = {f"FUSETUNE_{name.upper()}" for name in Settings.model_fields}
    for name in workloads():
        given = {one for one in environment(name) if one.startswith("FUSETUNE_")}
        assert given <= known, name
        if name != "postgres":
            assert {"FUSETUNE_DATABASE_URL", "FUSETUNE_JOBS_URL"} <= given
            host = re.search(r"@(\w+):(\d+)/(\w+)", environment(name)["FUSETUNE_DATABASE_URL"])
            assert host is not None
            assert host.groups() == ("postgres", "5432", environment("postgres")["POSTGRES_DB"])


def test_probes_ask_what_the_service_has() -> None:
    paths = {getattr(route, "path", "") for route in health.routes}
    probes = {probe: container("api")[probe] for probe in ("startupProbe", "readinessProbe", "livenessProbe")}
    assert {one["httpGet"]["path"] for one in probes.values()} <= paths
    assert probes["readinessProbe"]["httpGet"]["path"] == "/readyz"
    # A database that is away must not have every process started anew.
    assert probes["livenessProbe"]["httpGet"]["path"] == "/healthz"
    for name in workloads().keys() - {"migrate"}:
        assert {"startupProbe", "livenessProbe"} <= container(name).keys(), name


def test_nobody_is_root_and_nothing_is_written_but_what_is_mounted() -> None:
    users = {"postgres": 999}
    said = re.search(r"USER (\d+):", (ROOT / "docker" / "api.Dockerfile").read_text())
    assert said is not None
    for name, pod in workloads().items():
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["runAsUser"] == users.get(name, int(said[1]))
        context = container(name)["securityContext"]
        assert context["allowPrivilegeEscalation"] is False
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert context.get("readOnlyRootFilesystem", False) is (name != "postgres")
        mounted = {mount["mountPath"] for mount in container(name)["volumeMounts"]}
        assert mounted == ({"/var/lib/postgresql/data"} if name == "postgres" else {"/tmp", "/data"})


def test_a_worker_keeps_its_name_and_has_a_gpu_or_none() -> None:
    for name in ("worker-gpu", "worker-cpu"):
        assert name in of_kind("StatefulSet")  # whose pods keep their names
        assert environment(name)["FUSETUNE_WORKER_ID"] == {"fieldRef": {"fieldPath": "metadata.name"}}
        assert workloads()[name]["terminationGracePeriodSeconds"] >= 30
    gpu, cpu = (workloads()[name] for name in ("worker-gpu", "worker-cpu"))
    assert gpu["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == 1
    assert gpu["nodeSelector"] == {"nvidia.com/gpu.present": "true"}
    assert "nvidia.com/gpu" not in str(cpu["containers"][0]["resources"])
    assert "nodeSelector" not in cpu
    assert environment("worker-cpu")["FUSETUNE_DEVICE"] == "none"


def test_secrets_come_from_one_secret_that_is_not_here_and_is_told_of() -> None:
    assert of_kind("Secret") == {}
    asked: dict[str, set[str]] = {}
    for name in workloads():
        for value in environment(name).values():
            if isinstance(value, dict) and "secretKeyRef" in value:
                assert value["secretKeyRef"]["name"] == "fusetune"
                asked.setdefault(value["secretKeyRef"]["key"], set()).add(name)
    assert asked == {"POSTGRES_PASSWORD": set(workloads()), "FUSETUNE_API_KEY": {"api"}}
    told = (ROOT / "docs" / "containers.md").read_text()
    assert all(f"--from-literal={key}=" in told for key in asked)
    assert all(f"docker/kubernetes/{file.name}" in told for file in FOLDER.glob("*.yaml"))
