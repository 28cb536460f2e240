"""`samjobs process`: from a folder of photos to masks, on this machine."""

from pathlib import Path
from typing import Annotated, Any

import typer

from samjobs.cli.context import AsJson, Database, Engines, Stop, open_store, settings_for, storage_for
from samjobs.cli.report import report_for
from samjobs.cli.run import Run, exit_code, work
from samjobs.execution.local import LocalWorker
from samjobs.execution.submit import Submission, submit
from samjobs.spec import Format, JobSpec, Mode, parse
from samjobs.storage import to_uri
from samjobs.store import jobs


def process(
    output: Annotated[str, typer.Option("--output", "-o", metavar="DIR_OR_URL", help="Where results go.")],
    source: Annotated[
        str | None, typer.Option("--input", "-i", metavar="DIR_OR_URL", help="Folder or URL prefix of the images.")
    ] = None,
    manifest: Annotated[
        str | None, typer.Option(metavar="FILE", help="JSON Lines instead: an image a line, with prompts of its own.")
    ] = None,
    prompt: Annotated[
        list[str] | None, typer.Option("--prompt", "-p", metavar="TEXT", help="Noun phrase to find; may be repeated.")
    ] = None,
    boxes: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Boxes per image: CSV image,x0,y0,x1,y1[,label][,positive] or JSON."),
    ] = None,
    points: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Clicks per image: CSV image,x,y[,positive][,object][,label] or JSON."),
    ] = None,
    mode: Annotated[
        Mode | None,
        typer.Option(
            help="What prompts mean; left out: point with --points, inside_box with --boxes alone, else find_all."
        ),
    ] = None,
    engine: Annotated[str, typer.Option(help="sam3, sam3-meta or opencv; see `samjobs engines`.")] = "sam3",
    model: Annotated[
        str | None, typer.Option(metavar="PATH_OR_ID", help="Weights; the engine's setting otherwise.")
    ] = None,
    revision: Annotated[str | None, typer.Option(help="Commit of a hub model.")] = None,
    formats: Annotated[
        list[Format] | None, typer.Option("--format", "-f", help="Files beside the records; may be repeated.")
    ] = None,
    classes: Annotated[
        list[str] | None,
        typer.Option("--class", metavar="NAME", help="Class names in yolo-seg's order; the prompts otherwise."),
    ] = None,
    score: Annotated[float, typer.Option(metavar="0…1", help="Least confidence of an instance.")] = 0.5,
    nms_iou: Annotated[
        float | None, typer.Option(metavar="0…1", help="Drop instances that overlap a better one more.")
    ] = None,
    min_area: Annotated[int, typer.Option(help="Least area of an instance in pixels.")] = 0,
    max_area: Annotated[int | None, typer.Option(help="Largest area of an instance in pixels.")] = None,
    max_instances: Annotated[int | None, typer.Option(help="Keep the best this many per image.")] = None,
    resume: Annotated[
        bool,
        typer.Option("--resume/--force", help="Only what is new, changed or failed (default); or everything again."),
    ] = True,
    workers: Annotated[int, typer.Option(min=1, help="Processes at work.")] = 1,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Stop after this many images; the rest stays for later.")
    ] = None,
    no_process: Annotated[
        bool, typer.Option("--no-process", help="Only queue; `samjobs queue process` works it.")
    ] = False,
    name: Annotated[str | None, typer.Option(help="Name of the job; the output's otherwise.")] = None,
    shard_size: Annotated[int, typer.Option(min=1, help="Images that a process takes at once.")] = 32,
    db: Database = None,
    as_json: AsJson = False,
) -> None:
    """Segment every image below a folder or URL.

    A second run does only what is new, changed or failed. Ctrl-C and a crash lose at most the image in hand.
    """
    spec = build_spec(
        images={
            "prefix": _absolute(source),
            "manifest": _absolute(manifest),
            "boxes": _absolute(boxes),
            "points": _absolute(points),
        },
        mode=mode or _mode(prompt, boxes, points),
        prompts={"text": prompt or []},
        thresholds={
            "score": score,
            "nmsIou": nms_iou,
            "minArea": min_area,
            "maxArea": max_area,
            "maxInstances": max_instances,
        },
        output={"uri": _absolute(output), "formats": formats or [], "classes": classes or []},
        engine=engine,
        model=model,
        revision=revision,
        resume=resume,
        shardSize=shard_size,
    )
    settings = settings_for(db)
    report, stop, engines = report_for(as_json), Stop(), Engines(settings)
    with (
        open_store(settings) as store,
        storage_for(settings) as storage,
        LocalWorker(store, storage, settings, engines) as worker,
        stop.listening(report.say),
    ):
        if not no_process and workers == 1:
            engines(spec)  # a model that cannot be loaded is told before anything is queued
        job_name = name or Path(spec.output.uri).name or "job"
        submission = submit(store, storage, spec, worker, name=job_name)
        _tell(report.say, submission)
        run = Run(store, storage, settings, engines, worker, report, stop, limit)
        run.tally.total = submission.images
        if not no_process:
            report.begin(submission.images)
            work(run, submission.job_id, workers)
        with store.read() as conn:
            job = jobs.get(conn, submission.job_id)
        assert job is not None, "the job was submitted above"
        run.tally.total = job.images_total
        summary = run.tally.summary() | {"job": str(job.id), "jobState": job.state.value, "output": spec.output.uri}
        report.end(summary)
        code = exit_code(run, submission.job_id)
    engines.close()
    raise typer.Exit(code)


def build_spec(**data: Any) -> JobSpec:
    """A JobSpec from the command's options.

    Raises:
        InvalidInput: one line per problem.
    """
    return parse(JobSpec, data, "options")


def _mode(prompt: list[str] | None, boxes: str | None, points: str | None) -> Mode:
    if points is not None:
        return Mode.POINT
    return Mode.INSIDE_BOX if boxes is not None and not prompt else Mode.FIND_ALL


def _absolute(place: str | None) -> str | None:
    """Paths are remembered as absolute ones: the queue may be worked from another folder."""
    return None if place is None else to_uri(place)


def _tell(say: Any, submission: Submission) -> None:
    if submission.joined:
        say("another samjobs process is at work on the same job: joining it")
    elif submission.ignored:
        passed = ", ".join(f"{count} {reason}" for reason, count in sorted(submission.ignored.items()))
        say(f"{submission.images} images found; passed over: {passed}")
