"""Jobs asked for by plain SQL: each request is answered once, whoever else is at it; on both databases."""

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier
from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa

from samjobs.errors import InvalidInput
from samjobs.spec import JobSpec
from samjobs.states import JobState
from samjobs.store import Store, jobs, now, requests
from samjobs.store.rows import Request
from samjobs.store.tables import requests as request_rows
from tests.store.builders import read, spec


def ask(store: Store, asked: JobSpec | None = None, **columns: Any) -> Request:
    """A row as a person writes it: by plain SQL, with what the table fills in."""
    text = (asked or spec()).model_dump_json(by_alias=True)
    names = ", ".join(["spec", *columns])
    values = ", ".join([":spec", *(f":{name}" for name in columns)])
    ids = sa.select(request_rows.c.id)
    with store.begin() as conn:
        before = conn.execute(ids).scalars().all()
        conn.execute(sa.text(f"INSERT INTO requests ({names}) VALUES ({values})"), {"spec": text, **columns})
        found = requests.get(conn, conn.execute(ids.where(ids.selected_columns.id.not_in(before))).scalar_one())
    assert found is not None
    return found


def admit(store: Store, request: Request, asked: JobSpec | None = None) -> tuple[UUID, bool]:
    with store.begin() as conn:
        answer = requests.admit(conn, request, asked or JobSpec.model_validate(request.spec), actor="admit")
    return answer.job_id, answer.created


def answered(store: Store, request: Request) -> Request:
    with store.read() as conn:
        found = requests.get(conn, request.id)
    assert found is not None
    return found


def test_a_request_needs_nothing_but_a_spec(store: Store) -> None:
    asked = spec()
    request = ask(store, asked)
    assert JobSpec.model_validate(request.spec) == asked
    assert (request.tenant, request.name, request.answered_at) == ("default", None, None)
    with store.begin() as conn:
        assert requests.pending(conn, limit=9) == [request]
        assert abs(now(conn) - request.created_at) < timedelta(minutes=1)


def test_an_admitted_request_is_a_job_of_the_same_id(store: Store) -> None:
    request = ask(store, tenant="lab", name="cells-7")
    assert admit(store, request) == (request.id, True)
    made = read(store, request.id)
    assert (made.state, made.tenant, made.name) == (JobState.QUEUED, "lab", "cells-7")
    with store.begin() as conn:
        assert requests.pending(conn, limit=9) == []
        assert jobs.events(conn, request.id)[0].actor == "admit"
        assert [found.id for found in jobs.to_list(conn, stale_s=60)] == [request.id]
    row = answered(store, request)
    assert row.job_id == request.id
    assert row.answered_at is not None


def test_a_request_equal_to_an_active_job_joins_it_and_says_which(store: Store) -> None:
    asked = spec()
    first, second = ask(store, asked), ask(store, asked)
    admit(store, first)
    assert admit(store, second) == (first.id, False)
    assert answered(store, second).job_id == first.id


def test_a_refused_request_says_why(store: Store) -> None:
    request = ask(store)
    with store.begin() as conn:
        assert requests.refuse(conn, request.id, "prompts: is empty")
        assert not requests.refuse(conn, request.id, "again")
        assert requests.pending(conn, limit=9) == []
    row = answered(store, request)
    assert (row.error, row.job_id) == ("prompts: is empty", None)
    with pytest.raises(InvalidInput, match="refused"):
        admit(store, request)


@pytest.mark.parametrize("bad", ["", "a b", "-x", "x" * 254, "x/../y", "é"])
@pytest.mark.parametrize("column", ["tenant", "name"])
def test_a_tenant_or_name_that_is_none_is_refused_and_named(store: Store, column: str, bad: str) -> None:
    request = ask(store, **{column: bad})
    with pytest.raises(InvalidInput, match=rf"requests\.{column} .*1 to 253 letters"):
        admit(store, request)
    assert answered(store, request).answered_at is None


def test_of_two_controllers_one_admits_a_request(store: Store) -> None:
    request, together = ask(store, spec(dedupe=False)), Barrier(2)

    def take(_: int) -> list[tuple[UUID, bool]]:
        together.wait()
        with store.begin() as conn:
            found = requests.pending(conn, limit=9)
            return [
                (answer.job_id, answer.created)
                for one in found
                for answer in [requests.admit(conn, one, JobSpec.model_validate(one.spec), actor="admit")]
            ]

    with ThreadPoolExecutor(2) as threads:
        answers = [answer for of_one in threads.map(take, range(2)) for answer in of_one]
    assert answers == [(request.id, True)]
    # Also who has read it before and comes too late makes no second one.
    assert admit(store, request) == (request.id, False)


def test_pending_requests_come_oldest_first(store: Store) -> None:
    asked = [ask(store) for _ in range(3)]
    with store.begin() as conn:
        for place, request in enumerate(asked):
            at = request.created_at + timedelta(seconds=place)
            conn.execute(request_rows.update().where(request_rows.c.id == request.id).values(created_at=at))
    with store.begin() as conn:
        assert [found.id for found in requests.pending(conn, limit=2)] == [asked[0].id, asked[1].id]


def test_what_is_no_spec_at_all_can_be_read_and_refused(store: Store) -> None:
    with store.begin() as conn:
        conn.execute(sa.text("INSERT INTO requests (spec) VALUES (:spec)"), {"spec": json.dumps(["\x00", None])})
    with store.begin() as conn:
        (request,) = requests.pending(conn, limit=9)
        assert request.spec == ["\x00", None]
        assert requests.refuse(conn, request.id, "no spec: \x00 \udcff")


def test_old_answers_are_forgotten_and_open_requests_kept(store: Store) -> None:
    answers, still_open = [ask(store) for _ in range(3)], ask(store)
    for request in answers:
        admit(store, request)
    with store.begin() as conn:
        assert requests.prune(conn, older_than_s=60) == 0
        past = now(conn) - timedelta(seconds=100)
        conn.execute(request_rows.update().where(request_rows.c.answered_at.is_not(None)).values(answered_at=past))
    with store.begin() as conn:
        assert [requests.prune(conn, older_than_s=60, limit=2) for _ in range(3)] == [2, 1, 0]
        assert requests.get(conn, still_open.id) is not None
