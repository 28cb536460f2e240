"""What does the Deployment of a pool look like?

The same pool, installation and count give the same manifest, byte for byte: an operator that starts again, or is
upgraded with the same values, deletes no pod. What a person may choose is an allow-list (`samjobs.pool`); the rest is
as strict as the `restricted` pod security level wants it, and stays so.

When the template changes, busy workers are not killed: pods go one at a time (maxSurge 0, since a spare GPU is not to
be assumed; maxUnavailable 1), idle ones first by their deletion cost, and each has the long grace period to finish its
image, write it, and give the rest of its shard back uncharged.
"""

from typing import Any

from controller.kube.installation import WorkerDefaults
from controller.kube.workerenv import HEALTH_PORT, environment, volumes
from samjobs.errors import InvalidInput
from samjobs.names import API_VERSION, POOL_KIND, POOL_LABEL
from samjobs.pool import PoolSpec

CONTAINER = "worker"
USER = 10001  # by number, as in Dockerfile.worker: the kubelet cannot tell whether a name is root
LONGEST_POOL_NAME = 63  # a label of its pods
WORKER_LABELS = {"app.kubernetes.io/name": "samjobs", "app.kubernetes.io/component": "worker"}

# A first start downloads gigabytes and moves them to the device.
LOADING_S, ASKED_EVERY_S = 3600, 5
# A worker that says it hangs has given its shard up: nothing is left to wait for.
HANGING_GRACE_S = 30

ANY_IMAGE = "*"


def deployment_name(pool: str) -> str:
    """The name of a pool's Deployment."""
    return f"samworkers-{pool}"


def pool_labels(pool: str) -> dict[str, str]:
    """By which a pool's Deployment and pods are found; the selector, which can never change."""
    return WORKER_LABELS | {POOL_LABEL: pool}


def selector(labels: dict[str, str]) -> str:
    """How the API is asked for what has all of these labels."""
    return ",".join(f"{label}={value}" for label, value in labels.items())


def manifest(
    name: str, namespace: str, uid: str, spec: PoolSpec, replicas: int, worker: WorkerDefaults
) -> dict[str, Any]:
    """The Deployment of the pool `name`, whole, for a server-side apply.

    `replicas` is always named: left out, the API server would make it 1, and a pod would take a GPU.

    Raises:
        InvalidInput: the pool asks for what the installation does not allow; the message names field and remedy.
    """
    if len(name) > LONGEST_POOL_NAME:
        raise InvalidInput(f"metadata.name: {name} is a label of its pods: give at most {LONGEST_POOL_NAME} characters")
    labels = pool_labels(name) | {"app.kubernetes.io/managed-by": "samjobs"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": deployment_name(name),
            "namespace": namespace,
            "labels": labels,
            # The garbage collector removes it with its pool. Not blockOwnerDeletion: that takes a right on finalizers.
            "ownerReferences": [
                {
                    "apiVersion": API_VERSION,
                    "kind": POOL_KIND,
                    "name": name,
                    "uid": uid,
                    "controller": True,
                    "blockOwnerDeletion": False,
                }
            ],
        },
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": pool_labels(name)},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
            "progressDeadlineSeconds": LOADING_S + 600,
            "revisionHistoryLimit": 3,
            "template": {
                "metadata": {
                    "labels": worker.pod_labels | _further_labels(spec, labels) | labels,
                    "annotations": worker.pod_annotations | spec.pod_annotations,
                },
                "spec": _pod(name, spec, worker),
            },
        },
    }


def _further_labels(spec: PoolSpec, own: dict[str, str]) -> dict[str, str]:
    if clash := next((label for label in spec.pod_labels if label in own), None):
        raise InvalidInput(f"spec.podLabels: {clash} is set by the controller: leave it out")
    return spec.pod_labels


def _pod(name: str, spec: PoolSpec, worker: WorkerDefaults) -> dict[str, Any]:
    listed, mounts = volumes(spec, worker)
    secrets = [*worker.image_pull_secrets, *({"name": secret} for secret in spec.image_pull_secrets)]
    chosen = {
        "serviceAccountName": worker.service_account_name,
        "nodeSelector": spec.node_selector,
        "tolerations": [one.model_dump(by_alias=True, exclude_none=True) for one in spec.tolerations],
        "affinity": spec.affinity,
        "priorityClassName": spec.priority_class_name,
        "runtimeClassName": spec.runtime_class_name,
        "imagePullSecrets": list({secret["name"]: secret for secret in secrets}.values()),
    }
    return {
        "automountServiceAccountToken": False,  # a worker never talks to Kubernetes
        # A Service named e.g. `samjobs-health` would otherwise set SAMJOBS_HEALTH_PORT=tcp://… in its namespace.
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": spec.termination_grace_period_seconds,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            "fsGroupChangePolicy": "OnRootMismatch",  # else each start walks over all of the weights
            "seccompProfile": {"type": "RuntimeDefault"},
            **worker.pod_security_context,
        },
        "containers": [_container(name, spec, worker, mounts)],
        "volumes": listed,
        **{field: value for field, value in chosen.items() if value},
    }


def _container(name: str, spec: PoolSpec, worker: WorkerDefaults, mounts: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "name": CONTAINER,
        "image": _image(spec, worker),
        "imagePullPolicy": worker.image_pull_policy,
        "env": environment(name, spec, worker),
        "envFrom": list(worker.env_from),
        "ports": [{"name": "health", "containerPort": HEALTH_PORT, "protocol": "TCP"}],
        "resources": spec.resources.model_dump(exclude_defaults=True),
        "volumeMounts": mounts,
        "startupProbe": _probe("/readyz", every_s=ASKED_EVERY_S, failures=LOADING_S // ASKED_EVERY_S),
        # Slow to judge: when pods are to go, one that is not ready goes first, however busy it is.
        "readinessProbe": _probe("/readyz", every_s=10, failures=6),
        "livenessProbe": _probe("/livez", every_s=10, failures=6) | {"terminationGracePeriodSeconds": HANGING_GRACE_S},
        # A worker's last line says what it lacks; it becomes the pool's condition.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
            **worker.security_context,
        },
    }


def _image(spec: PoolSpec, worker: WorkerDefaults) -> str:
    image = spec.image or worker.image
    allowed = (worker.image, *worker.allowed_images)
    if image not in allowed and ANY_IMAGE not in allowed:
        raise InvalidInput(
            f"spec.image: {image} is none of those that this installation allows ({', '.join(allowed)}): leave it out,"
            " or have it added to worker.allowedImages"
        )
    return image


def _probe(path: str, *, every_s: int, failures: int) -> dict[str, Any]:
    return {
        "httpGet": {"path": path, "port": "health"},
        "periodSeconds": every_s,
        "timeoutSeconds": 5,
        "failureThreshold": failures,
    }
