"""`samjobs process`: from a folder of photos to masks, on this machine."""

from pathlib import Path
from typing import Annotated

import typer

from samjobs.cli.context import AsJson, Database
from samjobs.cli.report import Report
from samjobs.cli.run import Run, open_run
from samjobs.cli.work import summary, work
from samjobs.errors import InvalidInput
from samjobs.execution.shard import refuse_prompts
from samjobs.execution.submit import Submission, refuse_output, submit
from samjobs.spec import Format, JobSpec, Mode, parse
from samjobs.storage import to_uri

REMEMBERED_S = 30 * 24 * 3600  # how long `queue status` and `show` know an ended job; its results stay for ever


# Between two shards the device waits for the first picture of the next one, some 50 ms; several processes need enough
# shards to share.
ALONE, SHARED = 128, 32


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
    score: Annotated[float, typer.Option(metavar="0…1", help="Least confidence of an instance in find_all.")] = 0.5,
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
        int | None, typer.Option(min=1, help="Segment this many images at most; the rest stays for later.")
    ] = None,
    no_process: Annotated[
        bool, typer.Option("--no-process", help="Only queue; `samjobs queue process` works it.")
    ] = False,
    name: Annotated[str | None, typer.Option(help="Name of the job; the output's otherwise.")] = None,
    shard_size: Annotated[
        int | None, typer.Option(min=1, help="Images that a process takes at once: 128; 32 with several workers.")
    ] = None,
    db: Database = None,
    as_json: AsJson = False,
) -> None:
    """Segment every image below a folder or URL.

    A second run does only what is new, changed or failed. Ctrl-C and a crash lose at most the image in hand.
    """
    asked = {
        "images": {
            "prefix": _place("--input", source),
            "manifest": _place("--manifest", manifest),
            "boxes": _place("--boxes", boxes),
            "points": _place("--points", points),
        },
        "mode": mode or _mode(prompt, boxes, points),
        "prompts": {"text": prompt or []},
        "thresholds": {
            "score": score,
            "nmsIou": nms_iou,
            "minArea": min_area,
            "maxArea": max_area,
            "maxInstances": max_instances,
        },
        "output": {"uri": _place("--output", output), "formats": formats or [], "classes": classes or []},
        "engine": engine,
        "model": model,
        "revision": revision,
        "resume": resume,
        "shardSize": shard_size or (ALONE if workers == 1 else SHARED),
        "ttlSecondsAfterFinished": REMEMBERED_S,
    }
    spec = parse(JobSpec, asked, "options")
    refuse_output(spec.output.uri)
    if limit is not None and not resume:
        raise InvalidInput("--force begins anew each time, so with --limit it would never get further: leave out one")
    with open_run(db, as_json, limit) as run:
        if not no_process:
            # Before anything is queued: a model that cannot be loaded, or that cannot be asked so, serves nobody.
            refuse_prompts(spec, run.engines(spec))
            if workers > 1:
                run.engines.close()  # each process loads its own
        submission = submit(
            run.store,
            run.storage,
            spec,
            run.worker,
            name=name or Path(spec.output.uri).name or "job",
            listed=lambda count: _leave_if(run.stop.exit_code),
        )
        _tell(run.report, submission, spec)
        run.only, run.scope = submission.job_id, [submission.job_id]
        run.tally.total = submission.images
        if no_process:
            _tell_queued(run)
        else:
            _leave_if(work(run, workers))


def _leave_if(code: int | None) -> None:
    if code:
        raise typer.Exit(code)


def _mode(prompt: list[str] | None, boxes: str | None, points: str | None) -> Mode:
    if points is not None:
        return Mode.POINT
    return Mode.INSIDE_BOX if boxes is not None and not prompt else Mode.FIND_ALL


def _place(option: str, text: str | None) -> str | None:
    """Paths are remembered as absolute ones: the queue may be worked from another folder."""
    if text is None:
        return None
    if not text.strip():  # an unset variable of a script; as a path it would be the working folder
        raise InvalidInput(f"{option} {text!r} is empty: give a path or a URL")
    return to_uri(text)


def _tell(report: Report, submission: Submission, spec: JobSpec) -> None:
    if submission.joined:
        forced = "" if spec.resume else "; --force means nothing to it"
        report.say(f"another samjobs process is at work on the same job: joining it{forced}")
    elif submission.ignored:
        report.say(f"{submission.images} images found; passed over: {submission.passed_over}")


def _tell_queued(run: Run) -> None:
    (job,) = run.jobs()
    run.report.say(f"{job.images_total} images are queued; `samjobs queue process --job {str(job.id)[:8]}` works them")
    run.report.end(summary(run))
