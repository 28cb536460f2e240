"""`make crds`: crds/*.yaml and the chart's copies, from controller/kube/crd.py. `tests/crds` fails when they are stale.

The chart's copies are templates, since Helm never upgrades what lies in a chart's own folder crds/.
"""

from pathlib import Path
from typing import Any

import yaml

from controller.kube.crd import crds

ROOT = Path(__file__).resolve().parent.parent
HEADER = "# Made by `make crds` from controller/kube/crd.py: change it there.\n"
CHART = "charts/samjobs/templates/crds"
_ENABLED = '{{- if dig "enabled" true (.Values.crds | default dict) }}\n'
_KEEP = """\
    {{- if dig "keep" true (.Values.crds | default dict) }}
    helm.sh/resource-policy: keep
    {{- end }}
"""
_ANNOTATIONS = "  annotations:\n"


def files() -> dict[str, str]:
    """Path below the project → text."""
    made = {}
    for plural, crd in crds().items():
        made[f"crds/{plural}.yaml"] = HEADER + _yaml(crd)
        made[f"{CHART}/{plural}.yaml"] = _template(crd)
    return made


def _template(crd: dict[str, Any]) -> str:
    """A CRD as a template of the chart; what looks like a template's own marks is left as it is."""
    text = _yaml(crd).replace("{{", '{{ "{{" }}')
    head, mark, rest = text.partition(_ANNOTATIONS)
    return HEADER + _ENABLED + head + mark + _KEEP + rest + "{{- end }}\n"


def _yaml(value: dict[str, Any]) -> str:
    text: str = yaml.dump(value, Dumper=_Plain, sort_keys=False, allow_unicode=True, width=120)
    return text


class _Plain(yaml.SafeDumper):
    """Without anchors: the same part twice is written twice. With quotes about what Go's reader takes for true."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def represent_str(self, data: str) -> Any:
        return self.represent_scalar("tag:yaml.org,2002:str", data, style="'" if data in ("y", "n") else None)


_Plain.add_representer(str, _Plain.represent_str)


def main() -> None:
    """Write every file."""
    for name, text in files().items():
        path = ROOT / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        print(name)


if __name__ == "__main__":
    main()
