"""What a person asks for when GPUs are to work: the one PoolSpec from which the SamWorkerPool CRD and the docs derive.

A pool is a set of equal workers of one region, and one Deployment. Whoever may create a pool may create pods, so what
is taken over into the pod is an allow-list; names of secrets and claims are of the pool's own namespace.
"""

from enum import StrEnum
from itertools import pairwise
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, StringConstraints, field_validator, model_validator

from samjobs.names import DEFAULT_REGION, GPU_RESOURCE
from samjobs.spec import Model, Name

ObjectName = Annotated[
    str, StringConstraints(min_length=1, max_length=253, pattern=r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$")
]
QUANTITY = r"^[0-9]+(\.[0-9]+)?[A-Za-z]{0,2}$"


def _as_text(value: Any) -> Any:
    """A plain number in YAML: `nvidia.com/gpu: 1`."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


Quantity = Annotated[str, StringConstraints(min_length=1, max_length=64, pattern=QUANTITY), BeforeValidator(_as_text)]
AbsolutePath = Annotated[str, StringConstraints(min_length=1, max_length=1024, pattern=r"^/.*$")]
EnvName = Annotated[str, StringConstraints(min_length=1, max_length=256, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
Text = Annotated[str, StringConstraints(max_length=4096)]


class ScalingMode(StrEnum):
    """Who says how many workers there are."""

    AUTO = "auto"  # the controller, from the job table
    EXTERNAL = "external"  # whoever writes spec.replicas: kubectl scale, HPA, KEDA


class ScalingPolicy(StrEnum):
    """From what the number of workers is made."""

    STEPS = "steps"  # a table: this many shards, this many workers
    BACKLOG = "backlog"  # as many as work off what waits within a time, by the measured speed


class ScalingStep(Model):
    """One row of the table of `steps`."""

    shards: int = Field(ge=1, le=1_000_000, description="Up to this many shards that wait or run …")
    replicas: int = Field(ge=1, le=1000, description="… this many workers; above the last step, its count plus one.")


DEFAULT_STEPS = (
    ScalingStep(shards=10, replicas=1),
    ScalingStep(shards=30, replicas=2),
    ScalingStep(shards=60, replicas=3),
    ScalingStep(shards=100, replicas=4),
)


class Scaling(Model):
    """How many workers there are."""

    mode: ScalingMode = Field(ScalingMode.AUTO, description="auto: by the job table. external: spec.replicas alone.")
    min_replicas: int = Field(0, ge=0, le=1000, description="Never fewer, also without work.")
    max_replicas: int = Field(1, ge=1, le=1000, description="Never more.")
    policy: ScalingPolicy = Field(ScalingPolicy.BACKLOG, description="From what the number is made.")
    steps: tuple[ScalingStep, ...] = Field(
        DEFAULT_STEPS,
        min_length=1,
        max_length=32,
        description="The table of policy steps, in rising order; left out: 1, 2, 3, 4 workers to 10, 30, 60, 100.",
    )
    target_seconds: int = Field(
        600, ge=1, le=604_800, description="With policy backlog: what waits is to be done within this time."
    )
    up_cooldown_seconds: int = Field(
        30, ge=0, le=86_400, description="Least time between two increases; the first worker comes at once."
    )
    down_cooldown_seconds: int = Field(
        120, ge=0, le=86_400, description="So long fewer must have been enough before workers go."
    )

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.min_replicas > self.max_replicas:
            raise ValueError(f"minReplicas {self.min_replicas} is above maxReplicas {self.max_replicas}")
        rows = [(step.shards, step.replicas) for step in self.steps]
        if any(a[0] >= b[0] or a[1] > b[1] for a, b in pairwise(rows)):
            raise ValueError("steps are not in rising order: give shards that rise and replicas that do not fall")
        return self


class SecretKey(Model):
    """One key of a Secret in the pool's namespace."""

    name: ObjectName = Field(description="The Secret.")
    key: Annotated[str, StringConstraints(min_length=1, max_length=253)] = Field(description="Its key.")


class HubModel(Model):
    """Weights from the Hugging Face hub."""

    id: Annotated[str, StringConstraints(min_length=1, max_length=253)] = Field(description="E.g. facebook/sam3.")
    revision: Annotated[str, StringConstraints(min_length=1, max_length=128)] | None = Field(
        None, description="Commit; left out, the newest, which may differ from pod to pod."
    )
    token_secret: SecretKey | None = Field(None, description="Access token for gated weights.")


class ClaimedModel(Model):
    """Weights on a volume."""

    name: ObjectName = Field(description="The PersistentVolumeClaim; mounted read-only at /models.")
    path: Annotated[str, StringConstraints(max_length=1024, pattern=r"^([^/.][^/]*(/[^/.][^/]*)*)?$")] = Field(
        "", description="Folder or file below the volume's root; left out, the root."
    )


class ModelSource(Model):
    """Where a worker has its weights from: at most one of claim, hub, path."""

    claim: ClaimedModel | None = Field(None, description="A volume that holds them.")
    hub: HubModel | None = Field(None, description="The hub; kept in the pool's cache.")
    path: AbsolutePath | None = Field(None, description="A path in the image, or on one of the pool's volumes.")
    sha256: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")] | None = Field(
        None, description="SHA-256 of the weights file; a worker whose file differs does not start."
    )

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        given = [name for name in ("claim", "hub", "path") if getattr(self, name) is not None]
        if len(given) > 1:
            raise ValueError(f"one of claim, hub, path is enough, not {given}")
        return self


