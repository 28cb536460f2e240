"""Render the chart by a real helm, and read what comes out."""

import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from tools.chart import CHART

RELEASE, NAMESPACE = "samjobs", "samjobs-system"
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the CRDs are long
KUBERNETES = "1.34.4"  # a helm that somebody built knows of none


class Refused(AssertionError):
    """Helm did not render; the text is what it said."""


@dataclass(frozen=True)
class Rendered:
    """The objects of a release."""

    text: str

    @cached_property
    def objects(self) -> list[dict[str, Any]]:
        """All of them; shared by all who render the same, so not to be changed."""
        return [one for one in yaml.load_all(self.text, _LOADER) if one]

    def of(self, kind: str) -> list[dict[str, Any]]:
        """All of a kind."""
        return [one for one in self.objects if one["kind"] == kind]

    def one(self, kind: str, name: str) -> dict[str, Any]:
        """The one of this kind and name."""
        found = [one for one in self.of(kind) if one["metadata"]["name"] == name]
        assert len(found) == 1, f"{kind} {name}: found {len(found)} of {[o['metadata']['name'] for o in self.of(kind)]}"
        return found[0]

    def pods(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Every pod spec, with the name of what it belongs to."""
        for one in self.objects:
            if one["kind"] == "Pod":
                yield one["metadata"]["name"], one["spec"]
            elif one["kind"] in ("Deployment", "StatefulSet"):
                yield one["metadata"]["name"], one["spec"]["template"]["spec"]


@dataclass(frozen=True)
class Helm:
    """One version of helm, in a folder of its own for what it keeps."""

    program: Path
    home: Path
    _known: dict[tuple[str, ...], Rendered] = field(default_factory=dict, compare=False)

    def template(
        self, values: Mapping[str, Any], *, chart: Path = CHART, release: str = RELEASE, options: tuple[str, ...] = ()
    ) -> Rendered:
        """What an install with these values would send. The chart of the project is rendered once for equal values.

        Raises:
            Refused: the values or the templates are refused.
        """
        where = ["--namespace", NAMESPACE, "--kube-version", KUBERNETES]
        given = yaml.safe_dump(plain(values))
        command = ("template", release, str(chart), *where, "--values", "-", *options)
        if chart != CHART or (*command, given) not in self._known:
            self._known[(*command, given)] = Rendered(self.run(*command, given=given))
        return self._known[(*command, given)]

    def run(self, *arguments: str, given: str = "", kubeconfig: Path | None = None) -> str:
        """Standard output of a command.

        Raises:
            Refused: it failed.
        """
        env = {"HOME": str(self.home), "PATH": "/usr/bin:/bin"}
        if kubeconfig is not None:
            env["KUBECONFIG"] = str(kubeconfig)
        done = subprocess.run(
            [str(self.program), *arguments], input=given, capture_output=True, text=True, env=env, check=False
        )
        if done.returncode != 0:
            raise Refused(done.stderr + done.stdout)
        return done.stdout


def env_of(container: Mapping[str, Any]) -> dict[str, Any]:
    """Environment of a container: its value, or where it comes from."""
    return {one["name"]: one.get("value", one.get("valueFrom")) for one in container.get("env", ())}


def plain(value: Any) -> Any:
    """The value for YAML, which knows no read-only maps."""
    return {key: plain(inner) for key, inner in value.items()} if isinstance(value, Mapping) else value
