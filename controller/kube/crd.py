"""What are SamJob and SamWorkerPool to an API server: schemas, columns, short names, subresources?

Pure data, made from JobSpec and PoolSpec; `make crds` writes it to crds/ and into the chart. Each CRD carries a hash of
its schema, by which a controller sees at its start whether the installed one is its own.
"""

import hashlib
import json
from typing import Any

from controller.kube import statuses
from controller.kube.deployment import LONGEST_POOL_NAME
from controller.kube.jobrules import LEFT_OUT
from controller.kube.structural import Schema, structural
from samjobs.names import (
    GROUP,
    JOB_KIND,
    JOB_PLURAL,
    POOL_KIND,
    POOL_PLURAL,
    SCHEMA_VERSION_ANNOTATION,
    VERSION,
)
from samjobs.pool import PoolSpec
from samjobs.spec import JobSpec

CATEGORY = "sam"  # `kubectl get sam` shows both kinds


def crds() -> dict[str, dict[str, Any]]:
    """Plural name → CustomResourceDefinition."""
    return {JOB_PLURAL: _job(), POOL_PLURAL: _pool()}


def schema_version(crd: dict[str, Any]) -> str | None:
    """The hash that a CRD carries, installed or made here; None: it was not made by samjobs."""
    annotations: dict[str, str] = crd["metadata"].get("annotations") or {}
    return annotations.get(SCHEMA_VERSION_ANNOTATION)


def _job() -> dict[str, Any]:
    spec = structural(JobSpec, "The job that is asked for. Only suspend, priority, ttlSecondsAfterFinished may change.")
    for field in LEFT_OUT:
        del spec["properties"][field]
    version = {
        "schema": _whole(
            "A batch of images to segment, with one mode, one prompt set, one output place.", spec, statuses.JOB
        ),
        "subresources": {"status": {}},
        "selectableFields": [{"jsonPath": ".spec.region"}, {"jsonPath": ".status.phase"}],
        "additionalPrinterColumns": [
            _column("Mode", ".spec.mode", "What the prompts mean"),
            _column("Phase", ".status.phase", "Where the job stands"),
            _column("Progress", ".status.progress", "Images that are finished, of all"),
            _column("Failed", ".status.images.failed", "Images that failed", "integer"),
            _column("Pool", ".spec.region", "Region whose workers take it"),
            _column("Message", ".status.message", "The state in words", wide=True),
            _column("Engine", ".spec.engine", "What segments", wide=True),
            _column("Started", ".status.startTime", "Time since its first image", "date", wide=True),
            _column("Finished", ".status.completionTime", "Time since its end", "date", wide=True),
            _column("Job", ".status.jobId", "Id in the job table", wide=True),
            _column("Age", ".metadata.creationTimestamp", "Time since it was made", "date"),
        ],
    }
    return _crd(JOB_KIND, JOB_PLURAL, "sj", version)


def _pool() -> dict[str, Any]:
    spec = structural(PoolSpec, "A set of equal workers of one region.")
    whole = _whole("Workers that keep one engine loaded and take the jobs of one region.", spec, statuses.POOL)
    whole["openAPIV3Schema"]["x-kubernetes-validations"] = [
        {
            "rule": f"self.metadata.name.size() <= {LONGEST_POOL_NAME}",
            "message": f"the name is a label of the pool's pods: give at most {LONGEST_POOL_NAME} characters",
        }
    ]
    version = {
        "schema": whole,
        "subresources": {
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas",
                "labelSelectorPath": ".status.selector",
            },
        },
        "selectableFields": [{"jsonPath": ".spec.region"}],
        "additionalPrinterColumns": [
            _column("Region", ".spec.region", "Whose jobs the workers take"),
            _column("Engine", ".spec.engine", "What they keep loaded"),
            _column("Desired", ".status.desiredReplicas", "Workers that are wanted", "integer"),
            _column("Ready", ".status.readyReplicas", "Workers that could take work", "integer"),
            _column("Busy", ".status.busyReplicas", "Workers that are at work", "integer"),
            _column("Reason", ".status.reason", "Why there are as many"),
            _column("Message", ".status.message", "Why, in words", wide=True),
            _column("Min", ".spec.scaling.minReplicas", "Never fewer", "integer", wide=True),
            _column("Max", ".spec.scaling.maxReplicas", "Never more", "integer", wide=True),
            _column("Replicas", ".spec.replicas", "Set by hand, by HPA or by KEDA", "integer", wide=True),
            _column("Age", ".metadata.creationTimestamp", "Time since it was made", "date"),
        ],
    }
    return _crd(POOL_KIND, POOL_PLURAL, "swp", version)


def _whole(description: str, spec: Schema, status: Schema) -> Schema:
    return {
        "openAPIV3Schema": {
            "type": "object",
            "description": description,
            "required": ["spec"],
            "properties": {
                "apiVersion": {"type": "string", "description": f"{GROUP}/{VERSION}"},
                "kind": {"type": "string", "description": "Name of this kind."},
                "metadata": {"type": "object"},  # described by the API server itself
                "spec": spec,
                "status": status,
            },
        }
    }


def _column(name: str, path: str, description: str, kind: str = "string", wide: bool = False) -> dict[str, Any]:
    made = {"name": name, "type": kind, "jsonPath": path, "description": description}
    return made | ({"priority": 1} if wide else {})


def _crd(kind: str, plural: str, short: str, version: dict[str, Any]) -> dict[str, Any]:
    spec = {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {
            "kind": kind,
            "listKind": f"{kind}List",
            "plural": plural,
            "singular": kind.lower(),
            "shortNames": [short],
            "categories": [CATEGORY],
        },
        "versions": [{"name": VERSION, "served": True, "storage": True, **version}],
    }
    digest = hashlib.blake2b(json.dumps(spec, sort_keys=True).encode(), digest_size=8).hexdigest()
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}", "annotations": {SCHEMA_VERSION_ANNOTATION: digest}},
        "spec": spec,
    }
