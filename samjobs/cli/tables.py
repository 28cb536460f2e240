"""Tables of plain text, as `kubectl` prints them: columns by blanks, nothing cut off, rows that may come later."""

from collections.abc import Iterable, Sequence
from datetime import datetime

GAP = "   "


class Table:
    """Columns that are as wide as what they have held so far."""

    def __init__(self, *header: str) -> None:
        self._widths = [len(title) for title in header]
        self._header = header

    def lines(self, rows: Iterable[Sequence[object]], *, header: bool = True) -> list[str]:
        """The rows as lines of text.

        >>> Table("NAME", "AGE").lines([("trip", "5m"), ("a longer one", "1h")])
        ['NAME           AGE', 'trip           5m', 'a longer one   1h']
        """
        cells = [[str(cell) for cell in row] for row in rows]
        for row in cells:
            self._widths = [max(width, len(cell)) for width, cell in zip(self._widths, row, strict=True)]
        return [self._line(row) for row in ([self._header, *cells] if header else cells)]

    def _line(self, row: Sequence[str]) -> str:
        return GAP.join(cell.ljust(width) for cell, width in zip(row, self._widths, strict=True)).rstrip()


def age(since: datetime | None, at: datetime) -> str:
    """How long ago: `42s`, `12m`, `3h`, `6d`."""
    return "-" if since is None else span((at - since).total_seconds())


def span(seconds: float) -> str:
    """
    >>> [span(seconds) for seconds in (-1, 42, 125, 7500, 90000, 7 * 86400)]
    ['0s', '42s', '2m', '2h', '25h', '7d']
    """
    whole = max(0, int(seconds))
    if whole < 120:
        return f"{whole}s"
    if whole < 7200:
        return f"{whole // 60}m"
    return f"{whole // 3600}h" if whole < 48 * 3600 else f"{whole // 86400}d"


def when(at: datetime | None) -> str:
    """A time of the table, to the second; the database's clock is in UTC."""
    return "-" if at is None else f"{at:%Y-%m-%d %H:%M:%S} UTC"
