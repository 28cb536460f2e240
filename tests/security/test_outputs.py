"""Whatever a manifest, a folder or a web page calls its photos, results are written below the output folder alone."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from samjobs.errors import SamjobsError
from samjobs.inputs import expand
from samjobs.segmentation.work import record_path
from samjobs.spec import Images, Mode
from samjobs.storage import Storage, join

PARTS = st.sampled_from(
    [
        "..",
        ".",
        "",
        "a",
        "a.jpg",
        "%2e%2e",
        "%2E%2e",
        "..%2f",
        "%2f",
        "%00",
        "..\\",
        "~",
        "…",
        "a\u2028b",
        "x" * 300,
        "CON",
    ]
)
PLACES = st.sampled_from(
    [
        "",
        "/",
        "//",
        "file:///",
        "s3://bucket/",
        "https://host/",
        "https://host/..",
        "memory://",
        "gs://",
        "https://h:1/",
        "https://[",
        "file://[::1",
        "https://[::1]/",
    ]
)
WORDS = st.builds(lambda place, parts: place + "/".join(parts), PLACES, st.lists(PARTS, min_size=1, max_size=6))


@given(st.one_of(WORDS, st.text(min_size=1, max_size=60)))
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_image_of_a_manifest_is_written_anywhere_else(tmp_path: Path, image: str) -> None:
    root = tmp_path / "out"
    manifest = tmp_path / "m.jsonl"
    manifest.write_text(json.dumps({"image": image}) + "\n", encoding="utf-8")
    with Storage() as storage:
        try:
            found = list(expand(Images(manifest=str(manifest)), Mode.FIND_ALL, storage))
        except SamjobsError:
            return  # refused, in words of ours: nothing is written
    for one in found:
        for path in (record_path(one.key), f"overlay/{one.key}.jpg"):
            try:
                uri = join(str(root), path)
            except SamjobsError:
                continue
            real = os.path.realpath(uri)
            assert real.startswith(f"{root}/"), f"{image!r} would be written to {real}"
            assert "\0" not in real


def test_an_object_store_gets_no_key_that_climbs() -> None:
    for key in ("../a", "a/../../b", "/a", "a//b", "."):
        with pytest.raises(SamjobsError):
            join("s3://bucket/out", key)
