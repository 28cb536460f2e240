"""The Deployment of a pool: what a person may choose is in it, and what keeps a cluster safe stays in it."""

from typing import Any

import pytest

from controller.kube.deployment import manifest
from controller.kube.installation import WorkerDefaults
from samjobs.errors import InvalidInput
from samjobs.pool import PoolSpec

IMAGE = "samjobs-worker:1"
INSTALLATION: dict[str, Any] = {
    "image": IMAGE,
    "env": [{"name": "SAMJOBS_DATABASE_URL", "valueFrom": {"secretKeyRef": {"name": "samjobs", "key": "url"}}}],
    "envFrom": [{"configMapRef": {"name": "samjobs-settings"}}],
}


def made(spec: dict[str, Any] | None = None, replicas: int = 0, name: str = "spot", **worker: Any) -> dict[str, Any]:
    defaults = WorkerDefaults.model_validate(INSTALLATION | worker)
    return manifest(name, "photos", "uid-1", PoolSpec.model_validate(spec or {}), replicas, defaults)


def pod(spec: dict[str, Any] | None = None, **worker: Any) -> dict[str, Any]:
    return made(spec, **worker)["spec"]["template"]["spec"]


def container(spec: dict[str, Any] | None = None, **worker: Any) -> dict[str, Any]:
    [one] = pod(spec, **worker)["containers"]
    return one


def env(spec: dict[str, Any] | None = None, **worker: Any) -> dict[str, Any]:
    """Values by name; of what comes from a secret or a field, where from."""
    listed = container(spec, **worker)["env"]
    assert len({one["name"] for one in listed}) == len(listed), "the API refuses a name that is there twice"
    return {one["name"]: one.get("value", one.get("valueFrom")) for one in listed}


def mounts(spec: dict[str, Any]) -> dict[str, tuple[Any, bool]]:
    """The volume at each path, and whether it is read-only."""
    template = pod(spec)
    volumes = {one["name"]: {key: what for key, what in one.items() if key != "name"} for one in template["volumes"]}
    [of] = template["containers"]
    return {one["mountPath"]: (volumes[one["name"]], one.get("readOnly", False)) for one in of["volumeMounts"]}


def test_the_same_pool_gives_the_same_manifest_so_that_a_restart_deletes_no_pod() -> None:
    spec = {"podLabels": {"b": "1", "a": "2"}, "nodeSelector": {"gpu": "l4"}, "env": [{"name": "X", "value": "1"}]}
    assert repr(made(spec, 3)) == repr(made(spec, 3))
    assert made(spec, 3)["spec"]["template"] == made(spec, 4)["spec"]["template"], "a new count is no new template"


def test_it_belongs_to_its_pool_and_goes_with_it() -> None:
    meta = made()["metadata"]
    assert (meta["namespace"], meta["name"]) == ("photos", "samworkers-spot")
    [owner] = meta["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"], owner["controller"]) == ("SamWorkerPool", "spot", "uid-1", True)
    assert owner["blockOwnerDeletion"] is False, "it would take a right on finalizers"


@pytest.mark.parametrize("count", [0, 3])
def test_replicas_are_always_named_for_without_it_the_server_takes_one(count: int) -> None:
    assert made(replicas=count)["spec"]["replicas"] == count


def test_a_change_rolls_without_a_spare_gpu_and_each_worker_may_finish() -> None:
    spec = made({"terminationGracePeriodSeconds": 900})["spec"]
    assert spec["strategy"]["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}
    assert spec["template"]["spec"]["terminationGracePeriodSeconds"] == 900


def test_the_selector_is_in_the_labels_whatever_labels_are_added() -> None:
    spec = made({"podLabels": {"team": "x"}}, podLabels={"team": "y", "cost": "1"})["spec"]
    labels = spec["template"]["metadata"]["labels"]
    assert spec["selector"]["matchLabels"].items() <= labels.items()
    assert (labels["team"], labels["cost"], labels["samjobs.dev/pool"]) == ("x", "1", "spot")


def test_pods_are_restricted_and_have_no_token() -> None:
    template = pod()
    assert template["automountServiceAccountToken"] is False
    assert template["enableServiceLinks"] is False, "a Service's name would set variables of the worker"
    security = template["securityContext"]
    assert (security["runAsNonRoot"], security["runAsUser"], security["fsGroup"]) == (True, 10001, 10001)
    assert security["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container()["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_an_installation_may_lay_its_own_security_context_over_it() -> None:
    security = pod(podSecurityContext={"runAsUser": 1000680000})["securityContext"]
    assert (security["runAsUser"], security["runAsNonRoot"]) == (1000680000, True)


def test_one_gpu_unless_something_else_is_asked_for() -> None:
    assert container()["resources"] == {"limits": {"nvidia.com/gpu": "1"}}
    resources = {"requests": {"cpu": "2", "memory": "8Gi"}, "limits": {"amd.com/gpu": "1"}}
    assert container({"resources": resources})["resources"] == resources
    assert container({"resources": {}})["resources"] == {}


def test_where_pods_go_is_taken_over_as_it_stands() -> None:
    spec = {
        "nodeSelector": {"gpu": "l4"},
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "tolerationSeconds": 5}],
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}},
        "priorityClassName": "batch",
        "runtimeClassName": "nvidia",
    }
    template = pod(spec)
    assert {field: template[field] for field in spec} == spec
    assert not pod().keys() & spec.keys(), "what is not asked for is not named"


