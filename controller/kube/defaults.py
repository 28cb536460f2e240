"""Is there what the installation asks of the API server: its default pools, and the schemas of this code?

A CRD of another version is no reason to stop: fields that it does not know are dropped, and what is there still works.
But who upgrades is to be told.
"""

import logging
from typing import Any

from controller.kube.api import Kube
from controller.kube.connection import Unwritten
from controller.kube.crd import crds, schema_version
from controller.kube.installation import DefaultPool, Installation
from samjobs.errors import AccessDenied, InvalidInput, describe
from samjobs.names import API_VERSION, GROUP, POOL_KIND

log = logging.getLogger("controller")


class Defaults:
    """Keeps the default pools there."""

    def __init__(self, kube: Kube, installation: Installation) -> None:
        self._kube = kube
        self._namespace = installation.namespace
        self._pools = installation.default_pools
        self._applied: set[str] = set()  # by this process

    def keep(self) -> None:
        """Apply each default pool once, and again when it is missing.

        In the fields that the installation names: what a person sets beside them stays.

        Raises:
            KubernetesUnavailable: the API does not answer.
        """
        for pool in self._pools:
            if pool.name in self._applied and self._kube.get_pool(self._namespace, pool.name) is not None:
                continue
            try:
                self._kube.apply_pool(manifest(pool, self._namespace))
            except (AccessDenied, InvalidInput, Unwritten) as error:
                log.error("default pool %s: %s", pool.name, describe(error))
                continue
            self._applied.add(pool.name)
            log.info("default pool %s is applied", pool.name)


def manifest(pool: DefaultPool, namespace: str) -> dict[str, Any]:
    """The pool as an object."""
    return {
        "apiVersion": API_VERSION,
        "kind": POOL_KIND,
        "metadata": {
            "name": pool.name,
            "namespace": namespace,
            "labels": {"app.kubernetes.io/name": "samjobs", "app.kubernetes.io/managed-by": "samjobs"},
        },
        "spec": pool.spec.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude_none=True),
    }


def compare_schemas(kube: Kube) -> None:
    """Log where the installed CRDs are not those of this version.

    Raises:
        KubernetesUnavailable: the API does not answer.
    """
    for plural, own in crds().items():
        try:
            installed = kube.get_crd(plural, GROUP)
        except AccessDenied:
            log.info("the CRDs' versions are not compared: this service account may not read them")
            return
        if installed is not None and schema_version(installed) != schema_version(own):
            log.warning(
                "CRD %s.%s is of another version (%s) than this controller (%s): apply crds/%s.yaml, or upgrade the"
                " chart; fields that it does not know are dropped",
                plural,
                GROUP,
                schema_version(installed),
                schema_version(own),
                plural,
            )
