"""SAM 3's real code in a pool's pods: weights on a volume, a checksum, a GPU's slot, and masks that lie on what was
drawn.

The image has torch (6 GB) and takes minutes to build, so these tests run by `make e2e-full` alone. The node's GPUs are
numbers; the weights are those of the tiny checkpoint, on the CPU.
"""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from PIL import Image

from samjobs.segmentation import records
from samjobs.segmentation.records import Record
from tests.cli.test_sam3 import FIRST_SEED, Score, masks
from tests.cluster.cluster import Cluster
from tests.e2e.chart import Chart, in_its_own_namespace
from tests.e2e.release import Release
from tests.e2e.site import Site
from tools.tiny_sam3.scenes import make_scene

CHECKPOINT = Path(__file__).parents[2] / "data" / "sam3-tiny"
CLAIM, LOADER = "weights", "loader"
SCENES, SIZE = 12, (640, 480)
COLOURS = ("red", "blue")
RESOURCES = {
    "requests": {"cpu": "100m", "memory": "1Gi"},
    "limits": {"memory": "4Gi", "nvidia.com/gpu": "1"},
}


@pytest.fixture(scope="module")
def chart(cluster: Cluster) -> Iterator[Chart]:
    """The chart, whose workers are of the image with torch; with the checkpoint on a volume."""
    cluster.load(cluster.images.full_worker)
    tag = cluster.images.full_worker.rpartition(":")[2]
    with in_its_own_namespace(cluster, worker={"image": {"tag": tag}}) as made:
        made.install()
        bring_weights(made.release)
        yield made


@pytest.fixture
def site(chart: Chart) -> Iterator[Site]:
    made = Site(chart.release, f"r{uuid4().hex[:6]}")
    yield made
    made.clear()


def bring_weights(release: Release) -> None:
    """Copy the checkpoint onto a volume, as an administrator would: by a pod that mounts it."""
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": CLAIM},
        "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "100Mi"}}},
    }
    container = {
        "name": LOADER,
        "image": release.cluster.images.controller,
        "command": ["sleep", "infinity"],
        "volumeMounts": [{"name": CLAIM, "mountPath": "/weights"}],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": LOADER},
        "spec": {
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 1,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 10001,
                "fsGroup": 10001,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [container],
            "volumes": [{"name": CLAIM, "persistentVolumeClaim": {"claimName": CLAIM}}],
        },
    }
    release.apply(claim, pod)
    release.kubectl("wait", f"pod/{LOADER}", "--for=condition=Ready", "--timeout=60s")
    release.kubectl("cp", str(CHECKPOINT), f"{LOADER}:/weights/sam3")
    release.kubectl("delete", "pod", LOADER)


def pool(site: Site, sha256: str, **spec: Any) -> str:
    """A pool of one worker with those weights; its name."""
    return site.pool(
        engine="sam3",
        model={"claim": {"name": CLAIM, "path": "sam3"}, "sha256": sha256},
        resources=RESOURCES,
        env=[{"name": "SAMJOBS_DEVICE", "value": "cpu"}],
        **spec,
    )


def conditions(site: Site, name: str) -> dict[str, dict[str, str]]:
    """The pool's conditions that hold."""
    listed = site.release.get("samworkerpool", name).get("status", {}).get("conditions", [])
    return {one["type"]: one for one in listed if one["status"] == "True"}


def test_phrases_find_what_was_drawn(site: Site, tmp_path: Path) -> None:
    scenes = {f"scene-{number}.png": make_scene(FIRST_SEED + number, *SIZE) for number in range(SCENES)}
    (tmp_path / "here" / "photos").mkdir(parents=True)
    for key, scene in scenes.items():
        Image.fromarray(scene.image).save(tmp_path / "here" / "photos" / key)
    site.release.put(tmp_path / "here", site.folder)
    weights = hashlib.sha256((CHECKPOINT / "model.safetensors").read_bytes()).hexdigest()
    name = pool(site, weights)
    phrases = [{"text": f"{colour} shape"} for colour in COLOURS]
    job = site.job("shapes", {"prefix": f"{site.folder}/photos"}, engine="sam3", prompts={"text": phrases})
    site.release.kubectl("wait", f"samjob/{job}", "--for=condition=Complete", "--timeout=240s")

    site.release.fetch(f"{site.folder}/shapes", tmp_path / "masks")
    score = Score([])
    for key, scene in scenes.items():
        record = records.load((tmp_path / "masks" / "records" / f"{key}.json").read_bytes())
        assert isinstance(record, Record)
        for colour in COLOURS:
            theirs = scene.masks()[[kind[1] == colour for kind in scene.kinds]]
            score.add(masks(record)[[one.label == f"{colour} shape" for one in record.instances]], theirs)
    assert score.recall >= 0.9
    assert score.precision >= 0.9
    assert score.iou >= 0.8
    [pod] = site.pods(name).values()
    [container] = pod["spec"]["containers"]
    assert container["image"] == "samjobs-worker:full"
    assert container["resources"]["limits"]["nvidia.com/gpu"] == "1"


def test_other_weights_than_were_asked_for_are_not_loaded(site: Site) -> None:
    name = pool(site, "0" * 64, replicas=1)
    site.until(lambda: "ModelUnavailable" in conditions(site, name), "the pool says that its model is not to be had")
    told = conditions(site, name)["ModelUnavailable"]["message"]
    assert "model.safetensors: its SHA-256 is" in told
    assert f"not {'0' * 64}" in told
    assert "Ready" not in conditions(site, name)
