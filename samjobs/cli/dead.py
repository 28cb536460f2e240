"""`samjobs dead`: shards that were given up and wait for a person."""

import json
from typing import Annotated

import typer

from samjobs.cli.context import AsJson, JobTable, Tenant, open_client, settings_for
from samjobs.cli.shown import shard_object, short
from samjobs.cli.streams import print_out
from samjobs.cli.tables import Table, age
from samjobs.client import Client
from samjobs.errors import InvalidInput
from samjobs.storage import redact
from samjobs.store.rows import Job, Shard

app = typer.Typer(no_args_is_help=True, help="Shards whose retries are used up, or that no retry can help.")

PAGE = 1000
Jobs = Annotated[list[str] | None, typer.Argument(metavar="[JOB...]", help="Ids, their first digits, or names.")]
All = Annotated[bool, typer.Option("--all", help="Of every job that has some.")]


@app.command("list")
def list_(
    tenant: Tenant = None,
    limit: Annotated[int, typer.Option(min=1, help="This many at most.")] = 100,
    db: JobTable = None,
    as_json: AsJson = False,
) -> None:
    """List dead shards with their last error."""
    with open_client(settings_for(db), "dead list") as client:
        found, at = client.dead(tenant=tenant, limit=limit), client.now()
    if as_json:
        for shard, job in found:
            print_out(json.dumps(shard_object(shard, job)))
    elif not found:
        print_out("no shard is dead")
    else:
        table = Table("JOB", "SHARD", "DONE", "FAILURES", "AGE", "ERROR")
        rows = [_row(shard, job, age(shard.finished_at, at)) for shard, job in found]
        print_out("\n".join(table.lines(rows)))


def _row(shard: Shard, job: Job, since: str) -> tuple[object, ...]:
    done = f"{shard.images_done}/{shard.images_total}"
    return short(job), shard.index, done, shard.failures, since, redact(shard.error or "-")


@app.command()
def retry(jobs: Jobs = None, every: All = False, tenant: Tenant = None, db: JobTable = None) -> None:
    """Put dead shards back to work, with their failures forgiven."""
    with open_client(settings_for(db), "dead retry") as client:
        for job in _chosen(client, jobs, every, tenant):
            print_out(f"{short(job)}: {client.retry(job.id, what='dead').shards} shards are queued again")


@app.command()
def purge(jobs: Jobs = None, every: All = False, tenant: Tenant = None, db: JobTable = None) -> None:
    """Give dead shards up for good. Their jobs stay, failed, with what they wrote."""
    with open_client(settings_for(db), "dead purge") as client:
        for job in _chosen(client, jobs, every, tenant):
            print_out(f"{short(job)}: {client.purge(job.id)} shards are given up")


def _chosen(client: Client, names: list[str] | None, every: bool, tenant: str | None) -> list[Job]:
    """The jobs that are named; or all with dead shards."""
    if bool(names) == every:
        raise InvalidInput("name the jobs, or give --all: `samjobs dead list` shows which have dead shards")
    if names:
        return [client.get(name) for name in names]
    found: dict[object, Job] = {}
    after = None
    while page := client.dead(tenant=tenant, after=after, limit=PAGE):
        after = page[-1][0].id
        found |= {job.id: job for _, job in page}
    if not found:
        print_out("no shard is dead")
    return list(found.values())
