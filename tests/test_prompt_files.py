"""Boxes and points from files of their own."""

from pathlib import Path

import pytest

from samjobs.errors import InvalidInput
from samjobs.inputs import NewImage
from samjobs.prompt_files import pair, read_boxes, read_points
from samjobs.spec import Prompts
from samjobs.storage import Storage


def write(folder: Path, text: str) -> str:
    path = folder / "prompts.txt"
    path.write_text(text, encoding="utf-8")
    return str(path)


def boxes(folder: Path, text: str) -> dict[str, Prompts]:
    return read_boxes(write(folder, text), Storage())


def points(folder: Path, text: str) -> dict[str, Prompts]:
    return read_points(write(folder, text), Storage())


class TestBoxes:
    @pytest.mark.parametrize(
        "text",
        [
            "image,x0,y0,x1,y1\na.jpg,1,2,3,4\na.jpg,5,6,7,8\nb.jpg,0,0,9.5,9\n",
            "\ufeffimage, x0, y0, x1, y1\r\na.jpg, 1, 2, 3, 4\r\na.jpg,5,6,7,8\r\n\r\nb.jpg,0,0,9.5,9",
            '{"a.jpg": [[1, 2, 3, 4], [5, 6, 7, 8]], "b.jpg": [[0, 0, 9.5, 9]]}',
            '{"image": "a.jpg", "boxes": [[1,2,3,4], [5,6,7,8]]}\n\n{"image": "b.jpg", "boxes": [[0,0,9.5,9]]}\n',
            '{"image": "a.jpg", "boxes": [[1,2,3,4]]}\n{"image": "a.jpg", "boxes": [{"xyxy": [5,6,7,8]}]}\n'
            '{"image": "b.jpg", "boxes": [[0,0,9.5,9]]}',
        ],
        ids=["csv", "windows csv", "json", "json lines", "json lines, one box a line"],
    )
    def test_all_forms_say_the_same(self, tmp_path: Path, text: str) -> None:
        found = boxes(tmp_path, text)
        assert {image: [box.xyxy for box in prompts.boxes] for image, prompts in found.items()} == {
            "a.jpg": [(1, 2, 3, 4), (5, 6, 7, 8)],
            "b.jpg": [(0, 0, 9.5, 9)],
        }

    def test_label_and_positive_are_taken_and_names_may_be_quoted(self, tmp_path: Path) -> None:
        found = boxes(tmp_path, 'image,x0,y0,x1,y1,label,positive\n"a, b ""c"".jpg",1,2,3,4,cat,0\nd.jpg,1,2,3,4,,\n')
        first, second = found['a, b "c".jpg'].boxes[0], found["d.jpg"].boxes[0]
        assert (first.label, first.positive) == ("cat", False)
        assert (second.label, second.positive) == (None, True)

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("image,x0,y0,x1\na.jpg,1,2,3\n", "line 1: the header lacks y1"),
            ("image,x0,y0,x1,y1,colour\n", "line 1: the header has unknown columns colour"),
            ("", "line 1: the header lacks image"),
            ("image,x0,y0,x1,y1\na.jpg,1,2,3,4\nb.jpg,1,2,three,4\n", "line 3: x1 is 'three', not a number"),
            ("image,x0,y0,x1,y1\na.jpg,1,2\n", "line 2: x1 is '', not a number"),
            ("image,x0,y0,x1,y1\na.jpg,1,2,3,4,5\n", "line 2: more values than columns"),
            ("image,x0,y0,x1,y1\n,1,2,3,4\n", "line 2: image is empty"),
            ("image,x0,y0,x1,y1\na.jpg,3,4,1,2\n", "line 2: .*has no area"),
            ("image,x0,y0,x1,y1\na.jpg,nan,4,1,2\n", "line 2: .*finite"),
            ("image,x0,y0,x1,y1,positive\na.jpg,1,2,3,4,maybe\n", "line 2: positive is 'maybe'; write 1 or 0"),
            ('{"a.jpg": [[1, 2, 3]]}', r"a\.jpg: boxes\[0\]: xyxy"),
            ('{"a.jpg": 5}', r"a\.jpg: a list of boxes is needed"),
            ('{"image": "a.jpg", "boxes": [[1,2,3,4]]}\n{"image": "b.jpg"}\n', "line 2: boxes: Field required"),
            ('{"image": "a.jpg", "boxes": [[1,2,3,4]]}\n{broken\n', "line 2: no JSON"),
            ("[[1,2,3,4]]", "not a list"),
            ('{"a.jpg": [[1,2', "no JSON"),
        ],
    )
    def test_every_error_names_the_file_and_the_place(self, tmp_path: Path, text: str, message: str) -> None:
        with pytest.raises(InvalidInput, match=rf"prompts\.txt[,:] ?.*{message}"):
            boxes(tmp_path, text)


