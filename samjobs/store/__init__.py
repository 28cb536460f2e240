"""Everything SQL: nothing outside this package knows SQLAlchemy.

    store = connect("sqlite:///jobs.db")
    migrate(store)
    with store.begin() as conn:
        jobs.submit(conn, spec)

`engine` connects and begins, `tables` says what is stored, `transitions` is the only code that writes a state;
`jobs`, `shards`, `images`, `workers`, `requests`, `deliveries` are the named queries per table (a long one is spread
over files that its docstring names), `fronts` are those by the uid of a SamJob, `whole` writes new jobs by the dozen,
`repeats` knows submissions that are repeated, `views` reads for decisions and for people, `pages` and `tenancy` for the
API, `notify` wakes and hears.
On Postgres a transaction acts on one job or writes new ones, and a claim stands alone in its own: see `transitions`
for why.
Connections are opaque outside; rows come out as the frozen dataclasses of `rows`.
"""

from samjobs.store.engine import Connection, Store, connect, now
from samjobs.store.migrations import check_schema, migrate

__all__ = ["Connection", "Store", "check_schema", "connect", "migrate", "now"]
