"""What a tenant's storage opens, where symlinks and settings have their say."""

from collections import Counter
from pathlib import Path

import pytest

from samjobs.errors import AccessDenied, InvalidInput, ObjectMissing
from samjobs.settings import Settings
from samjobs.storage import Access, Storage, access_for, access_of_server
from samjobs.storage.fence import Fence, fence_for, places_of


@pytest.fixture
def zoo(tmp_path: Path) -> Storage:
    """The storage of tenant zoo, whose one place is a folder beside another tenant's."""
    for tenant in ("zoo", "farm"):
        (tmp_path / tenant).mkdir()
        (tmp_path / tenant / "a.png").write_bytes(tenant.encode())
    return Storage(Access(fence=Fence({"zoo": (f"{tmp_path}/zoo",)}))).within("zoo")


def test_its_own_files_are_read_listed_written_and_removed(zoo: Storage, tmp_path: Path) -> None:
    assert zoo.read(f"{tmp_path}/zoo/a.png", 10) == b"zoo"
    assert [found.key for found in zoo.list(f"{tmp_path}/zoo")] == ["a.png"]
    zoo.put(f"{tmp_path}/zoo/out/b.json", b"{}")
    assert zoo.size(f"{tmp_path}/zoo/out/b.json") == 2
    zoo.delete(f"{tmp_path}/zoo/out/b.json")


@pytest.mark.parametrize("path", ["farm/a.png", "zoo/../farm/a.png", "farm", "zoology"])
def test_no_method_opens_anothers(zoo: Storage, tmp_path: Path, path: str) -> None:
    uri = f"{tmp_path}/{path}"
    attempts = [
        lambda: zoo.read(uri, 10),
        lambda: zoo.open(uri),
        lambda: zoo.stamp(uri),
        lambda: zoo.size(uri),
        lambda: zoo.quick_hash(uri),
        lambda: list(zoo.list(uri)),
        lambda: zoo.put(uri, b"x"),
        lambda: zoo.put_file(uri, tmp_path / "zoo" / "a.png"),
        lambda: zoo.delete(uri),
        lambda: zoo.free_bytes(uri),
    ]
    for attempt in attempts:
        with pytest.raises(AccessDenied, match="is below none of tenant zoo's places"):
            attempt()
    assert (tmp_path / "farm" / "a.png").read_bytes() == b"farm"


def test_a_symlink_is_judged_by_where_it_leads(zoo: Storage, tmp_path: Path) -> None:
    (tmp_path / "zoo" / "file.png").symlink_to(tmp_path / "farm" / "a.png")
    (tmp_path / "zoo" / "folder").symlink_to(tmp_path / "farm")
    (tmp_path / "zoo" / "own.png").symlink_to("a.png")
    for path in ("file.png", "folder/a.png", "folder/new.png"):
        with pytest.raises(AccessDenied, match=f"zoo/{path}, which leads to .*/farm/"):
            zoo.put(f"{tmp_path}/zoo/{path}", b"x")
        with pytest.raises(AccessDenied):
            zoo.read(f"{tmp_path}/zoo/{path}", 10)
    assert zoo.read(f"{tmp_path}/zoo/own.png", 10) == b"zoo"
    assert sorted(path.name for path in (tmp_path / "farm").iterdir()) == ["a.png"]


def test_a_listing_enters_no_linked_folder_and_names_linked_files_that_then_fail_alone(
    zoo: Storage, tmp_path: Path
) -> None:
    (tmp_path / "zoo" / "folder").symlink_to(tmp_path / "farm")
    (tmp_path / "zoo" / "file.png").symlink_to(tmp_path / "farm" / "a.png")
    ignored: Counter[str] = Counter()
    found = {one.key: one.uri for one in zoo.list(f"{tmp_path}/zoo", ignored=ignored)}
    assert set(found) == {"a.png", "file.png"}
    assert ignored == {"symlinked folder": 1}
    with pytest.raises(AccessDenied):
        zoo.read(found["file.png"], 10)


def test_a_place_may_be_a_symlink_itself(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "data").symlink_to(tmp_path / "disk")
    storage = Storage(Access(fence=Fence({"zoo": (f"{tmp_path}/data",)}))).within("zoo")
    storage.put(f"{tmp_path}/data/a", b"x")
    assert storage.read(f"{tmp_path}/disk/a", 1) == b"x"


