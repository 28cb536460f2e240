"""etcd and the API server, and for a node the controllers and the scheduler: real ones, as processes of this machine.

The first two alone are `control_plane_only()`: objects, schemas, admission, RBAC, watches, server-side apply are real
within seconds, without root. Nothing acts on the objects there: no pod runs, no namespace that is deleted goes away.
"""

import json
import shutil
import socket
import ssl
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.cluster import binaries
from tests.cluster.certificates import Authority
from tests.cluster.client import Client
from tests.cluster.processes import Process
from tests.waiting import until

DOMAIN = "cluster.local"
SERVICES = "10.96.0.0/16"
PODS = "10.244.0.0/16"
_API_SERVICE = "10.96.0.1"
_AUDIT = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata"}],
}


@dataclass(frozen=True)
class ControlPlane:
    """The control plane with its state in `folder`. `node_address` is None where there is no node."""

    folder: Path
    node_address: str | None = None
    bound: bool = False  # ends with the process that started it

    @property
    def kubeconfig(self) -> Path:
        """How its administrator reaches it."""
        return self.folder / "kubeconfig"

    @property
    def audit_log(self) -> Path:
        """One JSON object a line for each request: verb, user, objectRef, responseStatus; no bodies."""
        return self.folder / "audit.log"

    @property
    def authority(self) -> Authority:
        """What signs its certificates."""
        return Authority(self.folder / "pki")

    @property
    def server(self) -> str:
        """The address of the API server on this machine. Its port stays the same when it is started again."""
        return f"https://127.0.0.1:{self._ports['api']}"

    def processes(self) -> Sequence[Process]:
        """Its programs, in the order in which they start."""
        names = ["etcd", "kube-apiserver"]
        if self.node_address is not None:
            names += ["kube-controller-manager", "kube-scheduler"]
        return [Process(self.folder, name) for name in names]

    def prepare(self) -> None:
        """Write certificates and configuration; nothing runs yet."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._ports_file.write_text(json.dumps(dict(zip(("etcd", "peers", "api"), _free_ports(3), strict=True))))
        hosts = ["127.0.0.1", _API_SERVICE, "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"]
        hosts += [f"kubernetes.default.svc.{DOMAIN}", *([self.node_address] if self.node_address else [])]
        authority = self.authority
        authority.sign("api", "kube-apiserver", hosts=hosts)
        authority.sign("admin", "admin", ["system:masters"])
        authority.signing_key()
        (self.folder / "audit.json").write_text(json.dumps(_AUDIT))
        authority.kubeconfig(self.kubeconfig, self.server, "admin", ["system:masters"])
        for name in ("kube-controller-manager", "kube-scheduler"):
            authority.kubeconfig(self.folder / f"{name}.kubeconfig", self.server, f"system:{name}")

    def start(self, name: str) -> None:
        """Start one of its programs, and wait until it serves where others need that.

        Raises:
            AssertionError: it does not become ready; the message has the end of its log.
        """
        process = Process(self.folder, name)
        process.start([binaries.named(name), *self._arguments(name)], bound=self.bound)
        if name == "kube-apiserver":
            self._await(process)

    @property
    def _ports_file(self) -> Path:
        return self.folder / "ports.json"

    @property
    def _ports(self) -> dict[str, int]:
        ports: dict[str, int] = json.loads(self._ports_file.read_text())
        return ports

    def _arguments(self, name: str) -> list[str]:
        pki, ports = self.folder / "pki", self._ports
        if name == "etcd":
            clients, peers = (f"http://127.0.0.1:{ports[which]}" for which in ("etcd", "peers"))
            return [
                f"--data-dir={self.folder}/etcd",
                "--unsafe-no-fsync",
                f"--listen-client-urls={clients}",
                f"--advertise-client-urls={clients}",
                f"--listen-peer-urls={peers}",
                f"--initial-advertise-peer-urls={peers}",
                f"--initial-cluster=default={peers}",
                "--log-level=warn",
            ]
        if name == "kube-apiserver":
            return [
                f"--etcd-servers=http://127.0.0.1:{ports['etcd']}",
                f"--secure-port={ports['api']}",
                "--allow-privileged=true",
                "--authorization-mode=Node,RBAC",
                f"--service-cluster-ip-range={SERVICES}",
                f"--client-ca-file={pki}/ca.crt",
                f"--tls-cert-file={pki}/api.crt",
                f"--tls-private-key-file={pki}/api.key",
                f"--service-account-issuer=https://kubernetes.default.svc.{DOMAIN}",
                f"--service-account-key-file={pki}/service-accounts.key",
                f"--service-account-signing-key-file={pki}/service-accounts.key",
                f"--audit-policy-file={self.folder}/audit.json",
                f"--audit-log-path={self.audit_log}",
                *self._place(),
            ]
        mine = f"{self.folder}/{name}.kubeconfig"
        shared = [f"--kubeconfig={mine}", "--leader-elect=false", "--secure-port=0"]
        shared += [f"--authentication-kubeconfig={mine}", f"--authorization-kubeconfig={mine}"]
        if name == "kube-scheduler":
            return shared
        return [
            *shared,
            f"--service-account-private-key-file={pki}/service-accounts.key",
            f"--root-ca-file={pki}/ca.crt",
            f"--cluster-cidr={PODS}",
            "--allocate-node-cidrs=true",
            "--use-service-account-credentials=true",
        ]

    def _place(self) -> list[str]:
        """Where the API server is, for pods; without a node there is nobody to tell, and nobody makes accounts."""
        if self.node_address is None:
            return [
                "--bind-address=127.0.0.1",
                "--advertise-address=127.0.0.1",
                "--endpoint-reconciler-type=none",
                "--disable-admission-plugins=ServiceAccount",
            ]
        pki = self.folder / "pki"
        return [
            "--bind-address=0.0.0.0",
            f"--advertise-address={self.node_address}",
            "--enable-admission-plugins=NodeRestriction",
            "--kubelet-preferred-address-types=InternalIP",
            f"--kubelet-client-certificate={pki}/admin.crt",
            f"--kubelet-client-key={pki}/admin.key",
        ]

    def _await(self, process: Process) -> None:
        pki = self.folder / "pki"
        trust = ssl.create_default_context(cafile=pki / "ca.crt")
        trust.load_cert_chain(pki / "admin.crt", pki / "admin.key")

        def ready() -> bool:
            assert process.pid is not None, f"{process.name} ended:\n{process.tail()}"
            try:
                with urllib.request.urlopen(f"{self.server}/readyz", context=trust, timeout=5) as answer:
                    return bool(answer.status == 200)
            except (urllib.error.URLError, OSError):
                return False

        until(ready, f"the API server is ready:\n{process.tail()}")


@contextmanager
def control_plane_only() -> Iterator[Client]:
    """A running API server with etcd, on ports of its own; gone in the end. It needs no root and starts in seconds."""
    folder = Path(tempfile.mkdtemp(prefix="samjobs-api-"))
    plane = ControlPlane(folder, bound=True)
    try:
        plane.prepare()
        for process in plane.processes():
            plane.start(process.name)
        yield Client(plane.kubeconfig, binaries.named("kubectl"), plane.audit_log)
    finally:
        for process in reversed(plane.processes()):
            process.stop()
        shutil.rmtree(folder)


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports: list[int] = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports
