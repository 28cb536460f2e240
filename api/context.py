"""What every route needs: the job table, who asks, and what that caller may do.

`caller_of` and `context_of` are FastAPI's dependencies; one that asks nobody is `async`, which saves it a thread.
`seen` is the one way to a job: one that a caller may not see is answered exactly like one that there is not.
"""

from dataclasses import dataclass
from typing import Annotated
from uuid import UUID

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from api.access.caller import Access, Caller, Unauthenticated, Verb, reach, require
from api.metrics import Metrics
from api.photos import Photos
from api.problems import not_there
from api.readiness import Readiness
from api.sampling import Samples
from api.sse import Watchers
from samjobs.client import Client
from samjobs.settings import Settings
from samjobs.store import Store, jobs
from samjobs.store.rows import Job

LONGEST_ACTOR = 200


@dataclass(frozen=True)
class Context:
    """One process of the API."""

    settings: Settings
    client: Client
    access: Access
    metrics: Metrics
    watchers: Watchers
    samples: Samples
    photos: Photos
    readiness: Readiness

    @property
    def store(self) -> Store:
        """The job table."""
        return self.client.store

    def acting(self, caller: Caller) -> Client:
        """A client whose acts are this caller's."""
        return self.client.acting(caller.name[:LONGEST_ACTOR])

    def require(self, caller: Caller, verb: Verb, tenant: str | None) -> None:
        """Let pass who has the right; see `api.access.caller.require`."""
        require(self.access, caller, verb, tenant)

    def reach(self, caller: Caller, verb: Verb, tenant: str | None) -> frozenset[str] | None:
        """Which tenants a list is about; see `api.access.caller.reach`."""
        return reach(self.access, caller, verb, tenant)

    def seen(self, caller: Caller, job_id: UUID, verb: Verb = Verb.GET) -> Job:
        """The job, for who may do this with it.

        Raises:
            Refused: there is none, or the caller may not see it.
            Forbidden: the caller may see it, and no more.
        """
        with self.store.read() as conn:
            job = jobs.get(conn, job_id)
        if job is None or not self.access.allows(caller, Verb.GET, job.tenant):
            not_there(f"job {job_id}")
        if verb is not Verb.GET:
            self.require(caller, verb, job.tenant)
        return job


async def context_of(request: Request) -> Context:
    """The process's own."""
    context = request.app.state.context
    assert isinstance(context, Context)
    return context


Here = Annotated[Context, Depends(context_of)]
_bearer = HTTPBearer(auto_error=False, description="A token of the file, or one that Kubernetes made.")


async def token_of(given: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]) -> str:
    """The bearer token of the request.

    Raises:
        Unauthenticated: it has none.
    """
    if given is None or not given.credentials:
        raise Unauthenticated("the request has no token: send `Authorization: Bearer TOKEN`")
    return given.credentials


Token = Annotated[str, Depends(token_of)]


def caller_of(context: Here, token: Token) -> Caller:
    """Who asks.

    Raises:
        Unauthenticated: nobody whom we know.
        KubernetesUnavailable: nobody can tell now.
    """
    return context.access.who(token)


Asking = Annotated[Caller, Depends(caller_of)]
