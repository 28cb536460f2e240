"""The API keeps what its description says, for whatever the description allows and for what it does not: schemathesis
asks the running server."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.config import (
    ChecksConfig,
    GenerationConfig,
    PositiveDataAcceptanceConfig,
    ProjectConfig,
    ProjectsConfig,
    SchemathesisConfig,
)

from api.app import create_app
from samjobs.store import connect
from tests.api.server import Api
from tests.api.world import dead, finished

EXAMPLES = 8
DOCUMENT = create_app(None).openapi()
# What a schema cannot say is refused by 422, what it says by 400: so a 400 for what the schema allows is a fault.
_ACCEPTED = ["2xx", "401", "403", "404", "409", "422"]
CONFIG = SchemathesisConfig(
    projects=ProjectsConfig(
        default=ProjectConfig(
            checks=ChecksConfig(positive_data_acceptance=PositiveDataAcceptanceConfig(expected_statuses=_ACCEPTED)),
            generation=GenerationConfig(deterministic=True, max_examples=EXAMPLES, database="none"),
        )
    )
)
ROOT = {"Authorization": "Bearer root"}
schema = schemathesis.openapi.from_dict(DOCUMENT, config=CONFIG)


@pytest.fixture(scope="module")
def job_ids(api_database: str, api_folder: Path) -> Iterator[list[UUID]]:
    """Jobs that there are: an ended one first."""
    store = connect(api_database)
    yield [finished(store, api_folder), dead(store)]
    store.close()


@pytest.fixture(scope="module")
def session() -> Iterator[requests.Session]:
    with requests.Session() as one:
        yield one


@schema.parametrize()
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), database=None)
def test_it_does_as_described(case: Any, api: Api, job_ids: list[UUID], session: requests.Session) -> None:
    known = job_ids if not case.path.endswith("/progress") else job_ids[:1]
    if case.path_parameters and _is_uuid(case.path_parameters.get("jobId")):
        # Ids that there are, or every answer would be 404.
        case.path_parameters["jobId"] = str(known[UUID(case.path_parameters["jobId"]).int % len(known)])
    case.call_and_validate(base_url=api.url, session=session, headers=ROOT)


def _is_uuid(value: object) -> bool:
    try:
        return isinstance(value, str) and str(UUID(value)) == value.lower()
    except ValueError:
        return False


def test_the_server_shows_this_description(http: Callable[[str | None], httpx.Client]) -> None:
    assert http(None).get("/openapi.json").json() == DOCUMENT
