"""`samjobs process`: from a folder of photos to masks, on this machine."""

from pathlib import Path
from typing import Annotated

import typer

from samjobs.cli import options
from samjobs.cli.context import AsJson, Database
from samjobs.cli.report import Report
from samjobs.cli.run import Run, open_run
from samjobs.cli.work import summary, work
from samjobs.errors import InvalidInput
from samjobs.execution.shard import refuse_prompts
from samjobs.execution.submit import Submission, submit
from samjobs.places import refuse_output
from samjobs.spec import Format, JobSpec, parse
from samjobs.storage import decode_path, to_uri
from samjobs.storage.paths import scheme_of

REMEMBERED_S = 30 * 24 * 3600  # how long `queue status` and `show` know an ended job; its results stay for ever


# Between two shards the device waits for the first picture of the next one, some 50 ms; several processes need enough
# shards to share.
ALONE, SHARED = 128, 32


def process(
    output: Annotated[str, typer.Option("--output", "-o", metavar="DIR_OR_URL", help="Where results go.")],
    source: options.Source = None,
    manifest: options.Manifest = None,
    prompt: options.Phrases = None,
    boxes: options.Boxes = None,
    points: options.Points = None,
    mode: options.Meaning = None,
    engine: options.EngineName = options.DEFAULT_ENGINE,
    model: options.Weights = None,
    revision: options.Revision = None,
    formats: Annotated[
        list[Format] | None, typer.Option("--format", "-f", help="Files beside the records; may be repeated.")
    ] = None,
    classes: options.Classes = None,
    score: options.Score = options.DEFAULT_SCORE,
    nms_iou: options.NmsIou = None,
    min_area: options.MinArea = 0,
    max_area: options.MaxArea = None,
    max_instances: options.MaxInstances = None,
    resume: options.Resume = True,
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
    asked = options.asked(
        source=_source("--input", source),
        manifest=_source("--manifest", manifest),
        prompt=prompt,
        boxes=_source("--boxes", boxes),
        points=_source("--points", points),
        mode=mode,
        engine=engine,
        model=model,
        revision=revision,
        output=_place("--output", output),
        formats=formats,
        classes=classes,
        score=score,
        nms_iou=nms_iou,
        min_area=min_area,
        max_area=max_area,
        max_instances=max_instances,
        resume=resume,
    )
    asked |= {
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


def _place(option: str, text: str | None) -> str | None:
    """Paths are remembered as absolute ones: the queue may be worked from another folder."""
    given = options.not_empty(option, text)
    return None if given is None else to_uri(given)


def _source(option: str, text: str | None) -> str | None:
    """A place to read from, absolute too, as a person would write it: it is read by `to_uri` once more."""
    uri = _place(option, text)
    if uri is None or scheme_of(uri) is not None:
        return text
    return Path(decode_path(uri)).as_uri() if "%" in uri else uri


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
