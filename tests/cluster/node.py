"""One node: containerd, the kubelet, kube-proxy, and DNS for its pods, as processes of this machine.

It has no GPU and says that it has four: the scheduler counts them, and no pod sees one.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.cluster import binaries
from tests.cluster.client import Client
from tests.cluster.control_plane import DOMAIN, PODS, ControlPlane
from tests.cluster.network import ADDRESS, BRIDGE, NETWORK, SUBNET
from tests.cluster.paths import CACHE
from tests.cluster.processes import Process
from tests.waiting import until

NAME = "samjobs-test"
GPUS = 4
PAUSE_IMAGE = "localhost/pause:samjobs"


@dataclass(frozen=True)
class Node:
    """The node with its state in `folder`, which belongs to `plane`."""

    folder: Path
    plane: ControlPlane
    bound: bool = False

    @property
    def containerd(self) -> Path:
        """The socket of its container runtime."""
        return self.folder / "containerd.sock"

    @property
    def images(self) -> Path:
        """What the runtime keeps when the cluster ends: images, unpacked, which takes most of the time of a start."""
        return CACHE / "containerd"

    @property
    def runc_state(self) -> Path:
        """Where the runtime notes the containers that run."""
        return self.folder / "runc"

    def processes(self) -> Sequence[Process]:
        """Its programs, in the order in which they start."""
        return [Process(self.folder, name) for name in ("containerd", "kubelet", "kube-proxy", "coredns")]

    def prepare(self) -> None:
        """Write configuration; nothing runs yet."""
        self.folder.mkdir(parents=True, exist_ok=True)
        authority, server = self.plane.authority, self.plane.server
        authority.kubeconfig(self.folder / "kubelet.kubeconfig", server, f"system:node:{NAME}", ["system:nodes"])
        authority.kubeconfig(self.folder / "kube-proxy.kubeconfig", server, "system:kube-proxy")
        authority.kubeconfig(self.folder / "coredns.kubeconfig", server, "coredns", ["system:masters"])
        authority.sign("kubelet-server", NAME, hosts=[ADDRESS, NAME])
        (self.folder / "cni").mkdir(exist_ok=True)
        (self.folder / "cni" / "10-bridge.conflist").write_text(json.dumps(_cni(self.folder)))
        (self.folder / "resolv.conf").write_text(f"nameserver {ADDRESS}\n")
        (self.folder / "containerd.toml").write_text(_containerd(self))
        (self.folder / "kubelet.json").write_text(json.dumps(self._kubelet()))
        (self.folder / "Corefile").write_text(
            f".:53 {{\n  bind {ADDRESS}\n  errors\n  kubernetes {DOMAIN} in-addr.arpa {{\n"
            f"    kubeconfig {self.folder}/coredns.kubeconfig test\n  }}\n  cache 5\n}}\n"
        )

    def start(self, name: str) -> None:
        """Start one of its programs; for containerd and the kubelet, wait until they are ready for use."""
        Process(self.folder, name).start(self._command(name), bound=self.bound)
        if name == "containerd":
            until(lambda: self._ctr_works(), f"containerd answers: {Process(self.folder, name).tail(10)}")
        if name == "kubelet":
            self._await_ready()

    def ctr(self, *arguments: str) -> str:
        """What containerd's own client prints."""
        command = ["ctr", "--address", str(self.containerd), "--namespace", "k8s.io", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{' '.join(command)} failed: {done.stderr}"
        return done.stdout

    def load(self, name: str, archive: Path) -> None:
        """Let the node have the image `name` of this archive; nothing happens if it has it already."""
        before = self._images()
        note = self.images / f"{archive.name.rpartition('-')[0]}.archive"
        if name in before and note.exists() and note.read_text() == archive.name:
            return
        self.ctr("images", "import", str(archive))
        note.write_text(archive.name)
        old, new = before.get(name), self._images().get(name)
        assert new is not None, f"{archive} does not hold {name}"
        if old not in (None, new):
            self.ctr(
                "images", "remove", *(other for other, digest in before.items() if digest == old and other != name)
            )

    def forget_containers(self) -> None:
        """Forget the containers of an earlier cluster, of which nothing runs any more."""
        earlier = self.ctr("containers", "list", "--quiet").split()
        if earlier:
            self.ctr("containers", "remove", *earlier)
            # It read its notes of them when it started.
            Process(self.folder, "containerd").stop()
            for kind in ("containers", "sandboxes"):
                shutil.rmtree(self.images / "io.containerd.grpc.v1.cri" / kind, ignore_errors=True)
            self.start("containerd")

    def _images(self) -> dict[str, str]:
        """The digest of every image, by name."""
        lines = [line.split() for line in self.ctr("images", "list").splitlines()[1:]]
        return {words[0]: words[2] for words in lines}

    def advertise_gpus(self, client: Client, count: int = GPUS) -> None:
        """Let the node have `count` GPUs. A kubelet that starts takes them away again."""
        amount = {"nvidia.com/gpu": str(count)}
        patch = json.dumps({"status": {"capacity": amount, "allocatable": amount}})
        client.kubectl("patch", "node", NAME, "--subresource=status", "--type=merge", f"--patch={patch}")

    def _ctr_works(self) -> bool:
        try:
            return bool(self.ctr("version"))
        except AssertionError:
            return False

    def _await_ready(self) -> None:
        client = Client(self.plane.kubeconfig, binaries.named("kubectl"))
        kubelet = Process(self.folder, "kubelet")

        def ready() -> bool:
            assert kubelet.pid is not None, f"the kubelet ended:\n{kubelet.tail()}"
            path = "{.status.conditions[?(@.type=='Ready')].status}"
            return client.kubectl("get", "node", NAME, f"--output=jsonpath={path}", check=False) == "True"

        until(ready, f"the node is ready:\n{kubelet.tail()}")
        self.advertise_gpus(client)

    def _command(self, name: str) -> list[str | Path]:
        folder = self.folder
        if name == "containerd":
            return ["containerd", f"--config={folder}/containerd.toml"]
        if name == "kubelet":
            return [
                binaries.named("kubelet"),
                f"--config={folder}/kubelet.json",
                f"--kubeconfig={folder}/kubelet.kubeconfig",
                f"--hostname-override={NAME}",
                f"--node-ip={ADDRESS}",
                f"--root-dir={folder}/kubelet",
                f"--cert-dir={folder}/kubelet-pki",
            ]
        if name == "kube-proxy":
            # Zero leaves the kernel's settings of connection tracking alone; a container may not change them.
            tracking = ("max-per-core", "tcp-timeout-established", "tcp-timeout-close-wait")
            return [
                binaries.named("kube-proxy"),
                f"--kubeconfig={folder}/kube-proxy.kubeconfig",
                f"--hostname-override={NAME}",
                "--proxy-mode=iptables",
                f"--cluster-cidr={PODS}",
                f"--healthz-bind-address={ADDRESS}:10256",
                f"--metrics-bind-address={ADDRESS}:10249",
                *(f"--conntrack-{what}=0" for what in tracking),
            ]
        return [binaries.built(binaries.COREDNS), "-conf", f"{folder}/Corefile"]

    def _kubelet(self) -> dict[str, object]:
        pki = self.plane.folder / "pki"
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": ADDRESS,
            "healthzPort": 0,
            "readOnlyPort": 0,
            "tlsCertFile": f"{pki}/kubelet-server.crt",
            "tlsPrivateKeyFile": f"{pki}/kubelet-server.key",
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": True},
                "x509": {"clientCAFile": f"{pki}/ca.crt"},
            },
            "authorization": {"mode": "Webhook"},
            "containerRuntimeEndpoint": f"unix://{self.containerd}",
            "clusterDNS": [ADDRESS],
            "clusterDomain": DOMAIN,
            "resolvConf": f"{self.folder}/resolv.conf",
            "cgroupDriver": "cgroupfs",
            "failCgroupV1": False,
            "failSwapOn": False,
            "enforceNodeAllocatable": [],
            "podLogsDir": f"{self.folder}/pod-logs",
            # The disk is shared with all else: how full it is says nothing about the cluster.
            "imageGCHighThresholdPercent": 100,
            "evictionHard": dict.fromkeys(("nodefs.available", "nodefs.inodesFree", "imagefs.available"), "0%"),
        }


