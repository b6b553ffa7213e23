"""The manifests, against Kubernetes' own schemas and KubeRay's.  No Kubernetes runs here; their Redis does."""

import copy
import json
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
MANIFESTS: list[dict[str, Any]] = [
    document for file in sorted((ROOT / "deploy" / "kubernetes").glob("*.yaml"))
    for document in yaml.safe_load_all(file.read_text(encoding="utf-8"))
]
VERSIONS = ("1.30", "1.37")  # of Kubernetes: the oldest that the files are written for, and the newest with schemas
KUBERAY = json.loads((ROOT / "tests" / "fixtures" / "kuberay" / "ray.io_v1.json").read_text(encoding="utf-8"))
SUBMITTER = {"ray.io/originated-from-crd": "RayJob"}  # KubeRay's label


def title(manifest: dict[str, Any]) -> str:
    return f"{manifest['kind']} {manifest['metadata']['name']}"


def of_kind(*kinds: str) -> list[dict[str, Any]]:
    return [manifest for manifest in MANIFESTS if manifest["kind"] in kinds]


def cluster_of(manifest: dict[str, Any]) -> dict[str, Any]:
    """The specification of the cluster of a RayJob or RayCluster."""
    spec: dict[str, Any] = manifest["spec"]
    return spec.get("rayClusterSpec", spec)


def templates() -> Iterator[tuple[str, dict[str, Any]]]:
    """Each pod template, with a name."""
    for manifest in of_kind("RayJob", "RayCluster"):
        cluster = cluster_of(manifest)
        for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
            yield f"{title(manifest)} {group.get('groupName', 'head')}", group["template"]
    for manifest in of_kind("StatefulSet"):
        yield title(manifest), manifest["spec"]["template"]


TEMPLATES = list(templates())


def faults_of(manifest: dict[str, Any]) -> list[str]:
    """What KubeRay's types say against it."""
    schema = {"$defs": KUBERAY["$defs"], "$ref": f"#/$defs/{manifest['kind']}"}
    faults = jsonschema.Draft202012Validator(schema).iter_errors(manifest)
    return [f"{fault.json_path}: {fault.message}" for fault in faults]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("manifest", [one for one in MANIFESTS if "ray.io" not in one["apiVersion"]], ids=title)
def test_kubernetes_knows_each_field(manifest: dict[str, Any], version: str) -> None:
    assert kubernetes_validate.validate(manifest, version, strict=True) == version
    broken = copy.deepcopy(manifest) | {"sepc": {}}
    with pytest.raises(kubernetes_validate.ValidationError, match="sepc"):
        kubernetes_validate.validate(broken, version, strict=True)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("name", "template"), TEMPLATES)
def test_kubernetes_knows_each_field_of_a_pod(name: str, template: dict[str, Any], version: str) -> None:
    pod = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "pod"}, "template": copy.deepcopy(template)}
    assert kubernetes_validate.validate(pod, version, strict=True) == version
    pod["template"]["spec"]["containers"][0]["lifecyle"] = {}
    with pytest.raises(kubernetes_validate.ValidationError, match="lifecyle"):
        kubernetes_validate.validate(pod, version, strict=True)


@pytest.mark.parametrize("manifest", of_kind("RayJob", "RayCluster"), ids=title)
def test_kuberay_knows_each_field(manifest: dict[str, Any]) -> None:
    assert faults_of(manifest) == []
    for path, value in (("workerGroupSpecs.0.minReplica", 1), ("headGroupSpec.rayStartParams.num-cpus", 0),
                        ("headGroupSpec.template.spec.containers.0.lifecyle", {}), ("authOptions.mode", "password")):
        broken = copy.deepcopy(manifest)
        *parents, last = path.split(".")
        place: Any = cluster_of(broken)
        for part in parents:
            place = place[int(part) if part.isdigit() else part]
        place[last] = value
        assert len(faults_of(broken)) == 1, path


def test_the_job_has_the_cluster_that_stays() -> None:
    (job,), (cluster,) = of_kind("RayJob"), of_kind("RayCluster")
    assert cluster_of(job) == cluster["spec"]


def test_versions_are_those_of_the_project() -> None:
    tested = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line)
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert {cluster_of(one)["rayVersion"] for one in of_kind("RayJob", "RayCluster")} == {tested["ray"]}
    images = {container["image"] for _, template in TEMPLATES for container in template["spec"]["containers"]}
    assert images == {f"shusaku:{version}-cpu", f"shusaku:{version}-cuda"}


