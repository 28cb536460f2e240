"""What a run tells the person or the program that watches it.

On a terminal a progress bar with rate and remaining time; elsewhere a plain line now and then; with `--json` one object
per image on standard output and a summary as the last line. Worker processes of one run speak the same JSON to the
process that started them.
"""

import json
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from samjobs.cli.streams import print_out, say
from samjobs.errors import describe
from samjobs.names import Reason
from samjobs.segmentation.work import Outcome
from samjobs.states import ImageState

PLAIN_EVERY_S = 5.0


def image_line(outcome: Outcome) -> dict[str, Any]:
    """An outcome as the JSON object of `--json`."""
    line: dict[str, Any] = {
        "type": "image",
        "image": outcome.task.key,
        "state": outcome.state.value,
        "reason": outcome.reason.value,
        "instances": outcome.instances,
        "truncated": outcome.truncated,
        "record": outcome.output_uri,
    }
    if outcome.error is not None:
        line["error"] = describe(outcome.error)
    return line


@dataclass
class Tally:
    """Counts of one run."""

    total: int = 0  # images of the job
    states: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)  # why images were done

    def add(self, line: dict[str, Any]) -> None:
        """Count the object of one image."""
        self.states[line["state"]] += 1
        if line["state"] == ImageState.DONE:
            self.reasons[line["reason"]] += 1

    @property
    def seen(self) -> int:
        return sum(self.states.values())

    def summary(self, *, left: int) -> dict[str, Any]:
        """The object of `--json`'s last line: `skipped` are the `left` images that nobody got to, `elsewhere` those
        that other processes on the same job did."""
        return {
            "images": self.total,
            "processed": self.states[ImageState.DONE],
            "unchanged": self.states[ImageState.SKIPPED],
            "failed": self.states[ImageState.FAILED],
            "skipped": left,
            "elsewhere": max(0, self.total - left - self.seen),
            "reasons": dict(sorted(self.reasons.items())),
        }


class Report(Protocol):
    """Where a run is told."""

    def begin(self, total: int) -> None:
        """The images are listed; work starts."""

    def image(self, line: dict[str, Any]) -> None:
        """An image's outcome was committed."""

    def say(self, text: str) -> None:
        """A remark for people."""

    def end(self, summary: dict[str, Any]) -> None:
        """The run is over."""


def report_for(as_json: bool, reader_gone: Callable[[], None]) -> Report:
    """The report that fits: `--json`, a terminal, or a log. `reader_gone` is told when standard output breaks."""
    if as_json:
        return JsonReport(reader_gone)
    if sys.stderr.isatty():
        from samjobs.cli.bar import BarReport  # rich takes long to import, and only a terminal needs it

        return BarReport()
    return PlainReport()


class JsonReport:
    """For programs."""

    def __init__(self, reader_gone: Callable[[], None]) -> None:
        self._reader_gone = reader_gone

    def begin(self, total: int) -> None:
        pass

    def image(self, line: dict[str, Any]) -> None:
        if not print_out(json.dumps(line)):
            self._reader_gone()

    def say(self, text: str) -> None:
        say(text)

    def end(self, summary: dict[str, Any]) -> None:
        print_out(json.dumps({"type": "summary"} | summary))


class PlainReport:
    """For logs: a line at most every few seconds, and each failure."""

    def __init__(self) -> None:
        self._tally = Tally()
        self._started = self._told = time.monotonic()

    def begin(self, total: int) -> None:
        self._tally.total = total
        self._started = self._told = time.monotonic()

    def image(self, line: dict[str, Any]) -> None:
        self._tally.add(line)
        if line["state"] == ImageState.FAILED:
            self.say(f"{line['image']}: {line.get('error', 'failed')}")
        if time.monotonic() - self._told >= PLAIN_EVERY_S:
            self._told = time.monotonic()
            self.say(self._progress())

    def say(self, text: str) -> None:
        say(text)

    def end(self, summary: dict[str, Any]) -> None:
        print_out(ending(summary, time.monotonic() - self._started))

    def _progress(self) -> str:
        seen, total = self._tally.seen, self._tally.total
        rate = seen / (self._told - self._started)
        left = (total - seen) / rate if rate else 0
        return f"{seen} of {total} images, {rate:.1f}/s, about {duration(left)} left"


def ending(summary: dict[str, Any], seconds: float) -> str:
    """The last words of a run, for people.

    >>> print(ending({"images": 3, "processed": 1, "unchanged": 2, "failed": 0, "skipped": 0,
    ...               "elsewhere": 0, "reasons": {"ContentChanged": 1}, "output": "out"}, 2.0))
    3 images in 2 s: 1 processed (1 changed), 2 unchanged, 0 failed
    results in out
    """
    why = ", ".join(f"{count} {_WORDS.get(reason, reason)}" for reason, count in summary["reasons"].items())
    text = f"{summary['images']} images in {duration(seconds)}: {summary['processed']} processed"
    text += f" ({why})" if why else ""
    text += f", {summary['unchanged']} unchanged, {summary['failed']} failed"
    if summary["elsewhere"]:
        text += f", {summary['elsewhere']} by other processes"
    if summary["skipped"]:
        text += f", {summary['skipped']} not reached"
    if summary.get("output"):
        text += f"\nresults in {summary['output']}"
    return text


_WORDS = {
    Reason.NEW.value: "new",
    Reason.CONTENT_CHANGED.value: "changed",
    Reason.CONFIG_CHANGED.value: "for the changed settings",
    Reason.MODEL_CHANGED.value: "for the changed model",
    Reason.OUTPUT_MISSING.value: "with missing outputs",
    Reason.FAILED_BEFORE.value: "failed before",
    Reason.FORCED.value: "forced",
}


def duration(seconds: float) -> str:
    """
    >>> duration(75)
    '1 min 15 s'
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
