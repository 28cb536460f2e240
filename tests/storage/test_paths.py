"""Names as text, and where outputs go."""

import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samjobs.errors import AccessDenied, InvalidInput
from samjobs.storage.paths import (
    decode_path,
    encode_path,
    join,
    mirrored,
    own_key,
    parent_of,
    redact,
    to_uri,
    with_mark,
)

names = st.binary(min_size=1, max_size=40).filter(lambda raw: b"\0" not in raw and b"/" not in raw)


class TestEncodePath:
    @given(names)
    def test_any_file_name_of_linux_comes_back(self, raw: bytes) -> None:
        text = encode_path(raw)
        assert os.fsencode(decode_path(text)) == raw
        text.encode("utf-8")  # no surrogates: any database takes it
        assert len(text.splitlines()) == 1
        assert not re.search(r"[\x00-\x1f\x7f]", text)

    @given(names, names)
    def test_two_names_never_share_a_text(self, one: bytes, other: bytes) -> None:
        assert (encode_path(one) == encode_path(other)) == (one == other)

    @pytest.mark.parametrize("name", ["café photo.jpg", "写真 (1).png", "a+b&c=d#e?.jpg", "🙂.jpg"])
    def test_names_that_people_read_stay_as_they_are(self, name: str) -> None:
        assert encode_path(name) == name

    def test_half_a_surrogate_pair_is_refused(self) -> None:
        with pytest.raises(InvalidInput, match="surrogate"):
            encode_path("\ud800.jpg")


class TestToUri:
    def test_a_relative_path_becomes_absolute(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        assert to_uri("a/./b.jpg") == f"{tmp_path}/a/b.jpg"

    def test_a_percent_sign_in_a_plain_path_is_itself(self) -> None:
        assert to_uri("/x/50%0A.jpg") == "/x/50%250A.jpg"

    def test_a_file_url_is_a_local_path(self) -> None:
        assert to_uri("file:///x/a%20b.jpg") == "/x/a b.jpg"

    def test_dots_after_a_symlink_are_the_targets_parent(self, tmp_path: Path) -> None:
        (tmp_path / "deep/er").mkdir(parents=True)
        (tmp_path / "link").symlink_to(tmp_path / "deep/er")
        assert to_uri(f"{tmp_path}/link/../a.jpg") == f"{tmp_path}/deep/a.jpg"

    @pytest.mark.parametrize(
        ("place", "folder", "uri"),
        [
            ("a.jpg", "/data/set", "/data/set/a.jpg"),
            ("../b/a.jpg", "s3://bucket/set/one", "s3://bucket/set/b/a.jpg"),
            ("b/a 1.jpg", "s3://bucket", "s3://bucket/b/a 1.jpg"),
            ("a%20b.jpg", "https://host/set?x=1", "https://host/set/a%20b.jpg"),
            ("https://other/a.jpg", "/data", "https://other/a.jpg"),
            ("/abs/a.jpg", "s3://bucket/set", "/abs/a.jpg"),
        ],
    )
    def test_relative_places_are_relative_to_the_folder(self, place: str, folder: str, uri: str) -> None:
        assert to_uri(place, folder) == uri

    def test_dots_cannot_climb_out_of_a_bucket(self) -> None:
        with pytest.raises(InvalidInput, match="leaves s3://bucket/set"):
            to_uri("../../other/a.jpg", "s3://bucket/set")

    def test_an_unknown_scheme_is_refused_with_the_known_ones(self) -> None:
        with pytest.raises(InvalidInput, match=r"ftp is not known.*https.*s3"):
            to_uri("ftp://host/a.jpg")

    def test_control_characters_in_a_url_are_refused(self) -> None:
        with pytest.raises(InvalidInput, match="percent-encode"):
            to_uri("https://host/a\nb.jpg")


class TestJoin:
    @pytest.mark.parametrize("key", ["/etc/x", "../x", "a/../../x", "a//b", "", ".", "a/.", "a%00b", "a\0b"])
    def test_a_key_that_is_no_path_below_the_root_is_refused(self, key: str, tmp_path: Path) -> None:
        with pytest.raises(InvalidInput, match="not a path below"):
            join(str(tmp_path), key)

    @pytest.mark.parametrize("root", ["/out", "/out/", "s3://bucket/out", "memory://out/"])
    def test_a_key_lands_below_its_root(self, root: str) -> None:
        assert join(root, "a b/c%0A.png") == f"{root.rstrip('/')}/a b/c%0A.png"

    def test_a_symlink_that_leads_out_of_the_root_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "out").mkdir()
        (tmp_path / "elsewhere").mkdir()
        (tmp_path / "out/sub").symlink_to(tmp_path / "elsewhere")
        with pytest.raises(AccessDenied, match="symlink"):
            join(f"{tmp_path}/out", "sub/a.png")

    def test_a_symlink_that_stays_inside_is_followed_and_the_root_may_be_one(self, tmp_path: Path) -> None:
        (tmp_path / "real/deep").mkdir(parents=True)
        (tmp_path / "real/sub").symlink_to(tmp_path / "real/deep")
        (tmp_path / "out").symlink_to(tmp_path / "real")
        assert join(f"{tmp_path}/out", "sub/a.png") == f"{tmp_path}/out/sub/a.png"

    def test_a_name_that_is_too_long_is_cut_keeps_its_extension_and_can_be_written(self, tmp_path: Path) -> None:
        key = "é" * 126 + ".overlay.jpeg"
        uri = join(str(tmp_path), key)
        name = uri.rpartition("/")[2]
        assert len(os.fsencode(name)) <= 255
        assert name.endswith(".jpeg")
        assert uri == join(str(tmp_path), key)
        assert uri != join(str(tmp_path), "é" * 127 + ".overlay.jpeg")
        Path(uri).touch()

    @given(st.text(alphabet="ab%é.", min_size=1, max_size=400).filter(lambda part: part not in (".", "..")))
    def test_no_part_is_ever_longer_than_a_file_system_takes(self, part: str) -> None:
        name = decode_path(join("/out", part)).rpartition("/")[2]
        assert 0 < len(os.fsencode(name)) <= 255