def test_what_is_named_is_there() -> None:
    claims = {one["metadata"]["name"] for one in of_kind("PersistentVolumeClaim")}
    (secret,) = {volume["secret"]["secretName"] for _, template in TEMPLATES
                 for volume in template["spec"].get("volumes", ()) if "secret" in volume}
    for _, template in TEMPLATES:
        spec = template["spec"]
        volumes = {volume["name"]: volume for volume in spec.get("volumes", ())}
        assert {volume["persistentVolumeClaim"]["claimName"] for volume in volumes.values()
                if "persistentVolumeClaim" in volume} <= claims
        for container in spec["containers"]:
            mounts = {mount["name"] for mount in container.get("volumeMounts", ())}
            assert mounts - {"data"} <= volumes.keys()
            for variable in container.get("env", ()):
                assert variable["valueFrom"]["secretKeyRef"] == {"name": secret, "key": "url"}
    (service,), (server,) = of_kind("Service"), of_kind("StatefulSet")
    assert server["spec"]["serviceName"] == service["metadata"]["name"]
    assert service["spec"]["selector"] == server["spec"]["template"]["metadata"]["labels"]


def test_network_policies_meet_the_pods() -> None:
    """Each label that they name is one of a pod here, or of a program of others."""
    of_pods = [template["metadata"]["labels"] for _, template in TEMPLATES]
    of_pods += [{**labels, "ray.io/node-type": role} for labels in of_pods for role in ("head", "worker")]
    of_others = [SUBMITTER, {"app.kubernetes.io/name": "kuberay-operator"}, {"app.kubernetes.io/name": "prometheus"},
                 {"k8s-app": "kube-dns"}]

    def selectors(node: Any) -> Iterator[dict[str, str]]:
        for key, value in node.items() if isinstance(node, dict) else ():
            if key == "podSelector":
                yield value["matchLabels"]
            yield from selectors(value)
        for value in node if isinstance(node, list) else ():
            yield from selectors(value)

    found = [labels for policy in of_kind("NetworkPolicy") for labels in selectors(policy["spec"])]
    assert len(found) >= 9
    for labels in found:
        assert labels in of_others or any(labels.items() <= pod.items() for pod in of_pods), labels
    for labels in of_pods:
        assert any(policy["spec"]["podSelector"]["matchLabels"].items() <= labels.items()
                   for policy in of_kind("NetworkPolicy")), labels


@pytest.mark.parametrize(("name", "template"), TEMPLATES)
def test_a_pod_has_no_rights_and_time_to_end(name: str, template: dict[str, Any]) -> None:
    spec = template["spec"]
    assert spec["securityContext"]["runAsNonRoot"]
    assert spec["securityContext"]["runAsUser"] > 0
    assert spec.get("automountServiceAccountToken") is False or name.endswith("head"), "the autoscaler is the head's"
    for container in spec["containers"]:
        rights = container["securityContext"]
        assert not rights["allowPrivilegeEscalation"]
        assert rights["capabilities"] == {"drop": ["ALL"]}
    stops = [container["lifecycle"]["preStop"]["exec"]["command"] for container in spec["containers"]
             if "lifecycle" in container]
    if name.startswith("Ray"):
        (stop,) = stops
        is_head = name.endswith("head")
        assert ("shusaku stop" in " ".join(stop)) is is_head
        seconds = 60 if is_head else int(stop[1])  # STOP_SECONDS of commands/control.py
        assert spec["terminationGracePeriodSeconds"] >= seconds + 25


def test_the_head_stops_each_run_before_it_ends(tmp_path: Path) -> None:
    """The shell's part of it; `shusaku` only says what it was called with."""
    (head,) = {tuple(template["spec"]["containers"][0]["lifecycle"]["preStop"]["exec"]["command"])
               for name, template in TEMPLATES if name.endswith("head")}
    names = ("first", "second one")
    for name in names:
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "control.json").touch()
    (tmp_path / "runs" / "no run").mkdir()
    (tmp_path / "shusaku").write_text('#!/bin/sh\nsleep 0.2\necho "$@"\n')
    (tmp_path / "shusaku").chmod(0o755)
    words = [word.replace("/runs", f"{tmp_path}/runs") for word in head]
    done = subprocess.run(words, env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, capture_output=True, text=True, check=True,
                          timeout=20)
    assert sorted(done.stdout.splitlines()) == [f"stop run.dir={tmp_path}/runs/{name}" for name in names]


def test_no_password_is_written_down() -> None:
    for file in (ROOT / "deploy" / "kubernetes").iterdir():
        text = file.read_text(encoding="utf-8")
        assert "stringData" not in text
        assert "redis://" not in text