def test_pull_secrets_of_both_are_named_once() -> None:
    template = pod({"imagePullSecrets": ["a", "b"]}, imagePullSecrets=[{"name": "b"}, {"name": "c"}])
    assert sorted(one["name"] for one in template["imagePullSecrets"]) == ["a", "b", "c"]


def test_a_worker_is_told_who_it_is() -> None:
    told = env({"region": "asia", "engine": "opencv"})
    assert (told["SAMJOBS_REGION"], told["SAMJOBS_POOL"], told["SAMJOBS_ENGINE"]) == ("asia", "spot", "opencv")
    assert told["SAMJOBS_POD_NAME"]["fieldRef"]["fieldPath"] == "metadata.name"
    assert told["SAMJOBS_DATABASE_URL"] == {"secretKeyRef": {"name": "samjobs", "key": "url"}}
    assert container()["envFrom"] == INSTALLATION["envFrom"]


MODELS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "left out": ({}, {}),
    "a claim": ({"model": {"claim": {"name": "weights"}}}, {"SAMJOBS_SAM3_MODEL": "/models"}),
    "a folder of a claim": (
        {"model": {"claim": {"name": "weights", "path": "sam3/v1"}}},
        {"SAMJOBS_SAM3_MODEL": "/models/sam3/v1"},
    ),
    "a path, with its checksum": (
        {"model": {"path": "/opt/sam3", "sha256": "ab" * 32}},
        {"SAMJOBS_SAM3_MODEL": "/opt/sam3", "SAMJOBS_MODEL_SHA256": "ab" * 32},
    ),
    "the hub": (
        {"model": {"hub": {"id": "facebook/sam3", "revision": "abc", "tokenSecret": {"name": "hf", "key": "token"}}}},
        {
            "SAMJOBS_SAM3_MODEL": "facebook/sam3",
            "SAMJOBS_SAM3_REVISION": "abc",
            "HF_TOKEN": {"secretKeyRef": {"name": "hf", "key": "token"}},
        },
    ),
    "Meta's file": (
        {"engine": "sam3-meta", "model": {"claim": {"name": "weights", "path": "sam3.pt"}}},
        {"SAMJOBS_SAM3_META_CHECKPOINT": "/models/sam3.pt"},
    ),
}


@pytest.mark.parametrize("source", MODELS)
def test_the_model_comes_from(source: str) -> None:
    spec, wanted = MODELS[source]
    of_models = {"SAMJOBS_SAM3_MODEL", "SAMJOBS_SAM3_REVISION", "SAMJOBS_SAM3_META_CHECKPOINT", "SAMJOBS_MODEL_SHA256"}
    told = env(spec)
    assert {name: told[name] for name in told if name in of_models | {"HF_TOKEN"}} == wanted


