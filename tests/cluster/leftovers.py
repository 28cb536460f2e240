"""What containers leave on the machine when their runtime ends or is killed, and how it is removed.

Everything is found by its place in the cluster's own folder, never by a name that somebody else's could have.
"""

import os
import signal
import subprocess
from pathlib import Path

from tests.cluster.node import Node
from tests.waiting import until

_CGROUPS = Path("/sys/fs/cgroup")


def end_containers(node: Node) -> None:
    """Kill the containers that run, also where their runtime is gone."""
    runc = ["runc", "--root", str(node.runc_state / "k8s.io")]
    if not node.runc_state.exists():
        return
    found = subprocess.run([*runc, "list", "--quiet"], capture_output=True, text=True, check=False)
    for container in found.stdout.split():
        subprocess.run([*runc, "delete", "--force", container], capture_output=True, check=False)


def end_shims(node: Node) -> None:
    """Kill the processes that stand between the runtime and its containers; each names the runtime's socket."""
    shims = [pid for pid in _processes() if str(node.containerd).encode() in _arguments(pid)]
    for pid in shims:
        os.kill(pid, signal.SIGKILL)
    until(lambda: not any(_arguments(pid) for pid in shims), "the shims are gone")


def unmount(folder: Path) -> None:
    """Take away every mount below `folder`, the innermost first."""
    mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    for mount in reversed([mount for mount in mounts if Path(mount).is_relative_to(folder)]):
        subprocess.run(["umount", "--lazy", mount], check=False, capture_output=True)


def remove_cgroups() -> None:
    """Remove the groups in which the kubelet put pods; one that still holds a process stays."""
    for top in (*_CGROUPS.glob("kubepods"), *_CGROUPS.glob("*/kubepods")):
        for folder, _, _ in os.walk(top, topdown=False):
            try:
                Path(folder).rmdir()
            except OSError:
                continue


def _processes() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _arguments(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except (FileNotFoundError, ProcessLookupError):
        return []
