"""Places that a job may not name are refused before anything is written."""

from pathlib import Path

import pytest

from samjobs.errors import InvalidInput
from samjobs.places import settled
from samjobs.spec import Images, JobSpec, Output, Prompts


def spec(images: Images, output: str = "/out") -> JobSpec:
    return JobSpec(images=images, prompts=Prompts(text=("car",)), output=Output(uri=output))


@pytest.mark.parametrize(
    ("images", "field"),
    [
        ({"prefix": "photos"}, "images.prefix"),
        ({"manifest": "./m.jsonl"}, "images.manifest"),
        ({"prefix": "/photos", "boxes": "boxes.csv"}, "images.boxes"),
        ({"list": [{"image": "/a.jpg"}, {"image": "b.jpg"}]}, "images.list.1.image"),
    ],
)
def test_a_relative_path_is_refused_by_its_field(images: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidInput, match=rf"^{field}: '.*' is a relative path.*give an absolute path"):
        settled(spec(Images.model_validate(images)))


def test_an_unknown_scheme_is_refused_without_its_user() -> None:
    with pytest.raises(InvalidInput, match=r"images.prefix: ftp://\*\*\*@host/x: scheme ftp is not known"):
        settled(spec(Images(prefix="ftp://me@host/x")))


def test_an_output_that_lies_under_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(InvalidInput, match=f"{tmp_path}/file is a file"):
        settled(spec(Images(prefix="/photos"), f"{tmp_path}/file/out"))


@pytest.mark.parametrize("uri", ["/" + "a" * 300, "/" + "a/" * 2047 + "a"], ids=["a name", "all of it"])
def test_an_output_that_is_too_long_for_any_file_system_is_refused(uri: str) -> None:
    with pytest.raises(InvalidInput, match="File name too long: give a folder of shorter names"):
        settled(spec(Images(prefix="/photos"), uri))


def test_the_output_becomes_a_stored_uri_and_images_stay_as_they_were_written() -> None:
    found = settled(spec(Images(prefix="file:///photos/50%25"), "file:///out/50%25"))
    assert (found.images.prefix, found.output.uri) == ("file:///photos/50%25", "/out/50%25")
    assert settled(spec(Images(prefix="/photos"), "/out/a/../b")).output.uri == "/out/b"
