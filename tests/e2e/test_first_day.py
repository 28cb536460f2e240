"""What a person sees on the first day: a job that says what it waits for, workers, results, and nobody left over."""

import json
import math
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageOps
from pycocotools import mask as coco

from tests.e2e import photos
from tests.e2e.site import PER_SHARD, Site

EXAMPLES = Path(__file__).parents[2] / "examples" / "photos"
PHOTOS, SHARD = 60, 10
# Six shards: two workers.
SCALING = PER_SHARD | {"steps": [{"shards": 3, "replicas": 1}], "maxReplicas": 2, "downCooldownSeconds": 5}


@pytest.mark.filterwarnings("ignore:__array__ implementation")  # pycocotools' own decoder under numpy 2
def test_a_folder_of_photos_becomes_masks_by_workers_that_come_and_go(site: Site, tmp_path: Path) -> None:
    release = site.release
    local = tmp_path / "here"
    shutil.copytree(EXAMPLES, local / "photos", ignore=shutil.ignore_patterns("*.csv", "*.md"))
    real = [path for path in (local / "photos").rglob("*") if path.is_file()]
    photos.draw(local / "photos" / "drawn", PHOTOS - len(real))
    release.put(local, site.folder)

    job = site.job(
        "masks",
        {"prefix": f"{site.folder}/photos"},
        output={"uri": f"{site.folder}/masks", "formats": ["label-png"]},
        shardSize=SHARD,
    )
    nobody = f"no worker of region {site.name} is alive"
    site.until(lambda: nobody in release.kubectl("describe", "samjob", job), "describe says what the job waits for")
    assert f"region {site.name}" in (why := release.samjobs("why", job)), why
    assert len(why.splitlines()) == 1

    with release.watching("samjob", job) as shown:
        pool = site.pool(scaling=SCALING)
        site.until(lambda: len(site.pods(pool)) == 2, "two workers are made")
        release.kubectl("wait", f"samjob/{job}", "--for=condition=Complete", "--timeout=180s")
        site.until(lambda: f"{PHOTOS}/{PHOTOS}" in shown()[-1], "the end is shown")
        seen = [line.split() for line in shown()]
    name, mode, phase, progress, failed, region, _age = seen[-1]
    assert (name, mode, phase, progress, failed, region) == (job, "find_all", "Succeeded", "60/60", "0", site.name)
    between = {int(words[3].partition("/")[0]) for words in seen if words[2] == "Running"}
    assert between - {0, PHOTOS}, f"no progress was shown: {seen}"

    release.fetch(f"{site.folder}/masks", tmp_path / "masks")
    check_results(local / "photos", tmp_path / "masks", drawn=PHOTOS - len(real))
    site.check_done_once(job)

    site.until(lambda: site.replicas(pool) == 0 and not site.pods(pool), "nobody is left once nothing is to be done")
    conditions = release.get("samworkerpool", pool)["status"]["conditions"]
    assert {one["type"]: one["status"] for one in conditions}["Ready"] == "True"
    described = release.kubectl("describe", "samworkerpool", pool)
    assert "ScaledUp" in described
    assert "ScaledDown" in described


def check_results(source: Path, results: Path, drawn: int) -> None:
    """Each photo has a record whose masks decode to its size; the drawn ones have their one disc."""
    lines = [json.loads(line) for line in (results / "results.jsonl").read_text().splitlines()]
    assert len({line["key"] for line in lines}) == len(lines) == PHOTOS
    discs = 0
    for line in lines:
        assert line == json.loads((results / "records" / f"{line['key']}.json").read_text())
        with Image.open(source / line["key"]) as photo:
            size = ImageOps.exif_transpose(photo).size  # one of them lies on its side
        assert (line["width"], line["height"]) == size
        masks = [coco.decode(instance["segmentation"]) for instance in line["instances"]]
        assert all(mask.shape == size[::-1] for mask in masks)
        assert [int(mask.sum()) for mask in masks] == [instance["area"] for instance in line["instances"]]
        with Image.open(results / line["outputs"][0]["path"]) as picture:
            label = np.asarray(picture)
        assert label.shape == size[::-1]
        assert set(np.unique(label)) - {0} <= set(range(1, len(masks) + 1))
        if line["key"].startswith("drawn/"):
            [area] = (int(mask.sum()) for mask in masks)
            assert math.isclose(area, photos.DISC_AREA, rel_tol=0.05)
            discs += 1
    assert discs == drawn
