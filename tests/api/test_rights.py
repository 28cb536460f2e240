"""Rights that no role of a file has alone, but that Kubernetes may give: what each route asks for, before it acts."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from api.access.caller import Caller, Verb
from api.app import create_app
from api.context import Context
from api.metrics import Metrics
from api.photos import Photos
from api.readiness import Readiness
from api.sampling import Samples
from api.sse import Watchers
from samjobs.client import Client
from samjobs.settings import Settings
from samjobs.storage import Storage
from samjobs.store import connect, migrate
from tests.api.test_jobs import JOBS, body


class Only:
    """Access of those whose token is the rights that they have, as `get+list`."""

    def who(self, token: str) -> Caller:
        return Caller(token)

    def allows(self, caller: Caller, verb: Verb, tenant: str | None) -> bool:
        return verb in caller.name.split("+")


@pytest.fixture
def context(sqlite_url: str) -> Iterator[Context]:
    store = connect(sqlite_url)
    migrate(store)
    store.close()
    with ExitStack() as stack:
        client = stack.enter_context(Client(sqlite_url))
        watchers = Watchers(client)
        stack.callback(watchers.close)
        photos = Photos(Settings(), stack.enter_context(Storage()))
        yield Context(Settings(), client, Only(), Metrics(), watchers, Samples(client), photos, Readiness(client.store))


def test_who_may_submit_but_not_look_submits_nothing(context: Context, tmp_path: Path) -> None:
    """The answer would show a job, maybe another's that is equal; and one that was made and is hidden is made again."""
    wanted = body(images={"list": [{"image": str(tmp_path / "a.jpg")}]}, output={"uri": str(tmp_path / "masks")})
    answers = [asked(context, "POST", JOBS, rights, json=wanted) for rights in ("create", "get", "create+get")]
    assert [one.status_code for one in answers] == [403, 403, 201]
    assert len(context.client.list()) == 1


def asked(context: Context, method: str, path: str, rights: str, **more: Any) -> httpx.Response:
    """What is answered to who has these rights."""

    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(create_app(context))
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as http:
            return await http.request(method, path, headers={"Authorization": f"Bearer {rights}"}, **more)

    return asyncio.run(ask())
