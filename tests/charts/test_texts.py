"""Names that YAML would take for a number or a truth value stay texts, in every object and in the controller's file:
the API server refuses the others, in the middle of an install."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller.kube.installation import read
from tests.charts.helm import Helm, Rendered
from tests.charts.sets import MONITORED

# Fields of Kubernetes that are texts, and maps of nothing but texts.
TEXTS = frozenset(
    {
        *("name", "namespace", "key", "value", "secretName", "claimName", "serviceName", "serviceAccountName", "claim"),
        *("image", "storageClassName", "storage", "mountPath", "interval", "scrapeTimeout", "password"),
    }
)
MAPS = frozenset({"labels", "annotations", "matchLabels", "podLabels", "podAnnotations", "stringData", "selector"})


def named(word: str) -> dict[str, Any]:
    """Values with this word for every name."""
    return {
        "global": {"imagePullSecrets": [word]},
        "nameOverride": word,
        "fullnameOverride": "samjobs",
        "namespaceOverride": word,
        "watchNamespaces": [word, "team-a"],
        "commonLabels": {"a": word},
        "commonAnnotations": {"a": word},
        "serviceAccount": {"name": word, "annotations": {"a": word}},
        "database": {"existingSecret": word, "existingSecretKey": word, "caSecret": word},
        "redis": {"existingSecret": word, "existingSecretKey": word, "caSecret": word},
        "storage": {"existingSecret": word},
        "webhooks": {"existingSecret": word, "existingSecretKey": word, "tenantsSecret": word},
        "controller": {"podLabels": {"b": word}, "podAnnotations": {"b": word}, "priorityClassName": word},
        "api": {
            "access": "tokens",
            "tokensSecret": word,
            "tokensSecretKey": word,
            "podLabels": {"b": word},
            "serviceAccount": {"name": word},
            "service": {"labels": {"b": word}},
        },
        "worker": {"serviceAccountName": word, "podLabels": {"b": word}, "podAnnotations": {"b": word}},
        "networkPolicy": {"enabled": True},
        **MONITORED,
        "grafanaDashboard": {"enabled": True, "namespace": word},
    }


def trial(word: str) -> dict[str, Any]:
    """The same with servers of its own."""
    own = {"postgres": {"storageClassName": word, "size": word}, "data": {"storageClassName": word, "size": word}}
    return {**named(word), "database": {}, "redis": {}, "embedded": {"enabled": True, **own}}


def no_texts(part: Any, path: str) -> Iterator[str]:
    """Paths of what has to be a text, and is none."""
    inner = part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ()
    for key, value in inner:
        here = f"{path}.{key}"
        if key in TEXTS and not isinstance(value, str | dict):
            yield here
        elif key in MAPS and isinstance(value, dict) and not {"matchLabels", "matchExpressions"} & value.keys():
            yield from (f"{here}.{name}" for name, one in value.items() if not isinstance(one, str))
        else:
            yield from no_texts(value, here)


def wrong(rendered: Rendered) -> list[str]:
    objects = [one for one in rendered.objects if one["kind"] != "CustomResourceDefinition"]
    files = [one["data"]["kubernetes.yaml"] for one in objects if "kubernetes.yaml" in one.get("data", {})]
    assert len(files) == 1
    found = [path for one in objects for path in no_texts(one, f"{one['kind']} {one['metadata']['name']}")]
    return [*found, *no_texts(yaml.safe_load(files[0]), "kubernetes.yaml")]


@pytest.mark.parametrize("word", ["123", "true", "null"])
@pytest.mark.parametrize("values", [named, trial])
def test_a_name_stays_a_text(helm: Helm, tmp_path: Path, values: Any, word: str) -> None:
    rendered = helm.template(values(word), release=word)
    assert wrong(rendered) == []
    file = tmp_path / "kubernetes.yaml"
    file.write_text(rendered.one("ConfigMap", "samjobs-kubernetes")["data"]["kubernetes.yaml"])
    found = read(file)
    assert (found.namespace, found.watch_namespaces) == (word, (word, "team-a"))
    assert found.worker.service_account_name == word
    assert found.worker.image_pull_secrets == ({"name": word},)
    assert found.worker.pod_labels == {"a": word, "b": word}


def test_what_is_looked_for_is_found() -> None:
    """That is, the test above can fail."""
    part = {"metadata": {"name": 123, "labels": {"a": True, "b": "c"}}, "spec": {"selector": {"matchLabels": {"d": 1}}}}
    assert list(no_texts(part, "x")) == ["x.metadata.name", "x.metadata.labels.a", "x.spec.selector.matchLabels.d"]
