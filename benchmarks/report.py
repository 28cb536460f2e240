"""How a benchmark is called and how it tells: `--quick`, `--json FILE`, and a table."""

import argparse
import json
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Section:
    """One table."""

    title: str
    rows: Sequence[Row]  # all with the same keys
    note: str = ""
    figures: Mapping[str, Any] = field(
        default_factory=dict
    )  # the few that others look for, by name: for the JSON alone


def main(description: str, measure: Callable[[bool], Sequence[Section]]) -> None:
    """Parse the arguments, measure, print the tables, write the JSON."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="fewer and smaller cases, under 50 s")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    options = parser.parse_args()
    sections = measure(options.quick)
    for section in sections:
        print(f"\n{section.title}")
        print(table(section.rows))
        if section.note:
            print(section.note)
    if options.json:
        data = {"machine": machine(), "sections": {section.title: list(section.rows) for section in sections}}
        for section in sections:
            data |= section.figures
        options.json.write_text(json.dumps(data, indent=2) + "\n")


def machine() -> dict[str, Any]:
    """What the figures depend on."""
    return {"cores": len(os.sched_getaffinity(0)), "python": platform.python_version(), "machine": platform.machine()}


def table(rows: Sequence[Row]) -> str:
    """Rows as columns of text, numbers to the right.

    >>> print(table([{"way": "naive", "images/s": 3.25}, {"way": "samjobs", "images/s": 31.0}]))
    way      images/s
    naive        3.25
    samjobs        31
    """
    heads = list(rows[0])
    cells = [[_text(row[head]) for head in heads] for row in rows]
    widths = [max(len(line[i]) for line in [heads, *cells]) for i in range(len(heads))]
    right = [all(isinstance(row[head], int | float | None) for row in rows) for head in heads]
    lines = [
        "  ".join(
            cell.rjust(width) if flag else cell.ljust(width)
            for cell, width, flag in zip(line, widths, right, strict=True)
        )
        for line in [heads, *cells]
    ]
    return "\n".join(line.rstrip() for line in lines)


def _text(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
