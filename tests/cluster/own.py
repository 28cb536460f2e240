"""The tests' own cluster of this machine: started, found running, and ended with everything that it left.

It needs root and some packages of Debian, and no Docker. One machine has one of them.
"""

import os
import platform
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.cluster import binaries, images, leftovers, network, volumes
from tests.cluster.cluster import Cluster
from tests.cluster.control_plane import ControlPlane
from tests.cluster.node import NAME, Node
from tests.cluster.paths import STATE
from tests.cluster.processes import Process
from tests.waiting import until

# What has to be there, and the package of Debian that brings it.
_PROGRAMS = {
    "containerd": "containerd",
    "runc": "runc",
    "iptables": "iptables",
    "ip": "iproute2",
    "conntrack": "conntrack",
    "buildah": "buildah",
    "debootstrap": "debootstrap",
    "/usr/lib/cni/bridge": "containernetworking-plugins",
}


def lacking() -> str | None:
    """Why there can be no cluster here; None if there can."""
    if platform.system() != "Linux" or os.geteuid() != 0:
        return "the tests' own cluster runs on Linux, as root"
    absent = [package for program, package in _PROGRAMS.items() if shutil.which(program) is None]
    if absent:
        return f"the tests' own cluster needs packages: apt-get install {' '.join(absent)}"
    return binaries.lacking()


@dataclass(frozen=True)
class Machine:
    """The parts of the cluster, by the names of their programs."""

    bound: bool = False  # they end with the process that starts them

    @property
    def plane(self) -> ControlPlane:
        return ControlPlane(STATE / "control-plane", network.ADDRESS, self.bound)

    @property
    def node(self) -> Node:
        return Node(STATE / "node", self.plane, self.bound)

    @property
    def processes(self) -> dict[str, Process]:
        return {process.name: process for process in (*self.plane.processes(), *self.node.processes())}

    @property
    def is_there(self) -> bool:
        """Whether there is a cluster, even if a test has stopped a part of it for a while."""
        return all(self.processes[name].pid is not None for name in ("etcd", "containerd"))

    def start(self, name: str) -> None:
        """Start one part, and wait until it is ready."""
        part = self.plane if name in [process.name for process in self.plane.processes()] else self.node
        part.start(name)

    def stop(self, name: str) -> None:
        """End one part."""
        self.processes[name].stop()

    def load(self, name: str) -> None:
        """Bring an image of `images.NAMES` onto the node, of the code as it is now."""
        self.node.load(name, images.archive(name))

    def renew_volumes(self) -> None:
        """Offer the volumes again whose claims are gone."""
        volumes.renew(self.cluster(), STATE / "volumes", NAME)

    def cluster(self) -> Cluster:
        """The running cluster, as tests see it."""
        return Cluster(self.plane.kubeconfig, binaries.named("kubectl"), self.plane.audit_log, machine=self)


def up(bound: bool = False) -> Cluster:
    """The cluster that is there, with all its parts running again, or a new one.

    Args:
        bound: a new one ends with this process.

    Raises:
        AssertionError: a part does not get ready; the message has the end of its log.
        RuntimeError: a program or an image could not be built.
    """
    with binaries.locked("cluster"):
        machine = Machine()
        if machine.is_there:
            for name, process in machine.processes.items():
                if process.pid is None:
                    machine.start(name)
        else:
            _remove()
            machine = Machine(bound)
            _create(machine)
        machine.renew_volumes()
        return machine.cluster()


def down() -> None:
    """End the cluster and remove all that it left: processes, containers, mounts, bridge, rules, files."""
    with binaries.locked("cluster"):
        _remove()


@contextmanager
def borrowed() -> Iterator[Cluster]:
    """The cluster for one run of the tests: it stays if it was there, and ends if it was not."""
    machine = Machine()
    if machine.is_there:
        machine.renew_volumes()
        yield machine.cluster()
        return
    try:
        yield up(bound=True)
    finally:
        down()


def build() -> dict[str, Path]:
    """Build all programs and the first images into the cache; the archives of the images, by name."""
    for program in binaries.ALL:
        binaries.built(program)
    return {name: images.archive(name) for name in images.FIRST}


def _create(machine: Machine) -> None:
    archives = build()
    network.create()
    machine.plane.prepare()
    machine.node.prepare()
    # Not in the thread: what is bound ends with the thread that started it.
    machine.start("containerd")
    machine.node.forget_containers()
    with ThreadPoolExecutor(1) as pool:
        loaded = pool.map(machine.node.load, archives, archives.values())
        for process in machine.plane.processes():
            machine.start(process.name)
        list(loaded)
    for name in ("kubelet", "kube-proxy", "coredns"):
        machine.start(name)
    # The last thing that the controllers do for a namespace before pods can be made in it.
    account = ("get", "serviceaccount", "default", "--ignore-not-found", "--output=name")
    until(lambda: machine.cluster().kubectl(*account) != "", "the default service account is there")


def _remove() -> None:
    machine = Machine()
    machine.stop("kubelet")  # or it would start again what ends
    leftovers.end_containers(machine.node)
    for process in reversed(machine.processes.values()):
        process.stop()
    leftovers.end_shims(machine.node)
    leftovers.unmount(STATE)
    network.remove()
    leftovers.remove_cgroups()
    if STATE.exists():
        shutil.rmtree(STATE)
