"""The command line: `samjobs process`, `queue`, `show`, `engines`.

Each command is a thin shell over `execution` and `store`. An error's text is the last line on standard error, and the
exit code says its kind: 0 all done, 1 some images failed, 2 wrong usage or input, 3 nothing can go on, 128 + n ended
by signal n.
"""

import logging
import signal
import sys
import traceback

import typer

from samjobs import __version__
from samjobs.cli import engines, process, queue, show
from samjobs.errors import ErrorClass, SamjobsError, describe

USAGE, CRITICAL = 2, 3

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Segment images with SAM 3: a folder on this machine, or jobs on a cluster.",
)
app.command("process")(process.process)
app.add_typer(queue.app, name="queue")
app.command("show")(show.show)
app.command("engines")(engines.engines)


@app.callback(invoke_without_command=True)
def _root(version: bool = typer.Option(False, "--version", help="Print the version and leave.")) -> None:
    if version:
        print(__version__)
        raise typer.Exit


def main() -> None:
    """Entry point of the `samjobs` command."""
    # Until a run takes it over, Ctrl-C ends the process as it ends any other: with 130 and no stack of calls.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    logging.basicConfig(level=logging.WARNING, format="samjobs: %(message)s", stream=sys.stderr)
    try:
        app()
    except SamjobsError as error:
        print(f"samjobs: {describe(error)}", file=sys.stderr)
        sys.exit(USAGE if error.error_class is ErrorClass.PERMANENT else CRITICAL)
    except Exception as error:
        # Python would leave with 1, which means that some images failed.
        traceback.print_exc()
        print(f"samjobs: a fault of samjobs, please report it: {describe(error)}", file=sys.stderr)
        sys.exit(CRITICAL)