class TestPoints:
    @pytest.mark.parametrize(
        "text",
        [
            "image,x,y,positive,object\na.jpg,1,2,1,cat\na.jpg,9,9,1,dog\na.jpg,3,4,0,cat\n",
            '{"a.jpg": [[[1, 2], [3, 4, 0]], [9, 9]]}',
            '{"image": "a.jpg", "points": [[[1, 2], [3, 4, 0]], {"clicks": [[9, 9]]}]}\n',
        ],
        ids=["csv", "json", "json lines"],
    )
    def test_all_forms_say_the_same(self, tmp_path: Path, text: str) -> None:
        [prompts] = points(tmp_path, text).values()
        assert [[(click.x, click.y, click.positive) for click in item.clicks] for item in prompts.points] == [
            [(1, 2, True), (3, 4, False)],
            [(9, 9, True)],
        ]

    def test_without_an_object_column_every_row_is_an_object(self, tmp_path: Path) -> None:
        found = points(tmp_path, "image,x,y,label\na.jpg,1,2,cat\na.jpg,3,4,dog\n")
        assert [(len(item.clicks), item.label) for item in found["a.jpg"].points] == [(1, "cat"), (1, "dog")]

    def test_an_object_without_a_positive_click_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidInput, match="no positive click"):
            points(tmp_path, "image,x,y,positive\na.jpg,1,2,0\n")


@pytest.mark.parametrize(
    "text",
    [
        '{"a.jpg": [[0, 0, ' + "9" * 5000 + ", 5]]}",
        'image,x0,y0,x1,y1\n"a.jpg,' + "x" * 140_000,
    ],
    ids=["a number of thousands of digits", "a quote without its other end"],
)
def test_hostile_files_are_refused_by_name(tmp_path: Path, text: str) -> None:
    with pytest.raises(InvalidInput, match=r"prompts\.txt"):
        boxes(tmp_path, text)


class TestPair:
    images = (
        NewImage("a/1.jpg", "/photos/a/1.jpg", None),
        NewImage("a/2.jpg", "/photos/a/2.jpg", None),
        NewImage("b/1.jpg", "/photos/b/1.jpg", None),
    )
    prompts = Prompts.model_validate({"boxes": [[0, 0, 1, 1]]})

    @pytest.mark.parametrize("entry", ["a/2.jpg", "/photos/a/2.jpg", "2.jpg", "/photos/x/../a/2.jpg"])
    def test_an_entry_names_its_image_by_key_path_or_file_name(self, entry: str) -> None:
        paired = pair(self.images, {entry: self.prompts})
        assert paired.images == [NewImage("a/2.jpg", "/photos/a/2.jpg", self.prompts)]
        assert paired.left_out == 2

    def test_a_path_from_the_working_folder_names_it_too(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        image = NewImage("1.jpg", f"{tmp_path}/photos/1.jpg", None)
        assert len(pair([image], {"photos/1.jpg": self.prompts}).images) == 1

    def test_an_entry_that_no_image_has_is_named(self) -> None:
        with pytest.raises(InvalidInput, match=r"3\.jpg is not among the images"):
            pair(self.images, {"3.jpg": self.prompts, "c/1.jpg": self.prompts, "2.jpg": self.prompts})

    def test_a_file_name_that_two_images_have_is_ambiguous(self) -> None:
        with pytest.raises(InvalidInput, match=r"1\.jpg fits a/1\.jpg and b/1\.jpg"):
            pair(self.images, {"1.jpg": self.prompts})

    def test_a_key_goes_before_a_file_name(self) -> None:
        images = [NewImage(key, f"/p/{key}", None) for key in ("0/1.jpg", "1.jpg", "b/1.jpg")]
        paired = pair(images, {"1.jpg": self.prompts})
        assert [image.key for image in paired.images] == ["1.jpg"]
        assert paired.left_out == 2

    def test_two_entries_for_one_image_are_refused(self) -> None:
        with pytest.raises(InvalidInput, match="named twice"):
            pair(self.images, {"a/2.jpg": self.prompts, "/photos/a/2.jpg": self.prompts})


def test_a_file_that_memory_would_not_hold_is_refused_unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("samjobs.memory.room", lambda: 20 * 100)
    assert list(read_boxes(write(tmp_path, "image,x0,y0,x1,y1\na.jpg,0,0,1,1\n"), Storage())) == ["a.jpg"]
    with pytest.raises(InvalidInput, match=r"over the limit of 100 bytes.*give a manifest"):
        read_boxes(write(tmp_path, "image,x0,y0,x1,y1\n" + "a.jpg,0,0,1,1\n" * 10), Storage())
