"""Which images a spec names, under which keys."""

import json
import tracemalloc
from collections import Counter
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from samjobs.errors import InvalidInput, ObjectMissing
from samjobs.inputs import NewImage, check_classes, check_stems, expand
from samjobs.spec import Images, JobSpec, Mode, Output, Prompts
from samjobs.storage import Storage, join


def images_of(mode: Mode = Mode.FIND_ALL, **where: Any) -> list[NewImage]:
    return list(expand(Images.model_validate(where), mode, Storage()))


def manifest(folder: Path, *lines: Any) -> str:
    path = folder / "list.jsonl"
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    return str(path)


class TestPrefix:
    def test_every_image_below_it_with_its_path_as_key(self, tmp_path: Path) -> None:
        for name in ("b/2.jpg", "a.png", "out/o.jpg", "x.txt"):
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_bytes(b"")
        ignored: Counter[str] = Counter()
        spec = Images(prefix=str(tmp_path))
        found = list(expand(spec, Mode.FIND_ALL, Storage(), f"{tmp_path}/out", ignored=ignored))
        assert found == [
            NewImage("a.png", f"{tmp_path}/a.png", None),
            NewImage("b/2.jpg", f"{tmp_path}/b/2.jpg", None),
        ]
        assert ignored == {"output": 1, "not an image": 1}

    def test_a_folder_whose_name_looks_escaped_is_taken_as_written(self, tmp_path: Path) -> None:
        (tmp_path / "50%25").mkdir()
        (tmp_path / "50%25/a.jpg").write_bytes(b"x")
        [image] = images_of(prefix=f"{tmp_path}/50%25")
        assert Storage().read(image.uri, 1) == b"x"

    def test_a_missing_one_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(ObjectMissing, match="nowhere"):
            images_of(prefix=f"{tmp_path}/nowhere")


