"""What a person at a terminal sees of a run: a bar with rate and remaining time."""

import time
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
)
from rich.text import Text

from samjobs.cli.report import duration, ending
from samjobs.cli.streams import print_out
from samjobs.states import ImageState


class BarReport:
    """For people at a terminal."""

    def __init__(self) -> None:
        console = Console(stderr=True)
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            _Pace(),
            console=console,
        )
        self._started = time.monotonic()

    def begin(self, total: int) -> None:
        self._started = time.monotonic()
        self._task = self._bar.add_task("images", total=total)
        self._bar.start()

    def image(self, line: dict[str, Any]) -> None:
        self._bar.advance(self._task)
        if line["state"] == ImageState.FAILED:
            self.say(f"{line['image']}: {line.get('error', 'failed')}")

    def say(self, text: str) -> None:
        self._bar.console.print(text, markup=False, highlight=False)

    def end(self, summary: dict[str, Any]) -> None:
        self._bar.stop()
        print_out(ending(summary, time.monotonic() - self._started))


class _Pace(ProgressColumn):
    """Images per second since the start, and what is left at that pace: outcomes come in batches, so the rate of the
    last moment means nothing."""

    def render(self, task: Task) -> Text:
        if not task.completed or not task.elapsed or task.total is None:
            return Text("")
        rate = task.completed / task.elapsed
        return Text(f"{rate:.1f}/s, {duration((task.total - task.completed) / rate)} left", style="progress.remaining")
