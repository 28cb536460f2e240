"""Thousands of SamJobs: made by several hands at once, and looked at in chunks."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kubernetes import client, config

from samjobs.names import GROUP, JOB_PLURAL, VERSION
from tests.controller.kube.bed import manifest

HANDS = 4
CHUNK = 500


class Many:
    """The SamJobs of a namespace, by the official client: kubectl allows itself 50 requests a second."""

    def __init__(self, api: client.ApiClient, namespace: str) -> None:
        self._objects = client.CustomObjectsApi(api)
        self.namespace = namespace
        self._kind = (GROUP, VERSION, namespace, JOB_PLURAL)

    def make(self, names: Iterable[str], *, finalizers: Sequence[str] = (), **spec: Any) -> None:
        """SamJobs of one image each."""
        one = {"images": {"list": [{"image": "/photos/1.png"}]}, **spec}

        def create(name: str) -> None:
            body = manifest(self.namespace, name, **one)
            body["metadata"]["finalizers"] = list(finalizers)
            self._objects.create_namespaced_custom_object(*self._kind, body)

        with ThreadPoolExecutor(HANDS) as hands:
            list(hands.map(create, names))

    def delete(self, names: Iterable[str]) -> None:
        for name in names:
            self._objects.delete_namespaced_custom_object(*self._kind, name)

    def patch(self, names: Iterable[str], **body: Any) -> None:
        for name in names:
            self._objects.patch_namespaced_custom_object(*self._kind, name, body)

    def all(self) -> dict[str, dict[str, Any]]:
        """All of them by name."""
        found: dict[str, dict[str, Any]] = {}
        more = ""
        while True:
            page = self._objects.list_namespaced_custom_object(*self._kind, limit=CHUNK, _continue=more)
            found |= {obj["metadata"]["name"]: obj for obj in page["items"]}
            more = page["metadata"].get("continue", "")
            if not more:
                return found

    def phases(self) -> Counter[str]:
        """How many are told to be in which phase; "" for those without a status."""
        return Counter(phase_of(obj) for obj in self.all().values())


def phase_of(obj: dict[str, Any]) -> str:
    return str((obj.get("status") or {}).get("phase", ""))


@contextmanager
def many(kubeconfig: Path, namespace: str) -> Iterator[Many]:
    """Connections to the API server of `kubeconfig`."""
    with config.new_client_from_config(str(kubeconfig)) as api:
        yield Many(api, namespace)
