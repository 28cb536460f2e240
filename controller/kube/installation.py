"""What does an installation set for Kubernetes? One YAML file, which the chart renders from its values.

Its presence (`SAMJOBS_KUBERNETES_CONFIG`) makes a controller an operator: it watches SamJobs and SamWorkerPools, and
runs workers as pods.
"""

import logging
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import Field

from samjobs.errors import InvalidInput
from samjobs.pool import ObjectName, PoolSpec
from samjobs.spec import Model, parse

log = logging.getLogger("controller")


class WorkerDefaults(Model):
    """What every worker pod has, whatever its pool says. In the words of a pod, since an administrator sets it."""

    image: str = Field(min_length=1, description="Of workers whose pool names none.")
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] = Field("IfNotPresent", description="As in a pod.")
    image_pull_secrets: tuple[dict[str, Any], ...] = Field((), description="As in a pod.")
    allowed_images: tuple[str, ...] = Field((), description="Further images that a pool may name; `*` allows any.")
    service_account_name: str | None = Field(None, description="Left out: the namespace's default, without a token.")
    env: tuple[dict[str, Any], ...] = Field((), description="As in a container: database, Redis, storage.")
    env_from: tuple[dict[str, Any], ...] = Field((), description="As in a container.")
    volumes: tuple[dict[str, Any], ...] = Field((), description="As in a pod.")
    volume_mounts: tuple[dict[str, Any], ...] = Field((), description="As in a container.")
    pod_labels: dict[str, str] = Field({}, description="Further labels of the pods.")
    pod_annotations: dict[str, str] = Field({}, description="Annotations of the pods.")
    pod_security_context: dict[str, Any] = Field({}, description="Laid over the restricted one.")
    security_context: dict[str, Any] = Field({}, description="The container's, laid over the restricted one.")


class DefaultPool(Model):
    """A pool that the controller makes, and keeps as it stands here."""

    name: ObjectName
    spec: PoolSpec = PoolSpec()


class Installation(Model):
    """The whole file."""

    namespace: ObjectName = Field(description="The controller's own, where the default pools are made.")
    watch_namespaces: tuple[ObjectName, ...] = Field((), description="Left out: all, which needs rights for all.")
    worker: WorkerDefaults
    default_pools: tuple[DefaultPool, ...] = ()
    list_seconds: float = Field(60, gt=0, description="Time between two full looks at all objects.")


def read(path: Path) -> Installation:
    """The file's content, less the default pools that are wrong: each is logged and left out, since the other pools and
    everybody's jobs do not depend on it.

    Raises:
        InvalidInput: it cannot be read, or a field outside the default pools is wrong.
    """
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise InvalidInput(f"SAMJOBS_KUBERNETES_CONFIG: {path}: {error}: mount the file that the chart makes") from None
    if isinstance(data, dict) and isinstance(data.get("defaultPools"), list):
        pools = [pool for number, pool in enumerate(data["defaultPools"]) if _is_pool(pool, f"defaultPools.{number}")]
        data = {**data, "defaultPools": pools}
    return parse(Installation, data, str(path))


def _is_pool(data: Any, where: str) -> bool:
    """Whether it is a default pool; what is wrong with it is logged."""
    try:
        parse(DefaultPool, data, where)
    except InvalidInput as error:
        name = data.get("name") if isinstance(data, dict) else None
        log.error("default pool %s is left out: %s: correct it in the chart's value `pools`", name, error)
        return False
    return True
