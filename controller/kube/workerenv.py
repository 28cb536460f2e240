"""Which environment does a worker pod get, and which volumes come with it?

Three hands write it: the controller (who this worker is, and where its weights are), the installation (database, Redis,
storage), and the pool (what one kind of workers needs further). Where the first two name the same, the controller's
stands. A pool that names a variable of either is refused: a worker that listens to another region or database than its
pool says would be found by nobody.
"""

from typing import Any

from controller.kube.installation import WorkerDefaults
from samjobs.errors import InvalidInput
from samjobs.pool import PoolSpec, SecretKey

MODELS, CACHE = "/models", "/cache"
HEALTH_PORT = 8080

# Where an engine is told its weights from; opencv has none.
_MODEL = {"sam3": "SAMJOBS_SAM3_MODEL", "sam3-meta": "SAMJOBS_SAM3_META_CHECKPOINT"}
# Of the whole installation, also where it sets them by `envFrom` or leaves them at their defaults.
OF_THE_INSTALLATION = frozenset(
    {
        "SAMJOBS_PROFILE",
        "SAMJOBS_DATABASE_URL",
        "SAMJOBS_DATABASE_POOLED",
        "SAMJOBS_REDIS_URL",
        "SAMJOBS_ALLOWED_HOSTS",
        "SAMJOBS_DENIED_NETWORKS",
        "SAMJOBS_TENANT_PLACES",
        "SAMJOBS_HEALTH_HOST",
        "SAMJOBS_KUBERNETES_CONFIG",
    }
)
# Of the controller, also where this pool needs none of them.
OF_THE_CONTROLLER = frozenset(
    {
        "SAMJOBS_REGION",
        "SAMJOBS_POOL",
        "SAMJOBS_ENGINE",
        "SAMJOBS_POD_NAME",
        "SAMJOBS_HEALTH_PORT",
        "SAMJOBS_SAM3_MODEL",
        "SAMJOBS_SAM3_REVISION",
        "SAMJOBS_SAM3_META_CHECKPOINT",
        "SAMJOBS_MODEL_SHA256",
        "HF_HOME",
        "HF_TOKEN",
    }
)


def environment(pool: str, spec: PoolSpec, worker: WorkerDefaults) -> list[dict[str, Any]]:
    """The `env` of the container, each name once.

    Raises:
        InvalidInput: the pool sets what is not its own, or its engine knows no such model.
    """
    own: list[dict[str, Any]] = [
        {"name": "SAMJOBS_REGION", "value": spec.region},
        {"name": "SAMJOBS_POOL", "value": pool},
        {"name": "SAMJOBS_ENGINE", "value": spec.engine},
        {"name": "SAMJOBS_POD_NAME", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}},
        {"name": "SAMJOBS_HEALTH_PORT", "value": str(HEALTH_PORT)},
        {"name": "HF_HOME", "value": f"{CACHE}/huggingface"},
        *_model(spec),
    ]
    taken = OF_THE_CONTROLLER | OF_THE_INSTALLATION | {one["name"] for one in worker.env}
    for number, one in enumerate(spec.env):
        if one.name in taken:
            whose = "controller" if one.name in OF_THE_CONTROLLER else "installation"
            raise InvalidInput(f"spec.env[{number}]: {one.name} is set by the {whose}: leave it out")
    further = [
        {"name": one.name, "value": one.value} if one.secret is None else _from_secret(one.name, one.secret)
        for one in spec.env
    ]
    # The installation's first, so that the others may refer to it by $(NAME).
    return list({one["name"]: one for one in [*worker.env, *own, *further]}.values())


def _model(spec: PoolSpec) -> list[dict[str, Any]]:
    """Where the weights are."""
    model, variable = spec.model, _MODEL.get(spec.engine)
    place = _place(spec)
    if variable is None:
        if place is not None or model.sha256 is not None:
            raise InvalidInput(f"spec.model: engine {spec.engine} has no weights: leave model out")
        return []
    env: list[dict[str, Any]] = [] if place is None else [{"name": variable, "value": place}]
    if model.hub is not None and model.hub.revision is not None:
        if spec.engine != "sam3":
            raise InvalidInput(
                f"spec.model.hub.revision: engine {spec.engine} takes the newest only: leave revision out, or give a"
                " claim that holds the weights"
            )
        env.append({"name": "SAMJOBS_SAM3_REVISION", "value": model.hub.revision})
    if model.hub is not None and model.hub.token_secret is not None:
        env.append(_from_secret("HF_TOKEN", model.hub.token_secret))
    if model.sha256 is not None:
        env.append({"name": "SAMJOBS_MODEL_SHA256", "value": model.sha256})
    return env


def _place(spec: PoolSpec) -> str | None:
    """Path or hub id of the weights; None: the engine's own default."""
    model = spec.model
    if model.claim is not None:
        return f"{MODELS}/{model.claim.path}" if model.claim.path else MODELS
    return model.path if model.hub is None else model.hub.id


def _from_secret(name: str, secret: SecretKey) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"secretKeyRef": {"name": secret.name, "key": secret.key}}}


def volumes(spec: PoolSpec, worker: WorkerDefaults) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The pod's `volumes` and the container's `volumeMounts`. All that is written to lies on one of them.

    Raises:
        InvalidInput: the pool mounts a volume where another one is.
    """
    shared_memory = {"medium": "Memory", "sizeLimit": "1Gi"}  # counts as the container's memory
    cache: dict[str, Any] = {"emptyDir": {"sizeLimit": spec.cache.size_limit}}
    if spec.cache.claim is not None:
        cache = {"persistentVolumeClaim": {"claimName": spec.cache.claim}}
    listed: list[dict[str, Any]] = [
        {"name": "tmp", "emptyDir": {}},
        {"name": "shm", "emptyDir": shared_memory},
        {"name": "cache", **cache},
    ]
    mounts: list[dict[str, Any]] = [
        {"name": "tmp", "mountPath": "/tmp"},
        {"name": "shm", "mountPath": "/dev/shm"},
        {"name": "cache", "mountPath": CACHE},
    ]
    if spec.model.claim is not None:
        listed.append({"name": "models", "persistentVolumeClaim": _read_only(spec.model.claim.name)})
        mounts.append({"name": "models", "mountPath": MODELS, "readOnly": True})
    for number, volume in enumerate(spec.volumes):
        name = f"volume-{number}"
        claim = _read_only(volume.claim) if volume.read_only else {"claimName": volume.claim}
        listed.append({"name": name, "persistentVolumeClaim": claim})
        if volume.mount_path in {one["mountPath"] for one in (*mounts, *worker.volume_mounts)}:
            raise InvalidInput(
                f"spec.volumes[{number}].mountPath: {volume.mount_path} is taken already: give another path"
            )
        mounts.append({"name": name, "mountPath": volume.mount_path, "readOnly": volume.read_only})
    return [*listed, *worker.volumes], [*mounts, *worker.volume_mounts]


def _read_only(claim: str) -> dict[str, Any]:
    return {"claimName": claim, "readOnly": True}
