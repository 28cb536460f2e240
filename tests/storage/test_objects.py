"""Object stores: S3 against a real server on the loopback address, the others where no server is needed.

Google Cloud Storage and Azure Blob take the same path through fsspec; of them only what needs no server is tested.
"""

import os
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import boto3
import pytest
from moto.server import ThreadedMotoServer

from samjobs.errors import AccessDenied, ImageError, ObjectMissing, OutputUnwritable, StorageUnavailable
from samjobs.storage import Access, Storage, join, quick_hash

KEYS = {"aws_access_key_id": "test", "aws_secret_access_key": "test", "region_name": "eu-central-1"}


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


def s3_options(endpoint: str) -> dict[str, Any]:
    return {"key": "test", "secret": "test", "endpoint_url": endpoint, "client_kwargs": {"region_name": "eu-central-1"}}


@pytest.fixture
def storage(endpoint: str) -> Storage:
    return Storage(Access(options={"s3": s3_options(endpoint)}, retries=0))


@pytest.fixture
def bucket(endpoint: str) -> str:
    name = f"test-{uuid4().hex}"
    client = boto3.client("s3", endpoint_url=endpoint, **KEYS)
    client.create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
    return f"s3://{name}"


class TestS3:
    def test_what_was_put_is_read_back_with_stamp_and_size(self, storage: Storage, bucket: str) -> None:
        uri = f"{bucket}/a/b c 100%25.jpg"
        storage.put(uri, b"one")
        first = storage.stamp(uri)
        assert storage.read(uri, 3) == b"one"
        storage.put(uri, b"two")
        assert storage.read(uri, 3) == b"two"
        assert storage.size(uri) == first.size == 3
        assert first.token != storage.stamp(uri).token

    def test_the_etag_tells_a_change_and_its_absence(self, storage: Storage, bucket: str) -> None:
        storage.put(f"{bucket}/a", b"same")
        before = storage.stamp(f"{bucket}/a")
        storage.put(f"{bucket}/a", b"same")
        assert storage.stamp(f"{bucket}/a") == before

    def test_a_prefix_is_listed_by_the_same_rules_as_a_folder(self, storage: Storage, bucket: str) -> None:
        for key in ("in/b.jpg", "in/a/z.PNG", "in/.h/x.jpg", "in/out/o.jpg", "in/n.txt", "in/é ü.jpg", "inside/x.jpg"):
            storage.put(f"{bucket}/{key}", b"12345")
        ignored: Counter[str] = Counter()
        listing = storage.list(f"{bucket}/in/", exclude=f"{bucket}/in/out", ignored=ignored)
        assert [(item.key, item.uri) for item in listing] == [
            ("a/z.PNG", f"{bucket}/in/a/z.PNG"),
            ("b.jpg", f"{bucket}/in/b.jpg"),
            ("é ü.jpg", f"{bucket}/in/é ü.jpg"),
        ]
        assert ignored == {"hidden": 1, "not an image": 1, "output": 1}

    def test_a_whole_bucket_and_a_single_object_are_prefixes_too(self, storage: Storage, bucket: str) -> None:
        storage.put(f"{bucket}/x/a.jpg", b"1")
        assert [item.key for item in storage.list(bucket)] == ["x/a.jpg"]
        assert [item.key for item in storage.list(f"{bucket}/x/a.jpg")] == ["a.jpg"]

    def test_more_objects_than_one_page_of_the_service_are_all_listed(
        self, storage: Storage, bucket: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("MOTO_S3_DEFAULT_MAX_KEYS", "5")  # S3 itself has 1,000 on a page
        names = [f"{number:02}.jpg" for number in range(12)]
        for name in names:
            storage.put(f"{bucket}/many/{name}", b"")
        assert [item.key for item in storage.list(f"{bucket}/many")] == names

    def test_what_another_process_wrote_is_seen_at_once(self, storage: Storage, bucket: str, endpoint: str) -> None:
        storage.put(f"{bucket}/a.jpg", b"1")
        assert len(list(storage.list(bucket))) == 1
        other = Storage(Access(options={"s3": s3_options(endpoint)}))
        other.put(f"{bucket}/b.jpg", b"1")
        assert len(list(storage.list(bucket))) == 2
        assert storage.size(f"{bucket}/b.jpg") == 1

    def test_missing_objects_and_buckets_are_missing(self, storage: Storage, bucket: str) -> None:
        assert storage.size(f"{bucket}/none") is None
        with pytest.raises(ObjectMissing, match="none does not exist"):
            storage.read(f"{bucket}/none", 10)
        with pytest.raises(ObjectMissing, match="nothing"):
            storage.list(f"{bucket}/nothing/")
        with pytest.raises(ObjectMissing):
            storage.list("s3://no-such-bucket-here/a/")

    def test_an_output_bucket_that_is_not_there_is_critical(self, storage: Storage) -> None:
        with pytest.raises(OutputUnwritable, match="no-such-bucket-here"):
            storage.put("s3://no-such-bucket-here/a", b"x")

    def test_an_object_over_the_limit_is_not_loaded(self, storage: Storage, bucket: str) -> None:
        storage.put(f"{bucket}/big", bytes(2000))
        with pytest.raises(ImageError, match="2,000 bytes, over the limit of 100"):
            storage.read(f"{bucket}/big", 100)

    @pytest.mark.parametrize("size", [0, 100, 100_000])
    def test_the_quick_hash_is_that_of_the_bytes(self, storage: Storage, bucket: str, size: int) -> None:
        data = os.urandom(size)
        storage.put(f"{bucket}/a", data)
        assert storage.quick_hash(f"{bucket}/a") == quick_hash(data)

    def test_a_local_file_is_put_and_a_long_one_opened(self, storage: Storage, bucket: str, tmp_path: Path) -> None:
        (tmp_path / "a").write_bytes(b"one\ntwo\n")
        storage.put_file(f"{bucket}/a", tmp_path / "a")
        with storage.open(f"{bucket}/a") as file:
            assert list(file) == [b"one\n", b"two\n"]

    def test_deleting_twice_is_no_error(self, storage: Storage, bucket: str) -> None:
        storage.put(f"{bucket}/a", b"1")
        storage.delete(f"{bucket}/a")
        storage.delete(f"{bucket}/a")
        assert storage.size(f"{bucket}/a") is None

    def test_many_threads_may_write_at_once(self, storage: Storage, bucket: str) -> None:
        threads = [
            threading.Thread(target=storage.put, args=(f"{bucket}/{number}.jpg", b"x" * number)) for number in range(16)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(len(storage.read(item.uri, 100)) for item in storage.list(bucket)) == list(range(16))

    def test_an_endpoint_where_nobody_listens_is_transient(self) -> None:
        options = s3_options("http://127.0.0.1:9") | {"config_kwargs": {"retries": {"max_attempts": 0}}}
        storage = Storage(Access(options={"s3": options}, retries=0))
        with pytest.raises(StorageUnavailable, match="s3://bucket/a"):
            storage.read("s3://bucket/a", 10)

    def test_without_credentials_the_remedy_is_named(self, endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            monkeypatch.delenv(name)
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
        monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
        storage = Storage(Access(options={"s3": {"endpoint_url": endpoint}}, retries=0))
        with pytest.raises(AccessDenied, match="credentials"):
            storage.read("s3://bucket/a", 10)


class TestMemory:
    def test_it_lists_reads_and_writes(self) -> None:
        root = f"memory://{uuid4().hex}"
        storage = Storage()
        storage.put(join(root, "in/a.jpg"), b"12")
        storage.put(join(root, "in/b/c%25.jpg"), b"345")
        listed = [(item.key, item.uri) for item in storage.list(f"{root}/in")]
        assert listed == [("a.jpg", f"{root}/in/a.jpg"), ("b/c%25.jpg", f"{root}/in/b/c%25.jpg")]
        assert [storage.read(uri, 10) for _, uri in listed] == [b"12", b"345"]
        assert storage.free_bytes(root) is None

    def test_a_missing_prefix_is_named(self) -> None:
        with pytest.raises(ObjectMissing, match="memory://nothing-here"):
            Storage().list("memory://nothing-here")
