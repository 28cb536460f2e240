"""Access by tokens from a file: who holds one, and what its role allows.

The file is read again when it has changed, so that a token is given or taken away without a restart. A change that
cannot be read is told in the log and changes nothing: callers keep what they had, until the file is right again.
"""

import hmac
import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from api.access.caller import Caller, Unauthenticated, Verb
from samjobs.errors import InvalidInput
from samjobs.tokens import EVERY_TENANT, Entry, Role, read, sha256_of

_log = logging.getLogger(__name__)

_LOOKS = frozenset({Verb.GET, Verb.LIST})
_EDITS = _LOOKS | {Verb.CREATE, Verb.UPDATE, Verb.RETRY}
ROLES: Mapping[Role, frozenset[Verb]] = MappingProxyType(
    {Role.VIEWER: _LOOKS, Role.EDITOR: _EDITS, Role.ADMIN: _EDITS | {Verb.PURGE, Verb.ADMIN}}
)


@dataclass(frozen=True)
class TokenHolder(Caller):
    """A caller with a token of the file."""

    tenant: str
    role: Role

    def tenants(self) -> frozenset[str] | None:
        """The token's tenant; None when it is for all."""
        return None if self.tenant == EVERY_TENANT else frozenset({self.tenant})


class TokenFile:
    """The callers of one file.

    Args:
        path: of the file, as `samjobs token` writes it.

    Raises:
        InvalidInput: it cannot be read, or an entry has no meaning.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._seen = _mark(path)
        self._entries = read(path)

    def who(self, token: str) -> Caller:
        """The holder of a token.

        Raises:
            Unauthenticated: the file has no such token.
        """
        digest = sha256_of(token)
        found = None
        for entry in self._current():
            # Each is looked at, so that the time tells nothing of what the file holds.
            if hmac.compare_digest(entry.token_sha256, digest):
                found = entry
        if found is None:
            raise Unauthenticated("the token is none that is known here: ask whoever runs samjobs for one")
        return TokenHolder(name=f"token:{found.name}", tenant=found.tenant, role=found.role)

    def allows(self, caller: Caller, verb: Verb, tenant: str | None) -> bool:
        """Whether the role of a token's holder has this right, and the token is for that tenant."""
        return (
            isinstance(caller, TokenHolder) and verb in ROLES[caller.role] and caller.tenant in (EVERY_TENANT, tenant)
        )

    def _current(self) -> tuple[Entry, ...]:
        with self._lock:
            mark = _mark(self._path)
            if mark != self._seen:
                self._seen = mark
                try:
                    self._entries = read(self._path)
                    _log.info("read the file of tokens again: %d tokens", len(self._entries))
                except InvalidInput as error:
                    _log.error("the tokens are those of before: %s", error)
            return self._entries


def _mark(path: Path) -> tuple[int, ...] | None:
    """What changes when a file is written, or another one is put in its place; None while there is none."""
    try:
        now = path.stat()
    except OSError:
        return None
    return now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns
