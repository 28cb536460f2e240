"""`samjobs submit`: put a job into the table of a cluster, from options or from a file."""

import json
from typing import Annotated, Any

import typer

from samjobs.cli import options, specfile
from samjobs.cli.context import AsJson, JobTable, open_client, settings_for
from samjobs.cli.streams import print_out, say
from samjobs.cli.watch import follow
from samjobs.client import Client
from samjobs.errors import InvalidInput
from samjobs.names import DEFAULT_TENANT
from samjobs.spec import Format, JobSpec, parse
from samjobs.store.rows import Submitted

# What may stand beside a file: what does not say what the job is.
_BESIDE_FILE = frozenset({"file", "name", "tenant", "wait", "db", "as_json"})


def submit(
    ctx: typer.Context,
    file: Annotated[
        str | None, typer.Option("--file", "-f", metavar="FILE", help="The job as YAML or JSON; - is standard input.")
    ] = None,
    source: options.Source = None,
    manifest: options.Manifest = None,
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="DIR_OR_URL", help="Where results go.")
    ] = None,
    prompt: options.Phrases = None,
    boxes: options.Boxes = None,
    points: options.Points = None,
    mode: options.Meaning = None,
    engine: options.EngineName = options.DEFAULT_ENGINE,
    model: options.Weights = None,
    revision: options.Revision = None,
    formats: Annotated[
        list[Format] | None, typer.Option("--format", help="Files beside the records; may be repeated.")
    ] = None,
    classes: options.Classes = None,
    score: options.Score = options.DEFAULT_SCORE,
    nms_iou: options.NmsIou = None,
    min_area: options.MinArea = 0,
    max_area: options.MaxArea = None,
    max_instances: options.MaxInstances = None,
    resume: options.Resume = True,
    name: Annotated[str | None, typer.Option(help="A name for it; several jobs may have one.")] = None,
    tenant: Annotated[str, typer.Option("--tenant", "-n", help="Whose job it is.")] = DEFAULT_TENANT,
    region: Annotated[str | None, typer.Option(help="Whose workers take it.")] = None,
    priority: Annotated[int | None, typer.Option(help="Higher goes first; 0 when left out.")] = None,
    not_before: Annotated[
        str | None, typer.Option(metavar="TIME", help="Not started before it, e.g. 2026-12-24T18:00:00+01:00.")
    ] = None,
    deadline: Annotated[
        int | None, typer.Option(metavar="SECONDS", help="Failed when not finished so long after its submission.")
    ] = None,
    ttl: Annotated[
        int | None, typer.Option(metavar="SECONDS", help="Forgotten so long after its end; results stay.")
    ] = None,
    callback: Annotated[str | None, typer.Option(metavar="URL", help="https address told of the end.")] = None,
    parallelism: Annotated[int | None, typer.Option(help="Shards of it that may run at once.")] = None,
    shard_size: Annotated[
        int | None, typer.Option(help="Images that a worker takes at once; 32 when left out.")
    ] = None,
    max_failed_images: Annotated[
        int | None, typer.Option(help="It fails above this many; left out: when all failed.")
    ] = None,
    suspend: Annotated[bool, typer.Option("--suspend", help="Not started until `samjobs resume`.")] = False,
    wait: Annotated[
        bool, typer.Option("--wait", help="Tell its progress to its end, as `samjobs watch` does.")
    ] = False,
    db: JobTable = None,
    as_json: AsJson = False,
) -> None:
    """Submit a job to the workers of a cluster, and print its id. On one machine alone: `samjobs process`.

    Paths are absolute and mean the same to every worker. With --wait the exit code is that of `samjobs watch`.
    """
    settings = settings_for(db)
    if file is not None:
        _refuse_beside_file(ctx)
        specs = specfile.read(file)
    else:
        asked = options.asked(
            source=options.not_empty("--input", source),
            manifest=options.not_empty("--manifest", manifest),
            prompt=prompt,
            boxes=options.not_empty("--boxes", boxes),
            points=options.not_empty("--points", points),
            mode=mode,
            engine=engine,
            model=model,
            revision=revision,
            output=options.not_empty("--output", output),
            formats=formats,
            classes=classes,
            score=score,
            nms_iou=nms_iou,
            min_area=min_area,
            max_area=max_area,
            max_instances=max_instances,
            resume=resume,
        )
        if output is None:
            raise InvalidInput("--output is missing: give a folder or a URL; or the whole job by --file")
        queued: dict[str, Any] = {
            "region": region,
            "priority": priority,
            "notBefore": not_before,
            "activeDeadlineSeconds": deadline,
            "ttlSecondsAfterFinished": ttl,
            "callback": callback,
            "parallelism": parallelism,
            "shardSize": shard_size,
            "failurePolicy": {"maxFailedImages": max_failed_images},
            "suspend": suspend,
        }
        given = {field: value for field, value in queued.items() if value is not None}
        specs = [parse(JobSpec, asked | given, "options")]
    with open_client(settings, "submit") as client:
        submitted = [_submit(client, spec, name, tenant, as_json=as_json) for spec in specs]
        codes = [follow(client, one.job_id, as_json=as_json) for one in submitted] if wait else []
    raise typer.Exit(max(codes, default=0))


def _refuse_beside_file(ctx: typer.Context) -> None:
    for parameter in ctx.command.params:
        source = ctx.get_parameter_source(parameter.name) if parameter.name else None
        if parameter.name not in _BESIDE_FILE and source is not None and source.name == "COMMANDLINE":
            raise InvalidInput(f"{parameter.opts[0]} does not go with --file: write it into the file")


def _submit(client: Client, spec: JobSpec, name: str | None, tenant: str, *, as_json: bool) -> Submitted:
    submitted = client.submit(spec, name=name, tenant=tenant)
    if as_json:
        print_out(json.dumps({"type": "submitted", "id": str(submitted.job_id), "created": submitted.created}))
        return submitted
    if not submitted.created:
        say("an equal job is active: joined it")
    print_out(str(submitted.job_id))
    return submitted