class TestMirrored:
    @given(
        st.lists(
            st.lists(st.sampled_from(["a.jpg", "a.jpg~", "a.jpg.json", "a.JPG", "a.txt~~", "b", "~"]), max_size=3),
            min_size=2,
            max_size=2,
            unique_by=tuple,
        )
    )
    def test_different_keys_have_different_paths(self, folders: list[list[str]]) -> None:
        one, other = (mirrored("/".join([*folder, "x.jpg"])) for folder in folders)
        assert one != other

    def test_the_names_of_images_are_left_as_they_are(self) -> None:
        assert mirrored("2024.05/day 1/a.jpg") == "2024.05/day 1/a.jpg"


class TestKeys:
    @pytest.mark.parametrize(
        ("uri", "key"),
        [
            ("https://host:8080/a/b%20c.jpg", "host_8080/a/b c.jpg"),
            ("https://host/%2e%2e/x%2Fy.jpg", "host/__/x_y.jpg"),
            ("gs://bucket//a.jpg", "bucket/a.jpg"),
        ],
    )
    def test_the_key_of_a_file_elsewhere_is_safe_to_join(self, uri: str, key: str) -> None:
        assert own_key(uri) == key
        join("/out", key)

    def test_a_query_is_a_mark_and_is_not_shown(self) -> None:
        key = own_key("https://host/a.jpg?sig=secret")
        assert key.startswith("host/a~")
        assert "secret" not in key
        assert key != own_key("https://host/a.jpg?sig=other")

    def test_a_mark_goes_before_the_extension_of_the_name_alone(self) -> None:
        assert re.fullmatch(r"a\.b/c~[0-9a-f]{8}\.jpg", with_mark("a.b/c.jpg", "x"))
        assert re.fullmatch(r"a\.b/c~[0-9a-f]{8}", with_mark("a.b/c", "x"))

    @pytest.mark.parametrize(
        ("uri", "folder"),
        [("/m/list.jsonl", "/m"), ("https://h/m/l.jsonl?x=a/b", "https://h/m"), ("s3://b/l.jsonl", "s3://b")],
    )
    def test_the_folder_of_a_file(self, uri: str, folder: str) -> None:
        assert parent_of(uri) == folder


@pytest.mark.parametrize(
    "text",
    [
        "https://user:SECRET@host/a.jpg",
        "https://user:p@SECRET@host/a.jpg",
        "https://host/a?X-Amz-Signature=SECRET&X-Amz-Date=1",
        "https://host/a?sv=1&sig=SECRET",
        "https://host/a?X-Goog-Signature=SECRET",
        "cannot reach s3://KEY:SECRET@bucket/x: token=SECRET",
    ],
)
def test_secrets_in_urls_are_not_shown(text: str) -> None:
    assert "SECRET" not in redact(text)
    assert "host" in redact(text) or "bucket" in redact(text)
