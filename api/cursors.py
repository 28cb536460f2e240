"""From where a list goes on, as an opaque word: whoever gets one gives it back as it is.

It holds nothing that the caller has not seen, and proves nothing: rights and filters are judged anew for each page. A
word that was not made here, or for another list, is refused.
"""

import base64
import binascii
import json
from datetime import UTC, datetime
from uuid import UUID

from api.problems import Refused, against_rule

LONGEST = 200


def of_time(at: datetime, row_id: UUID) -> str:
    """A place in a list that is ordered by time and id.

    >>> read_time(of_time(datetime(2026, 1, 2, tzinfo=UTC), UUID(int=7)))[1]
    UUID('00000000-0000-0000-0000-000000000007')
    """
    return _written(["t", at.astimezone(UTC).isoformat(), row_id.hex])


def of_id(row_id: UUID) -> str:
    """A place in a list that is ordered by id."""
    return _written(["i", row_id.hex])


def of_index(index: int) -> str:
    """A place in a list that is ordered by a number."""
    return _written(["n", index])


def read_time(cursor: str) -> tuple[datetime, UUID]:
    """What `of_time` was given.

    Raises:
        Refused: it was not made by it.
    """
    match _read(cursor):
        case ["t", str(at), str(row_id)]:
            try:
                found = datetime.fromisoformat(at)
                if found.tzinfo is not None:
                    return found.astimezone(UTC), UUID(row_id)
            except (ValueError, OverflowError):
                pass
    raise _bad(cursor)


def read_id(cursor: str) -> UUID:
    """What `of_id` was given.

    Raises:
        Refused: it was not made by it.
    """
    match _read(cursor):
        case ["i", str(row_id)]:
            try:
                return UUID(row_id)
            except ValueError:
                pass
    raise _bad(cursor)


def read_index(cursor: str) -> int:
    """What `of_index` was given.

    Raises:
        Refused: it was not made by it.
    """
    match _read(cursor):
        case ["n", int(index)] if not isinstance(index, bool) and -1 <= index < 2**31 - 1:
            return index
    raise _bad(cursor)


def _written(value: list[object]) -> str:
    return base64.urlsafe_b64encode(json.dumps(value, separators=(",", ":")).encode()).decode().rstrip("=")


def _read(cursor: str) -> object:
    try:
        data = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        return json.loads(data)
    except (binascii.Error, ValueError, RecursionError):
        return None


def _bad(_: str) -> Refused:
    return against_rule("cursor: it is not one that this list gave: leave it out to begin anew")
