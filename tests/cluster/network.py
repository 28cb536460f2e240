"""The bridge that node and pods share, and the traces that kube-proxy and the CNI plug-ins leave on the machine.

The bridge's address is at once the node's, the DNS server's and the pods' gateway, so that the cluster needs no other
network of the machine and works without one.
"""

import re
import shutil
import subprocess
from pathlib import Path

BRIDGE = "cni-sj"
ADDRESS = "10.244.0.1"
SUBNET = "10.244.0.0/24"
NETWORK = "samjobs-test"  # the name of the CNI network; its plug-ins name files by it
_FORWARDING = Path("/proc/sys/net/ipv4/ip_forward")
_CNI_RESULTS = Path("/var/lib/cni/results")
_TRACES = re.compile(rf"\b(KUBE|CNI)-|\b{BRIDGE}\b")


def create() -> None:
    """Make the bridge, and let the kernel forward between it and the world."""
    _call("ip", "link", "add", BRIDGE, "type", "bridge")
    _call("ip", "address", "add", f"{ADDRESS}/24", "dev", BRIDGE)
    _call("ip", "link", "set", BRIDGE, "up")
    _FORWARDING.write_text("1")


def remove() -> None:
    """Take away the bridge, the packet filter's rules of kube-proxy, kubelet and CNI, and CNI's notes. Others' stay."""
    if Path("/sys/class/net", BRIDGE).exists():
        _call("ip", "link", "delete", BRIDGE)
    for family in ("iptables", "ip6tables"):
        if shutil.which(f"{family}-save"):
            _filter(family)
    for name in (NETWORK, "cni-loopback"):  # notes of pods that are gone
        for note in _CNI_RESULTS.glob(f"{name}-*"):
            note.unlink(missing_ok=True)


def _filter(family: str) -> None:
    rules = _call(f"{family}-save")
    kept = [line for line in rules.splitlines() if not _TRACES.search(line)]
    if len(kept) < len(rules.splitlines()):
        _call(f"{family}-restore", input="\n".join(kept) + "\n")


def _call(*command: str, input: str | None = None) -> str:  # noqa: A002
    done = subprocess.run(command, input=input, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)} failed: {done.stderr.strip()}"
    return done.stdout
