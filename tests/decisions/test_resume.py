"""Every reason to do an image again, and the order in which evidence is asked for."""

from dataclasses import replace

import pytest

from samjobs.decisions.resume import Need, Present, Prior, must_redo
from samjobs.names import Reason

PRIOR = Prior(
    failed=False,
    config_hash="config",
    fingerprint="model",
    size=100,
    token="monday",
    quick_hash="quick",
    content_hash="content",
    outputs_present=True,
)
SAME = Present(
    config_hash="config",
    fingerprint="model",
    size=100,
    token="monday",
    quick_hash="quick",
    content_hash="content",
)


@pytest.mark.parametrize(
    ("prior", "present", "reason"),
    [
        pytest.param(None, SAME, Reason.NEW, id="no record: new"),
        pytest.param(replace(PRIOR, failed=True), SAME, Reason.FAILED_BEFORE, id="it failed before"),
        pytest.param(PRIOR, replace(SAME, config_hash="x"), Reason.CONFIG_CHANGED, id="other prompts or thresholds"),
        pytest.param(PRIOR, replace(SAME, fingerprint="x"), Reason.MODEL_CHANGED, id="other weights at the same path"),
        pytest.param(replace(PRIOR, outputs_present=False), SAME, Reason.OUTPUT_MISSING, id="somebody removed a file"),
        pytest.param(PRIOR, replace(SAME, size=101), Reason.CONTENT_CHANGED, id="other size"),
        pytest.param(PRIOR, replace(SAME, quick_hash="x"), Reason.CONTENT_CHANGED, id="other samples"),
        pytest.param(
            PRIOR,
            replace(SAME, token="tuesday", content_hash="x"),
            Reason.CONTENT_CHANGED,
            id="written again, one byte between the samples differs",
        ),
    ],
)
def test_an_image_is_done_again(prior: Prior | None, present: Present, reason: Reason) -> None:
    verdict = must_redo(prior, present, force=False)
    assert (verdict.redo, verdict.reason, verdict.need) == (True, reason, None)


def test_the_same_bytes_are_not_done_again() -> None:
    assert must_redo(PRIOR, SAME, force=False).reason is Reason.UNCHANGED
    assert not must_redo(PRIOR, SAME, force=False).redo


def test_a_touched_file_with_the_same_bytes_is_not_done_again() -> None:
    assert not must_redo(PRIOR, replace(SAME, token="tuesday"), force=False).redo


def test_force_does_everything_again() -> None:
    assert must_redo(PRIOR, SAME, force=True).reason is Reason.FORCED


def test_evidence_is_asked_for_from_cheap_to_dear() -> None:
    cheap = replace(SAME, quick_hash=None, content_hash=None)
    assert must_redo(PRIOR, cheap, force=False).need is Need.QUICK_HASH
    assert must_redo(PRIOR, replace(cheap, quick_hash="quick"), force=False).need is None, "the token did not move"
    moved = replace(cheap, quick_hash="quick", token="tuesday")
    assert must_redo(PRIOR, moved, force=False).need is Need.CONTENT_HASH


def test_nothing_of_the_file_is_read_when_the_record_cannot_hold() -> None:
    cheap = Present(config_hash="x", fingerprint="model", size=100, token="monday")
    assert must_redo(PRIOR, cheap, force=False).need is None


def test_without_a_size_only_a_token_or_all_bytes_can_tell() -> None:
    """As a web server that streams its answers."""
    blind = replace(SAME, size=None, quick_hash=None, content_hash=None)
    assert must_redo(PRIOR, blind, force=False).need is None, "the same etag is enough"
    unknown = replace(blind, token="")
    assert must_redo(replace(PRIOR, token=""), unknown, force=False).need is Need.CONTENT_HASH
    read = replace(unknown, content_hash="content")
    assert must_redo(replace(PRIOR, token=""), read, force=False).reason is Reason.UNCHANGED
    assert must_redo(PRIOR, replace(read, content_hash="x"), force=False).reason is Reason.CONTENT_CHANGED
