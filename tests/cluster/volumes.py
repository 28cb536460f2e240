"""Storage for claims: folders of the node, each offered once, of the class that a claim gets when it names none.

There is no provisioner. The volumes are of the kind `local`, since for that kind the kubelet obeys `fsGroup`, as it
does for a cloud's disks; for `hostPath` it does not. `renew` empties those whose claims are gone, to offer them again.
"""

import shutil
from pathlib import Path
from typing import Any

from tests.cluster.client import Client

CLASS = "local"
_COUNT = 16
_SIZE = "20Gi"  # what it says; nothing holds it to that


def renew(client: Client, folder: Path, node: str) -> None:
    """Offer every volume that no claim has."""
    found = {
        volume["metadata"]["name"]: volume["status"]["phase"] for volume in client.get("persistentvolumes")["items"]
    }
    names = [f"local-{number}" for number in range(_COUNT)]
    used = [name for name in names if found.get(name) in ("Released", "Failed")]
    if used:
        client.kubectl("delete", "persistentvolume", *used)
    new = [name for name in names if name not in found or name in used]
    for name in new:
        shutil.rmtree(folder / name, ignore_errors=True)
        (folder / name).mkdir(parents=True)
        (folder / name).chmod(0o777)  # for pods that run as somebody and name no fsGroup
    if new:
        client.apply(_class(), *(_volume(name, folder / name, node) for name in new))


def _class() -> dict[str, Any]:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": CLASS, "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def _volume(name: str, path: Path, node: str) -> dict[str, Any]:
    place = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "storageClassName": CLASS,
            "capacity": {"storage": _SIZE},
            "accessModes": ["ReadWriteOnce", "ReadWriteMany", "ReadOnlyMany"],
            "persistentVolumeReclaimPolicy": "Retain",
            "local": {"path": str(path)},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [place]}]}},
        },
    }
