"""How is a caller's token made, and what does a file of tokens hold?

The file is YAML: a list with an entry per token, which says whose it is and what it may do. It holds the tokens'
SHA-256, never the tokens, so that whoever reads it can call nothing. A token is 32 random bytes, which nobody finds by
trying, so a fast hash is enough.

    - name: ci
      tokenSha256: 1f0c…
      tenant: acme
      role: editor
"""

import hashlib
import secrets
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import yaml
from pydantic import Field, StringConstraints, TypeAdapter, ValidationError

from samjobs.errors import InvalidInput, describe
from samjobs.spec import Model, Name, explain

EVERY_TENANT = "*"
_MARK = "samjobs_"  # by which people and scanners of secrets know what they have found


class Role(StrEnum):
    """What the holder of a token may do; each may do what the ones before it may."""

    VIEWER = "viewer"  # look at jobs, images and results
    EDITOR = "editor"  # and submit, cancel, suspend, resume, retry
    ADMIN = "admin"  # and purge; with every tenant, see workers, pools and settings too


class Entry(Model):
    """A token of the file."""

    name: Name = Field(description="Whose it is; stands in the events of what it does.")
    token_sha256: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")] = Field(
        description="SHA-256 of the token, in hexadecimal digits."
    )
    tenant: Annotated[
        str, StringConstraints(max_length=253, pattern=r"^(\*|[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?)$")
    ] = Field(description="Whose jobs it is for; `*`: everybody's.")
    role: Role = Field(description="viewer, editor or admin.")


_ENTRIES: TypeAdapter[list[Entry]] = TypeAdapter(list[Entry])


def fresh() -> str:
    """A new token."""
    return f"{_MARK}{secrets.token_urlsafe(32)}"


def sha256_of(token: str) -> str:
    """What the file holds of a token.

    >>> sha256_of("samjobs_1")[:8]
    '6d1ec6fa'
    """
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def written(entry: Entry) -> str:
    """An entry as the lines of the file.

    >>> print(written(Entry(name="ci", token_sha256="0" * 64, tenant="*", role=Role.VIEWER)), end="")
    - name: ci
      tokenSha256: '0000000000000000000000000000000000000000000000000000000000000000'
      tenant: '*'
      role: viewer
    """
    return yaml.safe_dump([entry.model_dump(by_alias=True, mode="json")], sort_keys=False)


def read(path: Path) -> tuple[Entry, ...]:
    """The entries of a file of tokens.

    Raises:
        InvalidInput: the file cannot be read, or an entry has no meaning; naming file, field and remedy.
    """
    try:
        # No character is refused here: YAML says in which line one is that it does not take.
        found = yaml.safe_load(path.read_text(encoding="utf-8", errors="replace"))
    except OSError as error:
        raise InvalidInput(
            f"the file of tokens {path} cannot be read: {error.strerror}: `samjobs token --file` writes one"
        ) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # the last two: a date that is none; nested too deep
        raise InvalidInput(f"the file of tokens {path} is no YAML: {describe(error, 300)}") from None
    try:
        entries = tuple(_ENTRIES.validate_python([] if found is None else found))
    except ValidationError as error:
        raise InvalidInput(explain(error, f"the file of tokens {path}")) from None
    twice = {one.token_sha256 for one in entries}
    if len(twice) < len(entries):
        raise InvalidInput(f"the file of tokens {path}: a tokenSha256 is in it twice: give each caller a token")
    return entries
