"""Cursors come back as what they were made of, and nothing else is one."""

from datetime import UTC, datetime
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api import cursors
from api.problems import Refused

TRUE = "WyJuIix0cnVlXQ"  # where a number should be
READERS = [cursors.read_time, cursors.read_id, cursors.read_index]


@given(st.datetimes(timezones=st.just(UTC)), st.uuids())
def test_a_time_comes_back_to_the_microsecond(at: datetime, row_id: UUID) -> None:
    assert cursors.read_time(cursors.of_time(at, row_id)) == (at, row_id)


@given(st.uuids(), st.integers(-1, 2**31 - 2))
def test_ids_and_numbers_come_back(row_id: UUID, index: int) -> None:
    assert cursors.read_id(cursors.of_id(row_id)) == row_id
    assert cursors.read_index(cursors.of_index(index)) == index


def test_a_cursor_fits_the_parameter_that_takes_it() -> None:
    assert (
        len(cursors.of_time(datetime(9999, 12, 31, 23, 59, 59, 999_999, UTC), UUID(int=2**128 - 1))) < cursors.LONGEST
    )


@pytest.mark.parametrize("read", READERS)
@given(
    st.text(max_size=60)
    | st.sampled_from(["", "W10", "bnVsbA", cursors.of_index(3)[:-1] + "=", "WyJuIiwxZTk5XQ", TRUE])
)
def test_anything_else_is_refused(read: object, text: str) -> None:
    assert callable(read)
    with pytest.raises(Refused, match="cursor"):
        read(text)


@pytest.mark.parametrize("own", range(3))
def test_one_list_takes_no_cursor_of_another(own: int) -> None:
    made = [
        cursors.of_time(datetime(2026, 1, 1, tzinfo=UTC), UUID(int=1)),
        cursors.of_id(UUID(int=1)),
        cursors.of_index(1),
    ]
    for other in {0, 1, 2} - {own}:
        with pytest.raises(Refused):
            READERS[own](made[other])  # type: ignore[operator]
