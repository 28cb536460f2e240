"""Must this image be done again, and why?

The rules run from cheap to dear. Where the evidence at hand does not settle it, the answer says what to gather
next: first the quick hash (size and five samples), then the hash of all bytes.

Not promised: a file whose size, modification token **and** five samples all stayed the same is taken for unchanged
without reading the rest.
"""

from dataclasses import dataclass
from enum import StrEnum

from samjobs.names import Reason


class Need(StrEnum):
    """What must be gathered before the question can be answered."""

    QUICK_HASH = "quick_hash"
    CONTENT_HASH = "content_hash"


@dataclass(frozen=True)
class Prior:
    """What the earlier record says of an image."""

    failed: bool
    config_hash: str
    fingerprint: str
    size: int | None
    token: str
    quick_hash: str
    content_hash: str
    outputs_present: bool


@dataclass(frozen=True)
class Present:
    """What is known of the image now. A hash is None until it was gathered."""

    config_hash: str
    fingerprint: str
    size: int | None  # None where the server does not tell
    token: str  # etag or modification time: changes when the bytes may have changed
    quick_hash: str | None = None
    content_hash: str | None = None


@dataclass(frozen=True)
class Verdict:
    """Whether to do the image (`redo`), and why; or what is needed to tell."""

    redo: bool
    reason: Reason
    need: Need | None = None


def must_redo(prior: Prior | None, present: Present, *, force: bool) -> Verdict:
    """Decide from the evidence at hand.

    >>> must_redo(None, Present("c", "f", 10, "t"), force=False).reason
    <Reason.NEW: 'New'>
    """
    if prior is None:
        return Verdict(True, Reason.NEW)
    if force:
        return Verdict(True, Reason.FORCED)
    if prior.failed:
        return Verdict(True, Reason.FAILED_BEFORE)
    if prior.config_hash != present.config_hash:
        return Verdict(True, Reason.CONFIG_CHANGED)
    if prior.fingerprint != present.fingerprint:
        return Verdict(True, Reason.MODEL_CHANGED)
    if not prior.outputs_present:
        return Verdict(True, Reason.OUTPUT_MISSING)
    if present.size is None:  # a server that tells no size cannot be asked for samples either
        return _by_token_or_bytes(prior, present)
    if prior.size != present.size:
        return Verdict(True, Reason.CONTENT_CHANGED)
    if present.quick_hash is None:
        return Verdict(False, Reason.UNCHANGED, Need.QUICK_HASH)
    if present.quick_hash != prior.quick_hash:
        return Verdict(True, Reason.CONTENT_CHANGED)
    return _by_token_or_bytes(prior, present)


def _by_token_or_bytes(prior: Prior, present: Present) -> Verdict:
    if present.token and present.token == prior.token:
        return Verdict(False, Reason.UNCHANGED)
    if present.content_hash is None:
        return Verdict(False, Reason.UNCHANGED, Need.CONTENT_HASH)
    if present.content_hash != prior.content_hash:
        return Verdict(True, Reason.CONTENT_CHANGED)
    return Verdict(False, Reason.UNCHANGED)
