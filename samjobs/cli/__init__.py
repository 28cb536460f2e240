"""The command line: `process`, `queue`, `show` on one machine; `submit`, `get`, … on the job table of a cluster.

Each command is a thin shell over `execution` and `store`, or over `client`. An error's text is the last line on
standard error, and the exit code says its kind: 0 all done, 1 some images failed, 2 wrong usage or input, 3 nothing can
go on, 128 + n ended by signal n.
"""

import errno
import logging
import signal
import sys
import traceback
from pathlib import Path

import typer

from samjobs import __version__
from samjobs.cli import cluster, dead, detail, engines, jobs, process, queue, show, streams, submit, token, watch
from samjobs.cli.exits import Exit
from samjobs.errors import ErrorClass, InvalidInput, SamjobsError, describe

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Segment images with SAM 3: a folder on this machine, or jobs on a cluster.",
)
# One machine.
app.command("process")(process.process)
app.add_typer(queue.app, name="queue")
app.command("show")(show.show)
app.command("engines")(engines.engines)
# The job table of a cluster.
app.command("submit")(submit.submit)
app.command("get")(jobs.get)
app.command("describe")(detail.describe)
app.command("why")(detail.why)
app.command("watch")(watch.watch)
app.command("events")(jobs.events)
app.command("cancel")(jobs.cancel)
app.command("suspend")(jobs.suspend)
app.command("resume")(jobs.resume)
app.command("retry")(jobs.retry)
app.add_typer(dead.app, name="dead")
app.command("workers")(cluster.workers)
app.command("pools")(cluster.pools)
app.command("migrate")(cluster.migrate)
app.command("token")(token.token)


@app.callback(invoke_without_command=True)
def _root(version: bool = typer.Option(False, "--version", help="Print the version and leave.")) -> None:
    if version:
        streams.print_out(__version__)
        raise typer.Exit


def main() -> None:
    """Entry point of the `samjobs` command."""
    streams.prepare()
    # Until a run takes it over, Ctrl-C ends the process as it ends any other: with 130 and no stack of calls.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    logging.basicConfig(level=logging.WARNING, format="samjobs: %(message)s", stream=sys.stderr)
    try:
        code = _run()
        streams.flush()
    except SamjobsError as error:
        streams.say(describe(error))
        code = Exit.USAGE if error.error_class is ErrorClass.PERMANENT else Exit.CRITICAL
    except Exception as error:
        # Python would leave with 1, which means that some images failed.
        streams.write_error(traceback.format_exc())
        streams.say(f"a fault of samjobs, please report it: {describe(error)}")
        code = Exit.CRITICAL
    sys.exit(code)


def _run() -> int:
    """Run the command to its exit code."""
    try:
        app()
    except SystemExit as end:  # how typer ends
        return int(end.code or Exit.DONE)
    except OSError as error:
        # What fails with files is told where it fails; left are typer's own texts, and paths from here.
        if error.errno == errno.ENOSPC:
            streams.give_up(error)
        if _folder_is_gone():
            raise InvalidInput(
                "the working folder was removed: change to one that exists, or give absolute paths"
            ) from None
        raise
    raise AssertionError("typer ends by SystemExit")


def _folder_is_gone() -> bool:
    try:
        Path.cwd()
    except FileNotFoundError:
        return True
    return False
