"""`python -m tools.audit`: are there published advisories against what requirements.lock pins?

Asks the services that pip-audit knows, one after another, until one answers. Fails for advisories alone: where nobody
could be asked it says so, and says nothing of the packages.
"""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements.lock"
SERVICES = ("osv", "pypi")
PATIENCE_S = 300


@dataclass(frozen=True)
class Found:
    """What a service said."""

    asked: int  # packages that it knows
    unknown: tuple[str, ...]  # packages that it does not know
    advisories: tuple[str, ...]


def understood(report: dict[str, Any]) -> Found:
    """What a report of pip-audit says.

    >>> understood({"dependencies": [{"name": "a", "version": "1", "vulns": [{"id": "X-1", "fix_versions": ["2"]}]}]})
    Found(asked=1, unknown=(), advisories=('a 1: X-1, fixed in 2',))
    """
    known = [one for one in report["dependencies"] if "skip_reason" not in one]
    return Found(
        asked=len(known),
        unknown=tuple(one["name"] for one in report["dependencies"] if "skip_reason" in one),
        advisories=tuple(
            f"{one['name']} {one['version']}: {fault['id']}, fixed in {' or '.join(fault['fix_versions']) or 'nothing'}"
            for one in known
            for fault in one["vulns"]
        ),
    )


def ask(program: Path, service: str, lock: Path = LOCK) -> Found | str:
    """What a service says, or why it could not be asked."""
    command = [str(program), "--requirement", str(lock), "--disable-pip", "--require-hashes", "--format", "json"]
    command += ["--vulnerability-service", service, "--progress-spinner", "off"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
        found = understood(json.loads(done.stdout))
    except subprocess.TimeoutExpired:
        return f"no answer within {PATIENCE_S} s"
    except ValueError:
        return done.stderr.strip().splitlines()[-1][:200] if done.stderr.strip() else "no answer"
    return found if found.asked else "it knows none of the packages: a mirror without advisories?"


def main(program: str) -> int:
    """Tell what was found; 1 where there are advisories. `program` is pip-audit."""
    for service in SERVICES:
        found = ask(Path(program), service)
        if isinstance(found, str):
            print(f"audit: {service} could not be asked: {found}")
            continue
        for advisory in found.advisories:
            print(f"audit: {advisory}")
        print(f"audit: {service} knows {found.asked} packages, and {len(found.advisories)} advisories against them")
        if found.unknown:
            print(f"audit: it does not know {', '.join(found.unknown)}")
        return 1 if found.advisories else 0
    print("audit: NOT DONE: no service of advisories could be asked, so nothing is known of any package")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
