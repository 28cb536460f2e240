"""The application: all routes, what holds for each of them, and its own description."""

from functools import cache

from fastapi import Depends, FastAPI, Request
from fastapi.routing import APIRoute

from api import openapi, problems
from api.context import Context
from api.models import DeadOrder, RetryOrder, Submission
from api.problems import malformed
from api.routes import admin, details, jobs, me, progress, queue
from api.web.serve import add_page
from samjobs import __version__

BODIES = (Submission, RetryOrder, DeadOrder)


def create_app(context: Context | None) -> FastAPI:
    """The application of one process; without a context it can only describe itself."""
    app = FastAPI(
        title="samjobs",
        version=__version__,
        docs_url=None,  # they load scripts from other hosts
        redoc_url=None,
        generate_unique_id_function=_operation_id,
        dependencies=[Depends(_known_query)],
        redirect_slashes=False,
    )
    app.state.context = context
    problems.install(app)
    for part in (jobs, details, progress, queue, admin, me):
        app.include_router(part.router)
    add_page(app)
    app.openapi = cache(lambda: openapi.document(app, BODIES))  # type: ignore[method-assign]  # as FastAPI has it done
    return app


def _operation_id(route: APIRoute) -> str:
    """`submitJobs` for the function `submit` of `jobs`."""
    module = route.endpoint.__module__.rpartition(".")[2]
    first, *rest = route.endpoint.__name__.split("_")
    return first + "".join(word.capitalize() for word in (*rest, module))


async def _known_query(request: Request) -> None:
    """Refuse a parameter that the route does not have, or one that is given twice: a typing error widens no list.

    Raises:
        Refused: naming it.
    """
    route = request.scope.get("route")
    if not isinstance(route, APIRoute):
        return
    known = {field.alias for field in route.dependant.query_params}
    for dependant in route.dependant.dependencies:
        known |= {field.alias for field in dependant.query_params}
    given = [name for name, _ in request.query_params.multi_items()]
    for name in given:
        if name not in known:
            has = f"it has {', '.join(sorted(known))}" if known else "it has none"
            raise malformed(name or "query", f"this path has no such parameter; {has}")
        if given.count(name) > 1:
            raise malformed(name, "it is given twice: give it once")
