"""The command line: `samjobs process`, `queue`, `show`, `engines`.

Each command is a thin shell over `execution` and `store`. An error's text is the last line on standard error, and the
exit code says its kind: 0 all done, 1 some images failed, 2 wrong usage or input, 3 nothing can go on.
"""

import logging
import sys
from typing import Any

import typer
from typer.core import TyperGroup

from samjobs import __version__
from samjobs.cli import engines, process, queue, show
from samjobs.errors import ErrorClass, SamjobsError

USAGE, CRITICAL = 2, 3


class _Guarded(TyperGroup):
    """Turns the errors that samjobs raises on purpose into a last line and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except SamjobsError as error:
            print(f"samjobs: {error}", file=sys.stderr)
            raise typer.Exit(USAGE if error.error_class is ErrorClass.PERMANENT else CRITICAL) from None


app = typer.Typer(
    cls=_Guarded,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
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
    logging.basicConfig(level=logging.WARNING, format="samjobs: %(message)s", stream=sys.stderr)
    app()
