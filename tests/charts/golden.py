"""What the chart renders with nothing but the two Secrets, whole: `python -m tests.charts.golden HELM` writes it anew.

It is there to be looked at in a change; which fields matter is said in test_render.py. The CRDs, which are generated,
are left out.
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml

from tests.charts.helm import Helm
from tests.charts.sets import EXTERNAL

FILE = Path(__file__).parent / "golden" / "external.yaml"


class _Lines(yaml.SafeDumper):
    """Writes a text of several lines as several lines."""

    def represent_scalar(self, tag: str, value: Any, style: str | None = None) -> yaml.ScalarNode:
        return super().represent_scalar(tag, value, "|" if isinstance(value, str) and "\n" in value else style)


def text(helm: Helm) -> str:
    """The objects as YAML, in the order in which helm gives them."""
    objects = [one for one in helm.template(EXTERNAL).objects if one["kind"] != "CustomResourceDefinition"]
    return yaml.dump_all(objects, Dumper=_Lines, sort_keys=False, width=120)


def main() -> None:
    """Write the file."""
    with tempfile.TemporaryDirectory() as home:
        FILE.write_text(text(Helm(Path(sys.argv[1]), Path(home))))


if __name__ == "__main__":
    main()
