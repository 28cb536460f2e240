"""What the API counts and measures, for Prometheus. Names and labels are in `samjobs.metrics`."""

from samjobs import metrics as table
from samjobs.metrics import Board, Process


class Metrics:
    """The API's metrics."""

    def __init__(self) -> None:
        self._board = Board(Process.API)
        self.registry = self._board.registry

    def answered(self, route: str, method: str, status: int, seconds: float) -> None:
        """A request was answered; `route`: its template, never its ids."""
        self._board.observe(table.API_SECONDS, seconds, route, method, f"{status // 100}xx")

    def watching(self, callers: int) -> None:
        """So many follow a job's progress now."""
        self._board.set(table.API_WATCHERS, callers)
