"""Running a built image as a container engine does: as process 1, as the image's user, on a read-only root.

Containers share the network of the machine, so that they reach the tests' servers; /tmp is their one writable place.
"""

import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

_PATIENCE_S = 120
_MOUNTS: list[dict[str, object]] = [
    {"destination": "/proc", "type": "proc", "source": "proc"},
    {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755", "size=64k"]},
    {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "nodev", "mode=1777"]},
]


@dataclass(frozen=True)
class Image:
    """An image, unpacked."""

    config: Mapping[str, Any]  # User, Env, Entrypoint, Labels …, as its Dockerfile says
    root: Path
    folder: Path  # where the state of its containers lies

    @property
    def environment(self) -> dict[str, str]:
        return dict(entry.split("=", 1) for entry in self.config["Env"])

    def run(
        self, *command: str, env: Mapping[str, object] | None = None, mounts: Mapping[Path, str] | None = None
    ) -> str:
        """What `command` says, once it ended well."""
        with self.started(*command, env=env, mounts=mounts) as container:
            container.ends(0)
            return container.said

    @contextmanager
    def started(
        self, *command: str, env: Mapping[str, object] | None = None, mounts: Mapping[Path, str] | None = None
    ) -> Iterator["Container"]:
        """A running container, which is gone in the end.

        Args:
            command: in place of the image's entry point.
            env: beside the image's own environment.
            mounts: folders of this machine, read-only at their places in the container.
        """
        name = uuid4().hex
        bundle = self.folder / name
        bundle.mkdir(parents=True)
        (bundle / "config.json").write_text(json.dumps(self._specification(command, env or {}, mounts or {})))
        log = bundle / "log"
        runc = ["runc", "--root", str(self.folder / "runc")]
        with log.open("wb") as out:
            process = subprocess.Popen(
                [*runc, "run", "--bundle", str(bundle), name], stdin=subprocess.DEVNULL, stdout=out, stderr=out
            )
        try:
            yield Container(name, process, log, runc)
        finally:
            if process.poll() is None:
                subprocess.run([*runc, "delete", "--force", name], check=True, capture_output=True)
                process.wait(_PATIENCE_S)

    def _specification(
        self, command: Sequence[str], env: Mapping[str, object], mounts: Mapping[Path, str]
    ) -> dict[str, object]:
        user, group = (int(number) for number in self.config["User"].split(":"))
        return {
            "ociVersion": "1.0.2",
            "process": {
                "user": {"uid": user, "gid": group},
                "args": list(command) or self.config["Entrypoint"],
                "env": [f"{name}={value}" for name, value in {**self.environment, **env}.items()],
                "cwd": self.config["WorkingDir"],
                "noNewPrivileges": True,  # and no capabilities, for none are named
            },
            "root": {"path": str(self.root), "readonly": True},
            "mounts": [
                *_MOUNTS,
                *(
                    {"destination": place, "type": "none", "source": str(folder), "options": ["rbind", "ro"]}
                    for folder, place in mounts.items()
                ),
            ],
            "linux": {"namespaces": [{"type": kind} for kind in ("pid", "mount", "ipc", "uts")]},
        }


@dataclass(frozen=True)
class Container:
    """A started container."""

    name: str
    process: "subprocess.Popen[bytes]"
    log: Path
    runc: Sequence[str]

    @property
    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def execute(self, *command: str, stdin: str = "") -> "subprocess.CompletedProcess[str]":
        """Run `command` in it, as `docker exec` and health checks do."""
        return subprocess.run(
            [*self.runc, "exec", self.name, *command], input=stdin, capture_output=True, text=True, check=False
        )

    def ends(self, code: int) -> None:
        found = self.process.wait(_PATIENCE_S)
        assert found == code, f"it ended with {found}, not {code}, and said:\n{self.said}"

    def stop(self) -> None:
        """As `docker stop` does it: SIGTERM to process 1, which has to end well."""
        self.process.terminate()
        self.ends(0)
