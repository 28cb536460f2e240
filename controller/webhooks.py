"""How does a receiver know that a webhook is ours, and how is nothing inside reached by one?

Signed by the Standard Webhooks scheme: `webhook-id`, `webhook-timestamp`, and in `webhook-signature` one
`v1,<base64 of HMAC-SHA256>` over `id.timestamp.body` for each secret, so that a secret can be replaced. The address
comes from whoever wrote the job: https only, no redirects, no proxy, and the address of the connection is judged as
the images' are. Of the answer nothing is kept but the status and, when it is no success, the first of its words.
"""

import base64
import binascii
import hashlib
import hmac
import json
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self

import aiohttp
import yarl

from samjobs.errors import AccessDenied, InvalidInput, SamjobsError, describe
from samjobs.settings import Settings
from samjobs.storage import Access, redact
from samjobs.storage.faults import reading
from samjobs.storage.guard import check_url, is_named, socket_factory

TIMEOUT_S = 10.0
KEPT_BYTES = 256  # of an answer that is no success
_PREFIX = "whsec_"


@dataclass(frozen=True)
class Message:
    """A webhook: the id stays the same over all tries, so that a receiver can tell them."""

    id: str
    url: str
    payload: Any


@dataclass(frozen=True)
class Answer:
    """What came of a try."""

    status: int | None  # None: no answer
    error: str | None  # None: delivered


def secrets_of(settings: Settings, tenant: str) -> list[bytes]:
    """The keys by which a tenant's webhooks are signed: its own file's, else everybody's; none: [].

    Raises:
        InvalidInput: naming the setting or the file, never the secret.
    """
    where, text = "SAMJOBS_WEBHOOK_SECRET", ""
    if settings.webhook_secret is not None:
        text = settings.webhook_secret.get_secret_value()
    # A name that leads out of the folder belongs to no file in it.
    if settings.webhook_secrets_dir is not None and tenant not in (".", "..") and not set(tenant) & set("/\0"):
        path = settings.webhook_secrets_dir / tenant
        try:
            text, where = path.read_text(encoding="ascii"), str(path)
        except FileNotFoundError:
            pass
        except (OSError, ValueError) as error:
            # Not chained and not quoted: what was read is a secret.
            raise InvalidInput(f"the webhook secret in {path} cannot be read: {type(error).__name__}") from None
    return [_key(word, where) for word in text.split()]


def _key(word: str, where: str) -> bytes:
    try:
        key = base64.b64decode(word.removeprefix(_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not key or not word.startswith(_PREFIX):
        raise InvalidInput(
            f"{where} holds something else than secrets: write {_PREFIX} and base64, as {_PREFIX}c2VjcmV0"
        )
    return key


def signed(message: Message, keys: Sequence[bytes], at: datetime) -> tuple[dict[str, str], bytes]:
    """Headers and body of a message sent at a time.

    Args:
        at: now, by a clock that receivers agree with: they refuse what is minutes old.
    """
    body = json.dumps(message.payload, separators=(",", ":"), ensure_ascii=False).encode()
    timestamp = str(int(at.timestamp()))
    content = b".".join((message.id.encode(), timestamp.encode(), body))
    signatures = [base64.b64encode(hmac.digest(key, content, hashlib.sha256)).decode() for key in keys]
    headers = {
        "Accept-Encoding": "identity",
        "Content-Type": "application/json",
        "User-Agent": "samjobs",
        "webhook-id": message.id,
        "webhook-timestamp": timestamp,
        "webhook-signature": " ".join(f"v1,{signature}" for signature in signatures),
    }
    return headers, body


class Sender:
    """Sends webhooks, any number at once.

    Its event loop must outlive it: TLS to a receiver that no longer answers takes half a minute to be closed.

    Args:
        access: which hosts and networks may be reached although they are private.
    """

    def __init__(self, access: Access) -> None:
        self._access = access
        # Made here and not by aiohttp: it would read SSL_CERT_FILE when it is imported.
        trusted = ssl.create_default_context()
        timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
        # One session for hosts that are allowed by name, one for all others.
        self._sessions = {
            named: aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    ssl=trusted,
                    socket_factory=None if named else socket_factory(access),
                    happy_eyeballs_delay=None,  # one address after the other, so that a refusal ends the request
                    force_close=True,
                ),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,  # an answer is cut at KEPT_BYTES of what was sent, not of what it grows to
                timeout=timeout,
            )
            for named in (False, True)
        }

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *raised: object) -> None:
        for session in self._sessions.values():
            await session.close()

    async def send(self, message: Message, keys: Sequence[bytes], at: datetime) -> Answer:
        """Try once; a receiver's failure is an answer, never an exception."""
        try:
            with reading(message.url):
                return await self._post(message, keys, at)
        except SamjobsError as error:
            return Answer(None, describe(error, 500))

    async def _post(self, message: Message, keys: Sequence[bytes], at: datetime) -> Answer:
        parts = check_url(message.url)
        if parts.scheme.lower() != "https":
            raise AccessDenied(f"{redact(message.url)}: results are told over https only")
        headers, body = signed(message, keys, at)
        session = self._sessions[is_named(parts, self._access)]
        url = yarl.URL(message.url, encoded=message.url.isascii())
        async with session.post(url, data=body, headers=headers, allow_redirects=False) as answer:
            if 200 <= answer.status < 300:
                return Answer(answer.status, None)
            said = (await answer.content.read(KEPT_BYTES)).decode("utf-8", "replace")
            return Answer(answer.status, f"the receiver answers {answer.status}: {said}".rstrip(": "))