class EnvVar(Model):
    """An environment variable of the worker."""

    name: EnvName = Field(description="Not one that the controller sets itself.")
    value: Text | None = Field(None, description="Its value; no secrets.")
    secret: SecretKey | None = Field(None, description="Its value from a Secret.")

    @model_validator(mode="after")
    def _one_value(self) -> Self:
        if (self.value is None) == (self.secret is None):
            raise ValueError(f"{self.name}: give either value or secret")
        return self


class ClaimVolume(Model):
    """A further volume of the worker."""

    claim: ObjectName = Field(description="A PersistentVolumeClaim.")
    mount_path: AbsolutePath = Field(description="Where it is in the worker.")
    read_only: bool = Field(True, description="False where results are written to it.")


class Cache(Model):
    """Where a worker keeps what it fetched from the hub."""

    claim: ObjectName | None = Field(None, description="A PersistentVolumeClaim; left out, lost with the pod.")
    size_limit: Quantity = Field("20Gi", description="Of a cache that is lost with the pod.")


class Resources(Model):
    """CPU, memory and GPUs of one worker."""

    requests: dict[str, Quantity] = Field({}, max_length=16, description="As in a container.")
    limits: dict[str, Quantity] = Field({}, max_length=16, description="As in a container.")


class Toleration(Model):
    """As in a pod."""

    key: Annotated[str, StringConstraints(max_length=317)] | None = Field(None, description="Taint key.")
    operator: Literal["Exists", "Equal"] = Field("Equal", description="Exists takes any value.")
    value: Annotated[str, StringConstraints(max_length=63)] | None = Field(None, description="Taint value.")
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = Field(
        None, description="Left out: all effects."
    )
    toleration_seconds: int | None = Field(
        None, ge=0, le=2**31 - 1, description="How long a NoExecute taint is tolerated."
    )


class PoolSpec(Model):
    """A set of equal workers of one region."""

    region: Name = Field(DEFAULT_REGION, description="Whose jobs they take. One pool per region.")
    engine: Literal["sam3", "sam3-meta", "opencv"] = Field("sam3", description="What they keep loaded.")
    model: ModelSource = Field(ModelSource(), description="Where the weights are; left out, the engine's own default.")
    replicas: int | None = Field(
        None, ge=0, le=1000, description="By hand, by HPA or by KEDA; left out, the controller decides by `scaling`."
    )
    scaling: Scaling = Field(Scaling(), description="How many workers there are.")
    resources: Resources = Field(
        Resources(limits={GPU_RESOURCE: "1"}), description="Of one worker; one GPU where nothing is given."
    )
    image: Annotated[str, StringConstraints(min_length=1, max_length=512)] | None = Field(
        None, description="Another worker image, of those that the installation allows."
    )
    image_pull_secrets: tuple[ObjectName, ...] = Field((), max_length=16, description="Secrets for its registry.")
    node_selector: dict[str, Annotated[str, StringConstraints(max_length=63)]] = Field(
        {}, max_length=32, description="Labels of the nodes."
    )
    tolerations: tuple[Toleration, ...] = Field((), max_length=32, description="Taints of the nodes that are borne.")
    affinity: dict[str, Any] = Field({}, description="As in a pod.")
    priority_class_name: ObjectName | None = Field(None, description="As in a pod.")
    runtime_class_name: ObjectName | None = Field(None, description="As in a pod, e.g. nvidia.")
    env: tuple[EnvVar, ...] = Field((), max_length=64, description="Further environment variables.")
    volumes: tuple[ClaimVolume, ...] = Field((), max_length=16, description="Further volumes.")
    cache: Cache = Field(Cache(), description="For weights from the hub.")
    pod_labels: dict[str, Annotated[str, StringConstraints(max_length=63)]] = Field(
        {}, max_length=32, description="Further labels of the pods."
    )
    pod_annotations: dict[str, Text] = Field({}, max_length=32, description="Annotations of the pods.")
    termination_grace_period_seconds: int = Field(
        300, ge=5, le=86_400, description="How long a worker may take to finish its image and write it."
    )

    @field_validator("env")
    @classmethod
    def _each_once(cls, value: tuple[EnvVar, ...]) -> tuple[EnvVar, ...]:
        names = [one.name for one in value]
        twice = [name for number, name in enumerate(names) if name in names[:number]]
        if twice:
            raise ValueError(f"{twice[0]} is set twice: leave one of them out")
        return value
