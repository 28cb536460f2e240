"""What is done for every request: its time is measured, its answer gets headers.

Around the whole application: where it is added as one of Starlette's middlewares, answers to faults of the code would
pass by it, neither counted nor with headers.
"""

import time

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.metrics import Metrics

_METHODS = frozenset({"GET", "POST", "HEAD", "OPTIONS", "PUT", "PATCH", "DELETE"})


class Edge:
    """The application that a server is given."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.monotonic()

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                method = scope["method"] if scope["method"] in _METHODS else "other"
                self._metrics.answered(_route(scope), method, message["status"], time.monotonic() - began)
                headers = MutableHeaders(scope=message)
                headers.setdefault("Cache-Control", "no-store")
                headers.setdefault("X-Content-Type-Options", "nosniff")
            await send(message)

        await self._app(scope, receive, answer)


def _route(scope: Scope) -> str:
    """The template of the route that answers; all that is none is one."""
    path = getattr(scope.get("route"), "path", None)
    return path if isinstance(path, str) else "none"
