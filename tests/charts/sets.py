"""Sets of values that the chart's tests render, each with a name."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import yaml

from tools.chart import ROOT

EXTERNAL: Mapping[str, Any] = MappingProxyType(
    {"database": {"existingSecret": "samjobs-database"}, "redis": {"existingSecret": "samjobs-redis"}}
)
MONITORED: Mapping[str, Any] = MappingProxyType(
    {name: {"enabled": True} for name in ("serviceMonitor", "podMonitor", "prometheusRule", "grafanaDashboard")}
)


def example(name: str) -> dict[str, Any]:
    """A values file of examples/kubernetes."""
    values: dict[str, Any] = yaml.safe_load((ROOT / "examples/kubernetes" / f"{name}.yaml").read_text())
    return values


def everything() -> dict[str, Any]:
    """As much as can be turned on at once."""
    return {
        **EXTERNAL,
        "database": {"existingSecret": "samjobs-database", "sslmode": "verify-full", "caSecret": "database-ca"},
        "redis": {"existingSecret": "samjobs-redis", "caSecret": "redis-ca"},
        "global": {"imageRegistry": "mirror.example.com", "imagePullSecrets": [{"name": "regcred"}]},
        "image": {"digest": "sha256:" + "0" * 64},
        "commonLabels": {"team": "vision"},
        "commonAnnotations": {"example.com/owner": "vision"},
        "watchNamespaces": ["team-a", "team-b"],
        "settings": {"SAMJOBS_MEMORY_BYTES": 2147483648, "SAMJOBS_DATABASE_POOLED": True},
        "storage": {
            "existingSecret": "bucket",
            "env": [{"name": "AWS_ENDPOINT_URL", "value": "https://s3.example.com"}],
        },
        "webhooks": {"existingSecret": "webhook", "tenantsSecret": "webhooks"},
        "pools": [
            {
                "name": "gpu",
                "spec": {
                    "region": "eu",
                    "scaling": {"maxReplicas": 4},
                    "resources": {"limits": {"nvidia.com/gpu": 2, "memory": "24Gi"}},
                },
            }
        ],
        "controller": {
            "nodeSelector": {"role": "system"},
            "priorityClassName": "system-cluster-critical",
            "podAnnotations": {"example.com/a": "b"},
            "extraEnv": [{"name": "LOG", "value": "1"}],
            "extraVolumes": [{"name": "more", "emptyDir": {}}],
            "extraVolumeMounts": [{"name": "more", "mountPath": "/more"}],
            "podDisruptionBudget": {"enabled": True},
        },
        "api": {
            "replicas": 2,
            "access": "tokens",
            "tokensSecret": "api-tokens",
            "serviceAccount": {"annotations": {"example.com/role": "reader"}},
            "service": {"type": "LoadBalancer", "port": 8080, "annotations": {"example.com/internal": "true"}},
            "nodeSelector": {"role": "system"},
            "podLabels": {"example.com/exposed": "true"},
            "extraEnv": [{"name": "LOG", "value": "1"}],
            "extraVolumes": [{"name": "more", "emptyDir": {}}],
            "extraVolumeMounts": [{"name": "more", "mountPath": "/more"}],
            "podDisruptionBudget": {"enabled": True, "minAvailable": 1},
        },
        "worker": {
            "allowedImages": ["registry.example.com/other:1"],
            "serviceAccountName": "bucket-reader",
            "extraEnv": [{"name": "HF_HUB_OFFLINE", "value": "1"}],
            "podDisruptionBudget": {"enabled": True, "minAvailable": "50%"},
        },
        **MONITORED,
        "networkPolicy": {"enabled": True},
        "extraObjects": [
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "{{ .Release.Name }}-extra"}},
        ],
    }


SETS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "external": EXTERNAL,
        "urls": {"database": {"url": "postgresql://u:p@db/samjobs"}, "redis": {"url": "redis://:p@redis:6379/0"}},
        "embedded": {"embedded": {"enabled": True}},
        "embedded with policies": {"embedded": {"enabled": True}, "networkPolicy": {"enabled": True}},
        "half embedded": {"embedded": {"enabled": True}, "database": {"existingSecret": "samjobs-database"}},
        "everything": everything(),
        "example trial": example("trial"),
        "example production": example("production"),
    }
)
