"""How does the web page reach a browser, and what may it do there?

`/` is the page, `/static/` its files: nothing in them is secret and nothing is made per caller, so both need no token;
all that the page shows it asks from the REST routes with the caller's own. The policy below lets the browser run the
page's files alone: no inline script or style, no other host, no frame around it, and no text turned into markup.
"""

from pathlib import Path

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

STATIC = Path(__file__).parent / "static"
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' blob:",  # photos come by fetch, with the token
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",  # innerHTML and its like fail, instead of running what a file is named
        "trusted-types 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-cache",  # asked for again by its ETag, so that page and API are of one version
}


class _Files(StaticFiles):
    """The page's files, with its headers."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers.update(HEADERS)
        return response


async def _index(_: Request) -> Response:
    return FileResponse(STATIC / "index.html", headers=HEADERS)


def add_page(app: FastAPI) -> None:
    """Serve the web page at `/` of the app."""
    app.add_route("/", _index, methods=["GET"], include_in_schema=False)
    app.mount("/static", _Files(directory=STATIC), name="static")
