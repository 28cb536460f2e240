"""A controller as a process of its own."""

import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

from tests.waiting import until

_PROBES = re.compile(r"probes=(\d+)")


class Controller:
    """`python -m controller` with settings of its own; its output goes to a file in `folder`."""

    def __init__(self, folder: Path, **settings: object) -> None:
        self._log = folder / f"controller-{len(list(folder.iterdir()))}.log"
        known = {"HEALTH_PORT": 0, "HEALTH_HOST": "127.0.0.1", **settings}
        environment = os.environ | {f"SAMJOBS_{name}": str(value) for name, value in known.items()}
        with self._log.open("wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "controller"], stdout=out, stderr=out, env=environment
            )

    @property
    def said(self) -> str:
        return self._log.read_text()

    def until_said(self, words: str) -> None:
        until(lambda: words in self.said or self.process.poll() is not None, f"the controller says {words!r}")
        assert words in self.said, f"the controller ended with {self.process.returncode}:\n{self.said}"

    def until_ready(self) -> None:
        self.until_said("probes=")
        until(lambda: self.ask("/readyz")[0] == 200, f"the controller is ready:\n{self.said}")

    def ask(self, path: str) -> tuple[int, str]:
        """Status and body of a page of the health port."""
        found = _PROBES.search(self.said)
        assert found is not None, self.said
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{found[1]}{path}", timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def ends(self, code: int) -> None:
        found = self.process.wait(60)
        assert found == code, f"the controller ended with {found}, not {code}:\n{self.said}"

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        self.process.send_signal(number)
        self.ends(0)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