class TestList:
    def test_relative_paths_are_below_the_working_folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        [image] = images_of(list=[{"image": "a/b.jpg", "prompts": {"text": ["cat"]}}])
        assert (image.key, image.uri) == ("a/b.jpg", f"{tmp_path}/a/b.jpg")
        assert image.prompts == Prompts.model_validate({"text": ["cat"]})

    def test_images_elsewhere_have_keys_that_can_be_joined(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        places = ["../up.jpg", "/srv/a.jpg", "https://host/b/c.jpg", "s3://bucket/d.jpg"]
        found = images_of(list=[{"image": place} for place in places])
        assert [image.key for image in found] == [
            f"{tmp_path.parent}/up.jpg".lstrip("/"),
            "srv/a.jpg",
            "host/b/c.jpg",
            "bucket/d.jpg",
        ]
        for image in found:
            join("/out", image.key)

    def test_two_images_that_would_share_a_key_are_told_apart(self) -> None:
        places = ["https://host/a.jpg", "http://host/a.jpg", "https://host/b.jpg?v=1", "https://host/b.jpg?v=2"]
        keys = [image.key for image in images_of(list=[{"image": place} for place in places])]
        assert len(set(keys)) == 4
        assert keys[0] == "host/a.jpg"
        assert all(key.endswith(".jpg") for key in keys)

    def test_an_image_named_twice_is_refused(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        with pytest.raises(InvalidInput, match=r"images\.list\[1\]: image \./a\.jpg was named before"):
            images_of(list=[{"image": "a.jpg"}, {"image": "./a.jpg"}])

    def test_a_scheme_that_is_not_known_is_refused_by_its_place(self) -> None:
        with pytest.raises(InvalidInput, match=r"images\.list\[0\]: image: ftp"):
            images_of(list=[{"image": "ftp://host/a.jpg"}])


class TestManifest:
    def test_long_and_short_form_say_the_same(self, tmp_path: Path) -> None:
        box = [1, 2, 3, 4]
        path = manifest(
            tmp_path,
            {"image": "a.jpg", "prompts": {"text": ["cat"], "boxes": [{"xyxy": box}]}},
            {"image": "b.jpg", "text": ["cat"], "boxes": [box]},
        )
        first, second = images_of(manifest=path)
        assert first.prompts == second.prompts
        assert [first.uri, second.uri] == [f"{tmp_path}/a.jpg", f"{tmp_path}/b.jpg"]

    def test_points_may_be_short(self, tmp_path: Path) -> None:
        [image] = images_of(
            Mode.POINT, manifest=manifest(tmp_path, {"image": "a.jpg", "points": [[[5, 6], [7, 8, 0]]]})
        )
        assert image.prompts is not None
        assert [click.positive for click in image.prompts.points[0].clicks] == [True, False]

    def test_a_byte_order_mark_blank_lines_and_windows_line_ends_do_no_harm(self, tmp_path: Path) -> None:
        path = tmp_path / "list.jsonl"
        path.write_bytes(b'\xef\xbb\xbf{"image": "a.jpg"}\r\n\r\n   \n{"image": "b \xc3\xa9.jpg"}')
        assert [image.key for image in images_of(manifest=str(path))] == ["a.jpg", "b é.jpg"]

    def test_paths_are_relative_to_the_manifest_also_remotely(self) -> None:
        root = f"memory://{uuid4().hex}"
        storage = Storage()
        storage.put(f"{root}/sets/list.jsonl", b'{"image": "one/a.jpg"}\n{"image": "../b.jpg"}\n')
        found = list(expand(Images(manifest=f"{root}/sets/list.jsonl"), Mode.FIND_ALL, storage))
        assert [image.uri for image in found] == [f"{root}/sets/one/a.jpg", f"{root}/b.jpg"]
        assert found[0].key == "one/a.jpg"
        assert found[1].key == f"{root.removeprefix('memory://')}/b.jpg"

    @pytest.mark.parametrize(
        ("line", "message"),
        [
            ("{not json}", "no JSON"),
            ('"a.jpg"', "a JSON object like"),
            ("[" * 100_000, "no JSON"),
            ({"picture": "a.jpg"}, "image: Field required"),
            ({"image": "a.jpg", "txt": ["cat"]}, "txt: Extra inputs"),
            ({"image": "a.jpg", "boxes": [[3, 4, 1, 2]]}, "has no area"),
            ({"image": "a.jpg", "points": [[1, 2]]}, "points does not go with mode find_all"),
            ({"image": "a.jpg", "prompts": {}}, "prompts is empty"),
            ({"image": "a.jpg", "prompts": {"text": ["x"]}, "boxes": []}, "either prompts or boxes"),
            ('{"image": "a.jpg", "boxes": [[NaN, 0, 1, 1]]}', "finite"),
            ('{"image": "\\ud800.jpg"}', "image"),
            ({"image": "first.jpg"}, "was named before"),
        ],
    )
    def test_every_error_names_the_manifest_and_the_line(self, tmp_path: Path, line: Any, message: str) -> None:
        path = manifest(tmp_path, {"image": "first.jpg"}, "", line)
        with pytest.raises(InvalidInput, match=rf"list\.jsonl, line 3: .*{message}"):
            images_of(manifest=path)

    def test_a_line_that_is_not_utf8_is_named(self, tmp_path: Path) -> None:
        (tmp_path / "m").write_bytes(b'{"image": "\xff.jpg"}\n')
        with pytest.raises(InvalidInput, match="line 1: not UTF-8 at byte 11"):
            images_of(manifest=f"{tmp_path}/m")

    def test_a_file_without_lines_is_not_loaded_whole(self, tmp_path: Path) -> None:
        (tmp_path / "m").write_bytes(b" " * 3_000_000)
        with pytest.raises(InvalidInput, match="line 1: longer than 1,048,576 bytes"):
            images_of(manifest=f"{tmp_path}/m")

    def test_lines_are_read_as_the_caller_goes_on(self, tmp_path: Path) -> None:
        path = manifest(tmp_path, {"image": "a.jpg"}, "broken")
        found = expand(Images(manifest=path), Mode.FIND_ALL, Storage())
        assert next(found).key == "a.jpg"
        with pytest.raises(InvalidInput, match="line 2"):
            next(found)

    def test_memory_grows_by_the_note_of_taken_keys_alone(self, tmp_path: Path) -> None:
        lines = 1_000
        path = tmp_path / "m"
        path.write_text("".join(f'{{"image": "{"x" * 2000}{number}.jpg"}}\n' for number in range(lines)))
        spec, storage = Images(manifest=str(path)), Storage()
        tracemalloc.start()
        try:
            assert sum(1 for _ in expand(spec, Mode.FIND_ALL, storage)) == lines
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < 500 * lines  # a quarter of the lines themselves


class TestClasses:
    def job(self, **output: Any) -> JobSpec:
        return JobSpec(
            images=Images(manifest="list.jsonl"),
            prompts=Prompts.model_validate({"text": ["car"]}),
            output=Output(uri="out", **output),
        )

    def image(self, label: str) -> NewImage:
        return NewImage("a.jpg", "/a.jpg", Prompts.model_validate({"text": [{"text": "vehicle", "label": label}]}))

    def test_labels_of_the_jobs_prompts_or_of_its_classes_pass(self) -> None:
        assert list(check_classes([self.image("car")], self.job()))
        assert list(check_classes([self.image("bus")], self.job(classes=("car", "bus"))))

    def test_another_label_is_refused_with_its_image_and_the_option(self) -> None:
        with pytest.raises(InvalidInput, match=r"a\.jpg: label 'bus' .*--class"):
            list(check_classes([self.image("bus")], self.job()))


class TestStems:
    def images(self, *keys: str) -> list[NewImage]:
        return [NewImage(key, f"/{key}", None) for key in keys]

    def test_other_stems_and_other_folders_pass_through(self) -> None:
        images = self.images("a.jpg", "b.jpg", "x/a.png", "a.b.jpg")
        assert list(check_stems(images)) == images

    def test_one_stem_twice_in_a_folder_is_refused_with_both_names(self) -> None:
        with pytest.raises(InvalidInput, match=r"x/a\.jpg and x/a\.png would share one yolo-seg file"):
            list(check_stems(self.images("a.png", "x/a.jpg", "x/b.jpg", "x/a.png")))