def test_all_that_is_written_to_is_a_volume_and_models_are_not_written_to() -> None:
    spec = {
        "model": {"claim": {"name": "weights"}},
        "cache": {"claim": "hub"},
        "volumes": [
            {"claim": "photos", "mountPath": "/photos"},
            {"claim": "out", "mountPath": "/out", "readOnly": False},
        ],
    }
    found = mounts(spec)
    assert found["/tmp"] == ({"emptyDir": {}}, False)
    assert found["/dev/shm"][0]["emptyDir"]["medium"] == "Memory"
    assert found["/models"] == ({"persistentVolumeClaim": {"claimName": "weights", "readOnly": True}}, True)
    assert found["/cache"] == ({"persistentVolumeClaim": {"claimName": "hub"}}, False)
    assert found["/photos"] == ({"persistentVolumeClaim": {"claimName": "photos", "readOnly": True}}, True)
    assert found["/out"] == ({"persistentVolumeClaim": {"claimName": "out"}}, False)
    assert mounts({"cache": {"sizeLimit": "5Gi"}})["/cache"] == ({"emptyDir": {"sizeLimit": "5Gi"}}, False)
    assert env(spec)["HF_HOME"].startswith("/cache/")


def test_probes_wait_for_a_model_and_do_not_judge_a_busy_worker_quickly() -> None:
    one = container()
    assert one["ports"] == [{"name": "health", "containerPort": 8080, "protocol": "TCP"}]
    assert env()["SAMJOBS_HEALTH_PORT"] == "8080"
    startup = one["startupProbe"]
    assert startup["httpGet"]["path"] == "/readyz"
    assert startup["periodSeconds"] * startup["failureThreshold"] >= 1800, "a first download takes its time"
    for probe in ("livenessProbe", "readinessProbe"):
        assert one[probe]["periodSeconds"] * one[probe]["failureThreshold"] >= 60


def test_the_installations_variables_give_way_to_the_controllers() -> None:
    told = env({}, env=[{"name": "SAMJOBS_REGION", "value": "elsewhere"}, {"name": "HF_TOKEN", "value": "t"}])
    assert (told["SAMJOBS_REGION"], told["HF_TOKEN"]) == ("default", "t")


def test_a_pool_adds_variables() -> None:
    spec = {"env": [{"name": "SAMJOBS_BATCH", "value": "8"}, {"name": "KEY", "secret": {"name": "s", "key": "k"}}]}
    told = env(spec)
    assert (told["SAMJOBS_BATCH"], told["KEY"]) == ("8", {"secretKeyRef": {"name": "s", "key": "k"}})


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a variable of the controller": (
        {"env": [{"name": "A", "value": ""}, {"name": "SAMJOBS_REGION", "value": "asia"}]},
        r"spec\.env\[1\]: SAMJOBS_REGION is set by the controller: leave it out",
    ),
    "a variable of the installation": (
        {"env": [{"name": "SAMJOBS_DATABASE_URL", "value": "x"}]},
        r"spec\.env\[0\]: SAMJOBS_DATABASE_URL is set by the installation",
    ),
    "one that the installation may set from elsewhere": (
        {"env": [{"name": "SAMJOBS_ALLOWED_HOSTS", "value": "10.0.0.0/8"}]},
        "SAMJOBS_ALLOWED_HOSTS is set by the installation",
    ),
    "a label of the controller": (
        {"podLabels": {"samjobs.dev/pool": "other"}},
        r"spec\.podLabels: samjobs\.dev/pool is set by the controller",
    ),
    "a path that is taken": (
        {"volumes": [{"claim": "x", "mountPath": "/tmp"}]},
        r"spec\.volumes\[0\]\.mountPath: /tmp is taken already: give another path",
    ),
    "an image that is not allowed": (
        {"image": "evil:1"},
        r"spec\.image: evil:1 is none of those .*samjobs-worker:1.*allowedImages",
    ),
    "weights for an engine that has none": ({"engine": "opencv", "model": {"path": "/x"}}, "opencv has no weights"),
    "a revision that the engine cannot take": (
        {"engine": "sam3-meta", "model": {"hub": {"id": "facebook/sam3", "revision": "abc"}}},
        r"spec\.model\.hub\.revision.*leave revision out",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_refused_is(what: str) -> None:
    spec, told = REFUSED[what]
    with pytest.raises(InvalidInput, match=told):
        made(spec)


def test_a_name_that_is_no_label_is_refused() -> None:
    with pytest.raises(InvalidInput, match="at most 63 characters"):
        made(name="x" * 64)


@pytest.mark.parametrize("allowed", [["other:2"], ["*"]])
def test_an_image_that_is_allowed_is_taken(allowed: list[str]) -> None:
    assert container({"image": "other:2"}, allowedImages=allowed)["image"] == "other:2"
    assert container({}, allowedImages=allowed)["image"] == IMAGE