def _cni(folder: Path) -> dict[str, object]:
    bridge = {
        "type": "bridge",
        "bridge": BRIDGE,
        "isGateway": True,
        "ipMasq": True,
        "hairpinMode": True,  # a pod may call its own Service
        "ipam": {
            "type": "host-local",
            "ranges": [[{"subnet": SUBNET, "gateway": ADDRESS}]],
            "routes": [{"dst": "0.0.0.0/0"}],
            "dataDir": f"{folder}/cni-addresses",
        },
    }
    ports = {"type": "portmap", "capabilities": {"portMappings": True}}
    return {"cniVersion": "1.0.0", "name": NETWORK, "plugins": [bridge, ports]}


def _containerd(node: Node) -> str:
    """Its configuration. Where it may not make a process less likely to be killed, it must not try to."""
    restricted = str(not _may_lower_oom_scores()).lower()
    return f"""version = 2
root = "{node.images}"
state = "{node.folder}/containerd-state"
[grpc]
  address = "{node.containerd}"
[ttrpc]
  address = "{node.containerd}.ttrpc"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE_IMAGE}"
  restrict_oom_score_adj = {restricted}
  netns_mounts_under_state_dir = true
  disable_hugetlb_controller = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{node.folder}/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
        Root = "{node.runc_state}"
"""


def _may_lower_oom_scores() -> bool:
    score = Path("/proc/self/oom_score_adj")
    before = score.read_text()
    try:
        score.write_text(str(int(before) - 1))
    except OSError:
        return False
    score.write_text(before)
    return os.geteuid() == 0
