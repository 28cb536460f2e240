"""`samjobs token`: a new token for a caller of the API, and the entry by which the API knows it."""

import json
from pathlib import Path
from typing import Annotated

import typer
from pydantic import ValidationError

from samjobs.cli.context import AsJson
from samjobs.cli.options import not_empty
from samjobs.cli.streams import print_out, say
from samjobs.errors import InvalidInput, OutputUnwritable
from samjobs.spec import explain
from samjobs.tokens import Entry, Role, fresh, read, sha256_of, written


def token(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Whose it is; stands in the events of what it does.")],
    tenant: Annotated[str, typer.Option("--tenant", "-n", help="Whose jobs it is for; *: everybody's.")],
    role: Annotated[Role, typer.Option(help="viewer looks, editor submits and cancels too, admin purges too.")],
    file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Add the entry to this file, and print the token alone."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make a token for the API. It is shown once: what SAMJOBS_API_TOKENS_FILE holds is its hash.

    To take a token away, remove its entry: the API reads the file again when it changes.
    """
    made = fresh()
    try:
        entry = Entry.model_validate({"name": name, "tokenSha256": sha256_of(made), "tenant": tenant, "role": role})
    except ValidationError as error:
        raise InvalidInput(explain(error, "token")) from None
    if file is not None:
        not_empty("--file", str(file))
        _add(file, entry)
    if as_json:
        print_out(json.dumps({"token": made, "entry": entry.model_dump(by_alias=True, mode="json")}))
    elif file is not None:
        print_out(made)
    else:
        print_out(f"{made}\n\n# for SAMJOBS_API_TOKENS_FILE:\n{written(entry)}".rstrip("\n"))


def _add(file: Path, entry: Entry) -> None:
    """Write an entry at the end of a file of tokens, which is made where there is none."""
    if file.exists():
        # One that is wrong already is told before anything is added.
        others = sum(standing.name == entry.name for standing in read(file))
        if others:
            say(f"{entry.name} has {others} more in {file}, which stay valid until their entries are removed")
    try:
        ended = not file.exists() or file.read_bytes()[-1:] in (b"", b"\n")
        with file.open("a", encoding="utf-8") as opened:
            opened.write(("" if ended else "\n") + written(entry))
    except OSError as error:
        raise OutputUnwritable(f"--file {file}: {error.strerror}: name a file that can be written") from None
    read(file)  # an entry that does not fit what stands above it, as after a list in brackets
