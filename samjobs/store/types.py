"""Column types that keep what people's data really holds: aware times, any text, any file name.

- `UtcDateTime` gives aware UTC times back and refuses naive ones; on SQLite all times, Python's and the database's,
  are one fixed-width text, so that they compare as they should.
- `SafeText` is for words that people read: what a database refuses is escaped, and long texts are clipped.
- `ExactText` is for addresses: it escapes too, but gives back exactly what was put in, so that a file whose name is
  not valid UTF-8 can still be opened.
- `PromptsJson` and `SpecJson` keep the validated models. They are stored as text JSON (never `jsonb`, which refuses
  an escaped NUL).
"""

import re
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.engine import Dialect
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from samjobs.errors import InvalidInput, storable
from samjobs.spec import JobSpec, Prompts


class UtcDateTime(sa.TypeDecorator[datetime]):
    """A point in time: aware in Python, UTC in the table."""

    impl = sa.DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        if value.tzinfo is None:
            raise InvalidInput(f"time {value.isoformat()} has no zone: give one, e.g. {value.isoformat()}Z")
        # SQLite has no zones: the text that it keeps is UTC by this line.
        return value.astimezone(UTC) if dialect.name != "sqlite" else value.astimezone(UTC).replace(tzinfo=None)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class db_now(FunctionElement[datetime]):
    """The database's clock as an SQL expression."""

    type = UtcDateTime()
    inherit_cache = True


@compiles(db_now, "postgresql")
def _now_postgres(element: db_now, compiler: SQLCompiler, **options: Any) -> str:
    return "clock_timestamp()"


@compiles(db_now, "sqlite")
def _now_sqlite(element: db_now, compiler: SQLCompiler, **options: Any) -> str:
    # Milliseconds are what SQLite's clock gives; the zeros make it as wide as the times that Python writes.
    # In brackets, so that it may also be a column's default.
    return "(strftime('%Y-%m-%d %H:%M:%f000', 'now'))"


class new_id(FunctionElement[UUID]):
    """A random id as an SQL expression."""

    type = sa.Uuid()
    inherit_cache = True


@compiles(new_id, "postgresql")
def _new_id_postgres(element: new_id, compiler: SQLCompiler, **options: Any) -> str:
    return "gen_random_uuid()"


@compiles(new_id, "sqlite")
def _new_id_sqlite(element: new_id, compiler: SQLCompiler, **options: Any) -> str:
    return "(lower(hex(randomblob(16))))"  # as sa.Uuid keeps ids there


class SafeText(sa.TypeDecorator[str]):
    """Text for people, at most `limit` characters."""

    impl = sa.Text
    cache_ok = True

    def __init__(self, limit: int = 2000) -> None:
        super().__init__()
        self.limit = limit

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        if value is None:
            return None
        text = storable(value)
        return text if len(text) <= self.limit else text[: self.limit - 1] + "…"


_UNSTORABLE = re.compile("[\x00\\\\\ud800-\udfff]")
_ESCAPED = re.compile(r"\\(\\|x00|u[0-9a-f]{4})")


def escape_exact(text: str) -> str:
    r"""`text` with NUL, lone surrogates and backslashes escaped; no two texts become one.

    >>> escape_exact("a\udcff") == r"a\udcff", escape_exact(r"a\udcff") == r"a\\udcff"
    (True, True)
    """
    named = {"\x00": r"\x00", "\\": r"\\"}
    return _UNSTORABLE.sub(lambda found: named.get(found[0], f"\\u{ord(found[0]):04x}"), text)


def unescape_exact(text: str) -> str:
    r"""The text that `escape_exact` was given.

    >>> unescape_exact(escape_exact("a\udcff\\b\x00")) == "a\udcff\\b\x00"
    True
    """
    if "\\" not in text:
        return text
    return _ESCAPED.sub(lambda found: "\\" if found[1] == "\\" else chr(int(found[1][1:], 16)), text)


class ExactText(sa.TypeDecorator[str]):
    """Text that comes back exactly, whatever a file system put into it."""

    impl = sa.Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else escape_exact(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else unescape_exact(value)


class SpecJson(sa.TypeDecorator[JobSpec]):
    """A JobSpec."""

    impl = sa.JSON(none_as_null=True)
    cache_ok = True

    def process_bind_param(self, value: JobSpec | None, dialect: Dialect) -> Any:
        # Defaults too: a job means tomorrow what it meant when it was submitted.
        return None if value is None else value.model_dump(mode="json", by_alias=True)

    def process_result_value(self, value: Any, dialect: Dialect) -> JobSpec | None:
        return None if value is None else JobSpec.model_validate(value)


class PromptsJson(sa.TypeDecorator[Prompts]):
    """The prompts of one image."""

    impl = sa.JSON(none_as_null=True)
    cache_ok = True

    def process_bind_param(self, value: Prompts | None, dialect: Dialect) -> Any:
        return None if value is None else value.model_dump(mode="json", by_alias=True, exclude_defaults=True)

    def process_result_value(self, value: Any, dialect: Dialect) -> Prompts | None:
        return None if value is None else Prompts.model_validate(value)
