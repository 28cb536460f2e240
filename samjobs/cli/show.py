"""`samjobs show IMAGE`: why an image failed, and its history."""

import json
from typing import Annotated

import typer

from samjobs.cli.context import AsJson, Database, open_store, settings_for
from samjobs.cli.streams import print_out
from samjobs.errors import InvalidInput
from samjobs.storage import encode_path, to_uri
from samjobs.store import images
from samjobs.store.rows import ImageHistory


def show(
    image: Annotated[str, typer.Argument(help="Its path or URL, or its path below the input folder.")],
    db: Database = None,
    as_json: AsJson = False,
) -> None:
    """Tell what became of one image in each job, newest first."""
    with open_store(settings_for(db)) as store, store.read() as conn:
        # As a key below the input folder, as an address, and as a path from here.
        names = dict.fromkeys((encode_path(image), image, to_uri(image)))
        found = next((history for name in names if (history := images.history(conn, name))), [])
    if not found:
        raise InvalidInput(f"IMAGE: no job knows {image!r}; give its path as it was given to `samjobs process`")
    for entry in found:
        print_out(json.dumps(_as_json(entry)) if as_json else _as_text(entry))


def _as_json(entry: ImageHistory) -> dict[str, object]:
    image = entry.image
    return {
        "job": str(entry.job_id),
        "jobName": entry.job_name,
        "image": image.key,
        "uri": image.uri,
        "state": image.state.value,
        "reason": image.reason,
        "error": image.error,
        "width": image.width,
        "height": image.height,
        "instances": image.instances,
        "record": image.output_uri,
        "finishedAt": image.finished_at.isoformat() if image.finished_at else None,
        "events": [
            {
                "at": event.at.isoformat(),
                "subject": event.subject,
                "from": event.from_state,
                "to": event.to_state,
                "reason": event.reason,
                "message": event.message,
            }
            for event in entry.events
        ],
    }


def _as_text(entry: ImageHistory) -> str:
    image = entry.image
    when = image.finished_at or entry.job_created_at
    job = f"job {str(entry.job_id)[:8]} ({entry.job_name})"
    lines = [f"{when:%Y-%m-%d %H:%M:%S %Z}  {job}  {image.state.value}: {image.reason or 'waits'}"]
    lines.append(f"  image   {image.uri}")
    if image.error:
        lines.append(f"  error   {image.error}")
    if image.instances is not None:
        lines.append(f"  found   {image.instances} instances on {image.width} × {image.height} pixels")
    if image.output_uri:
        lines.append(f"  record  {image.output_uri}")
    for event in entry.events:
        change = f"{event.subject} {event.from_state or '–'} → {event.to_state}"
        lines.append(f"  {event.at:%H:%M:%S}  {change}: {event.reason} {event.message}")
    return "\n".join(lines)
