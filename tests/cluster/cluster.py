"""A cluster as tests see it: a client's powers, the names of images, and for our own the power to stop its parts."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.cluster.client import Client
from tests.cluster.images import NAMES, Images

if TYPE_CHECKING:
    from tests.cluster.own import Machine


@dataclass(frozen=True)
class Cluster(Client):
    """A whole cluster; `machine` is None where it is not the tests' own."""

    images: Images = NAMES
    machine: "Machine | None" = None

    @contextmanager
    def namespace(self, wait: bool = True) -> Iterator[str]:
        """As `Client.namespace`; the volumes that its claims had are offered again afterwards."""
        with super().namespace(wait) as name:
            yield name
        if self.machine is not None:
            self.machine.renew_volumes()

    def start(self, name: str) -> None:
        """Start a part that was stopped, such as `kube-apiserver`, and wait until it is ready."""
        self._own.start(name)

    def stop(self, name: str) -> None:
        """Stop a part: etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kubelet, kube-proxy, coredns."""
        self._own.stop(name)

    def restart(self, name: str) -> None:
        """Stop a part, start it again at the same address, and wait until it is ready."""
        self.stop(name)
        self.start(name)

    def load(self, image: str) -> None:
        """Bring an image of `images` onto the node, built from the code as it is now."""
        self._own.load(image)

    @property
    def _own(self) -> "Machine":
        assert self.machine is not None, "only the tests' own cluster can be changed: SAMJOBS_TEST_CLUSTER=own"
        return self.machine