@pytest.mark.parametrize(
    "path",
    [
        "/proc/self/environ",
        "/proc/self/root/etc/passwd",
        "/dev/shm/x",
        "/etc/hostname",
        "/",
    ],
)
def test_the_machines_own_files_are_nobodys(path: str, tmp_path: Path) -> None:
    with Storage(access_of_server(Settings())) as storage, pytest.raises(AccessDenied, match="belongs to the machine"):
        storage.within("zoo").open(path)
    (tmp_path / "link.png").symlink_to(path)
    with Storage(access_of_server(Settings())) as storage, pytest.raises(AccessDenied, match="belongs to the machine"):
        storage.within("zoo").read(f"{tmp_path}/link.png", 10)


@pytest.mark.parametrize("path", ["/data/a\0b", "/proc/1/cwd/x", "/" + "x" * 300])
def test_a_path_that_cannot_be_followed_is_an_error_of_ours(path: str) -> None:
    with Storage(access_of_server(Settings())) as storage, pytest.raises((AccessDenied, InvalidInput, ObjectMissing)):
        storage.within("zoo").read(path, 10)


def test_the_cache_of_weights_is_nobodys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HOME", str(tmp_path / "cache" / "huggingface"))
    with Storage(access_of_server(Settings())) as storage, pytest.raises(AccessDenied, match="belongs to the machine"):
        storage.within("zoo").put(f"{tmp_path}/cache/huggingface/hub/config.json", b"{}")


def test_a_persons_own_machine_has_no_fence(tmp_path: Path) -> None:
    settings = Settings(tenant_places="{zoo: [s3://b]}")
    with Storage(access_for(settings)) as storage:
        storage.within("zoo").put(f"{tmp_path}/a", b"x")


def test_objects_and_web_addresses_are_judged_before_anything_is_asked(tmp_path: Path) -> None:
    fence = Fence({"zoo": ("memory://photos/zoo", "https://photos.example")})
    with Storage(Access(fence=fence, retries=0)) as storage:
        zoo = storage.within("zoo")
        zoo.put("memory://photos/zoo/a.png", b"x")
        assert zoo.read("memory://photos/zoo/a.png", 1) == b"x"
        for uri in ("memory://photos/farm/a.png", "https://other.example/a.png?sig=hunter2", "s3://b/a.png"):
            with pytest.raises(AccessDenied, match="is below none") as refused:
                zoo.read(uri, 1)
            assert "hunter2" not in str(refused.value)


class TestSetting:
    def test_a_map_in_the_setting_or_in_a_file_is_the_same(self, tmp_path: Path) -> None:
        text = '{"zoo": ["s3://photos/zoo/", "file:///data/zoo/", "/data/b"], "*": ["HTTPS://"]}'
        (tmp_path / "places.yaml").write_text("zoo:\n- s3://photos/zoo\n- /data/zoo\n- /data/b\n'*': ['https://']\n")
        wanted = {"zoo": ("s3://photos/zoo", "/data/zoo", "/data/b"), "*": ("https://",)}
        assert places_of(Settings(tenant_places=text)) == wanted
        assert places_of(Settings(tenant_places=str(tmp_path / "places.yaml"))) == wanted
        assert places_of(Settings()) is None
        assert places_of(Settings(tenant_places="{}")) == {}, "a list without tenants opens nothing to anybody"

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("[s3://b]", "give a map from tenant"),
            ("", "give a map from tenant"),
            ("{zoo: s3://b}", "zoo: give a list of places"),
            ("{zoo: [1]}", "zoo: give a list of places"),
            ("{zoo: ['']}", "zoo: give a list of places"),
            ("{zoo: [data/a]}", "zoo: 'data/a' is a relative path"),
            ("{zoo: ['ftp://me:hunter2@h/a']}", r"zoo: ftp://\*\*\*@h/a: scheme ftp is not known"),
            ("{no: [/a]}", "False is no tenant: write its name in quotes"),
            ("{zoo: [/a", "no YAML or JSON"),
            ("!!python/object/apply:os.system [id]", "no YAML or JSON"),
            ("/no/such/file", "/no/such/file cannot be read"),
        ],
    )
    def test_what_is_wrong_is_told_when_a_server_starts(self, text: str, message: str) -> None:
        with pytest.raises(InvalidInput, match=message) as refused:
            fence_for(Settings(tenant_places=text))
        assert "SAMJOBS_TENANT_PLACES" in str(refused.value)
        assert "\n" not in str(refused.value)
        assert "hunter2" not in str(refused.value)
