"""Many images through one device: order, bounds, and what one bad image may and may not do."""

import itertools
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from samjobs.errors import DeviceFault, LeaseLost, ObjectMissing, OutputUnwritable, StorageUnavailable
from samjobs.names import Reason
from samjobs.segmentation import pipeline, records
from samjobs.segmentation.engines.base import Candidates, UInt8Image
from samjobs.segmentation.images import Limits
from samjobs.segmentation.pipeline import Allowance, Bounds, FaultWatch, Limit, Ran
from samjobs.segmentation.records import FailureRecord, Record
from samjobs.segmentation.work import Outcome, Task, Work
from samjobs.spec import Format, JobSpec, Prompts
from samjobs.states import ImageState
from samjobs.storage import Stamp, Storage
from tests.doubles import FORBIDDEN, BrightEngine

BOUNDS = Bounds(memory_bytes=64 << 20, decode_threads=2, fetch_threads=3, in_flight=0)


class Bench:
    """A folder of pictures, an output folder, and runs over them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.output = folder / "in", folder / "out"
        self.folder.mkdir()
        self.storage: Storage = Storage()
        self.committed: list[Outcome] = []
        self.prompts: dict[str, Prompts] = {}

    def picture(self, name: str, level: int = 255) -> Path:
        """A picture whose bright half is its object; `level` makes it recognisable to the engine."""
        pixels = np.zeros((80, 120, 3), np.uint8)
        pixels[:, 60:] = level
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(path)
        return path

    def pictures(self, count: int) -> None:
        for number in range(count):
            self.picture(f"{number:03}.png")

    def spec(self, **given: Any) -> JobSpec:
        base: dict[str, Any] = {
            "images": {"prefix": str(self.folder)},
            "prompts": {"text": ["bright"]},
            "output": {"uri": str(self.output)},
            "engine": "opencv",
        }
        return JobSpec.model_validate(base | given)

    def tasks(self) -> Iterator[Task]:
        for index, listed in enumerate(self.storage.list(str(self.folder))):
            yield Task(index, listed.key, listed.uri, self.prompts.get(listed.key))

    def run(
        self,
        engine: BrightEngine,
        *,
        bounds: Bounds = BOUNDS,
        commit: Callable[[Outcome], None] = lambda outcome: None,
        allowance: Allowance | None = None,
        faults: FaultWatch | None = None,
        spec: JobSpec | None = None,
        tasks: list[Task] | None = None,
        **work: Any,
    ) -> Ran:
        self.committed = []

        def note(outcome: Outcome) -> None:
            self.committed.append(outcome)
            commit(outcome)

        defaults: dict[str, Any] = {"force": False, "last_attempt": False, "may_publish": lambda: True}
        context = Work(
            spec=spec or self.spec(),
            info=engine.info,
            storage=self.storage,
            limits=Limits(max_bytes=1 << 20),
            **(defaults | work),
        )
        given = self.tasks() if tasks is None else tasks
        watch = faults or FaultWatch()
        return pipeline.run(given, context, engine, bounds, commit=note, allowance=allowance or Limit(), faults=watch)

    def record(self, name: str) -> Record | FailureRecord:
        return records.load((self.output / "records" / f"{name}.json").read_bytes())

    def states(self) -> dict[str, str]:
        return {outcome.task.key: outcome.state.value for outcome in self.committed}

    def files(self) -> set[str]:
        return {str(path.relative_to(self.output)) for path in self.output.rglob("*") if path.is_file()}


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.mark.parametrize("batch", [1, 4])
def test_every_image_gets_a_record_with_its_mask_in_input_order(bench: Bench, batch: int) -> None:
    bench.pictures(10)
    engine = BrightEngine(batch=batch)
    ran = bench.run(engine)
    assert [outcome.task.index for outcome in bench.committed] == list(range(10))
    assert engine.images == 10
    assert max(engine.batches) == batch
    record = bench.record("003.png")
    assert isinstance(record, Record)
    mask = record.instances[0].segmentation.rle
    assert (record.width, record.height, mask.width, mask.height) == (120, 80, 120, 80)
    assert record.instances[0].bbox == (60, 0, 60, 80)
    assert set(record.timings_s) == {"fetch", "decode", "segment", "masks"}
    assert not ran.stopped


def test_one_thread_owns_the_device(bench: Bench) -> None:
    bench.pictures(6)
    engine = BrightEngine(device="cuda:0")
    bench.run(engine, bounds=Bounds(64 << 20, 2, 3, in_flight=4))
    assert engine.threads == {"MainThread"}


def test_a_second_run_does_nothing_and_says_so(bench: Bench) -> None:
    bench.pictures(5)
    bench.run(BrightEngine())
    engine = BrightEngine()
    bench.run(engine)
    assert engine.images == 0
    assert {(outcome.state, outcome.reason) for outcome in bench.committed} == {(ImageState.SKIPPED, Reason.UNCHANGED)}


def test_hundreds_of_unchanged_images_do_not_stop_the_run_early(bench: Bench) -> None:
    bench.pictures(40)  # several windows' worth
    bench.run(BrightEngine())
    bench.picture("zzz.png")
    engine = BrightEngine(batch=4)
    bench.run(engine)
    assert (engine.images, len(bench.committed)) == (1, 41)


def test_other_weights_mean_other_results(bench: Bench) -> None:
    bench.pictures(2)
    bench.run(BrightEngine())
    bench.run(BrightEngine(fingerprint="bright-2"))
    assert {outcome.reason for outcome in bench.committed} == {Reason.MODEL_CHANGED}


def test_bad_files_fail_alone_with_their_reasons(bench: Bench) -> None:
    bench.pictures(4)
    (bench.folder / "001.png").write_bytes(b"")
    (bench.folder / "002.png").write_bytes(b"no picture at all")
    bench.run(BrightEngine(batch=4))
    assert bench.states() == {"000.png": "done", "001.png": "failed", "002.png": "failed", "003.png": "done"}
    failure = bench.record("002.png")
    assert isinstance(failure, FailureRecord)
    assert "text" in failure.error


def test_a_prompt_that_the_engine_refuses_fails_that_image_of_the_batch(bench: Bench) -> None:
    bench.pictures(4)
    bench.prompts["002.png"] = Prompts.model_validate({"text": [FORBIDDEN]})
    engine = BrightEngine(batch=4)
    bench.run(engine)
    assert [name for name, state in bench.states().items() if state == "failed"] == ["002.png"]
    assert engine.images == 3


def test_an_image_that_spoils_its_batch_is_found_and_fails_alone(bench: Bench) -> None:
    bench.pictures(8)
    bench.picture("005.png", level=200)

    def spoil(images: list[UInt8Image]) -> None:
        if any(image.max() == 200 for image in images):
            raise RuntimeError("shape mismatch")

    bench.run(BrightEngine(batch=4, before=spoil))
    assert [name for name, state in bench.states().items() if state == "failed"] == ["005.png"]
    assert "shape mismatch" in str(bench.committed[5].error)


def test_the_same_unexpected_error_three_times_in_a_row_is_the_engines_fault(bench: Bench) -> None:
    bench.pictures(30)

    def broken(images: list[UInt8Image]) -> None:
        raise RuntimeError("expected bfloat16 but found float")

    with pytest.raises(DeviceFault, match=r"3 images in a row.*bfloat16"):
        bench.run(BrightEngine(before=broken))
    assert len(bench.committed) <= 2, "thousands of images must not be marked failed for a broken engine"


def test_an_odd_image_now_and_then_is_not_the_engines_fault(bench: Bench) -> None:
    bench.pictures(9)
    for number in range(0, 9, 2):
        bench.picture(f"{number:03}.png", level=200)

    def odd(images: list[UInt8Image]) -> None:
        if images[0].max() == 200:
            raise RuntimeError("odd")

    bench.run(BrightEngine(before=odd))
    assert list(bench.states().values()).count("failed") == 5


class OddStorage(Storage):
    """A real storage whose reads of some files meet an error that nobody expects."""

    def __init__(self, *names: str) -> None:
        super().__init__()
        self._names = names

    def read(self, uri: str, limit_bytes: int) -> bytes:
        if uri.endswith(self._names):
            raise ValueError("an odd file")
        return super().read(uri, limit_bytes)


@pytest.mark.parametrize("batch", [1, 4])
def test_an_unexpected_error_while_preparing_fails_that_image_alone(bench: Bench, batch: int) -> None:
    bench.pictures(9)
    bench.storage = OddStorage("/in/000.png", "/in/002.png", "/in/004.png")
    bench.run(BrightEngine(batch=batch), bounds=Bounds(1, 2, 3, in_flight=0))
    failed = [name for name, state in bench.states().items() if state == "failed"]
    assert failed == ["000.png", "002.png", "004.png"]
    assert "ValueError: an odd file" in str(bench.record("002.png").error)


def test_the_same_unexpected_error_in_every_file_ends_the_run(bench: Bench) -> None:
    bench.pictures(30)
    bench.storage = OddStorage(".png")
    with pytest.raises(DeviceFault, match=r"3 images in a row.*an odd file"):
        bench.run(BrightEngine())
    assert len(bench.committed) <= 2


def test_a_device_fault_ends_the_run_and_what_was_committed_stands(bench: Bench) -> None:
    bench.pictures(6)
    calls = itertools.count()

    def fault(images: list[UInt8Image]) -> None:
        if next(calls) == 3:
            raise DeviceFault("device-side assert")

    with pytest.raises(DeviceFault):
        bench.run(BrightEngine(before=fault))
    assert [outcome.task.key for outcome in bench.committed] == ["000.png", "001.png", "002.png"]
    engine = BrightEngine()
    bench.run(engine)
    assert engine.images == 3


class FlakyStorage(Storage):
    """A real storage whose server of one file does not answer."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    def stamp(self, uri: str) -> Stamp:
        if uri.endswith(f"/in/{self._name}"):
            raise StorageUnavailable("the server did not answer")
        return super().stamp(uri)


def test_a_transient_error_postpones_that_image(bench: Bench) -> None:
    bench.pictures(3)
    bench.storage = FlakyStorage("001.png")
    ran = bench.run(BrightEngine())
    assert [outcome.task.key for outcome in ran.postponed] == ["001.png"]
    assert bench.states() == {"000.png": "done", "002.png": "done"}
    assert "records/001.png.json" not in bench.files()


def test_on_the_last_attempt_a_transient_error_fails_that_image(bench: Bench) -> None:
    bench.pictures(3)
    bench.storage = FlakyStorage("001.png")
    ran = bench.run(BrightEngine(), last_attempt=True)
    assert not ran.postponed
    assert bench.states()["001.png"] == "failed"


def test_a_missing_file_fails_that_image(bench: Bench) -> None:
    bench.pictures(2)
    tasks = [*bench.tasks(), Task(2, "gone.png", str(bench.folder / "gone.png"), None)]
    bench.run(BrightEngine(), tasks=tasks)
    assert isinstance(bench.committed[2].error, ObjectMissing)


@pytest.mark.parametrize("batch", [1, 4])
def test_an_allowance_is_not_exceeded_and_the_rest_is_left_alone(bench: Bench, batch: int) -> None:
    bench.pictures(10)
    engine = BrightEngine(batch=batch)
    ran = bench.run(engine, allowance=Limit(6))
    assert engine.images == 6
    assert ran.stopped
    assert len(bench.committed) == 6


def test_an_image_that_the_engine_refuses_spends_nothing(bench: Bench) -> None:
    bench.pictures(3)
    bench.prompts["000.png"] = Prompts.model_validate({"text": [FORBIDDEN]})
    bench.run(BrightEngine(), allowance=Limit(1))
    assert bench.states() == {"000.png": "failed", "001.png": "done"}


def test_a_stop_while_a_batch_fills_leaves_its_images_for_later(bench: Bench) -> None:
    bench.pictures(2)

    class StopAtTheThirdQuestion(Limit):
        answers = iter([None, None, 0])

        def left(self) -> int | None:
            return next(self.answers)

    ran = bench.run(BrightEngine(batch=4), allowance=StopAtTheThirdQuestion())
    assert ran.stopped
    assert not bench.committed


def test_an_allowance_that_fits_exactly_is_not_a_stop(bench: Bench) -> None:
    bench.pictures(3)
    engine = BrightEngine()
    assert not bench.run(engine, allowance=Limit(3)).stopped


def test_on_a_cpu_an_image_is_committed_before_the_next_is_segmented(bench: Bench) -> None:
    bench.pictures(8)
    ahead: list[int] = []
    engine = BrightEngine(before=lambda images: ahead.append(engine.images - len(bench.committed)))
    bench.run(engine)
    assert set(ahead) == {0}


def test_uncommitted_images_never_exceed_what_may_be_in_flight(bench: Bench) -> None:
    bench.pictures(30)
    ahead: list[int] = []
    engine = BrightEngine(
        batch=2, device="cuda:0", before=lambda images: ahead.append(engine.images - len(bench.committed))
    )
    bench.run(engine, bounds=Bounds(64 << 20, 2, 3, in_flight=4))
    assert max(ahead) <= 4


def test_a_memory_budget_smaller_than_one_image_still_lets_all_through(bench: Bench) -> None:
    bench.pictures(12)
    engine = BrightEngine(batch=4)
    bench.run(engine, bounds=Bounds(memory_bytes=1, decode_threads=2, fetch_threads=3, in_flight=0))
    assert engine.images == 12


class WatchedStorage(Storage):
    """A real storage that tells of each read."""

    def __init__(self, told: Callable[[str], None]) -> None:
        super().__init__()
        self._told = told

    def read(self, uri: str, limit_bytes: int) -> bytes:
        self._told(uri)
        return super().read(uri, limit_bytes)


def test_files_that_wait_for_their_decoding_stay_counted(bench: Bench) -> None:
    for number in range(9):
        size = bench.picture(f"{number}.bmp").stat().st_size
    reads: list[str] = []
    too_many = threading.Event()

    def told(uri: str) -> None:
        reads.extend([uri] if uri.endswith(".bmp") else [])
        if len(reads) > 5:  # four in the budget and the next in order
            too_many.set()

    def first(images: list[UInt8Image]) -> None:
        assert bench.committed or not too_many.wait(0.1), "more files were read than the budget has room for"

    bench.storage = WatchedStorage(told)
    bench.run(BrightEngine(before=first), bounds=Bounds(4 * size, 1, 8, in_flight=0))
    assert set(bench.states().values()) == {"done"}


def test_touched_files_are_read_only_as_far_as_there_is_room(bench: Bench) -> None:
    bench.pictures(6)
    bench.run(BrightEngine())
    for path in bench.folder.iterdir():
        path.touch()
    ahead: list[int] = []
    names = sorted(str(path) for path in bench.folder.iterdir())
    bench.storage = WatchedStorage(
        lambda uri: ahead.append(names.index(uri) - len(bench.committed)) if uri in names else None
    )
    bench.run(BrightEngine(), bounds=Bounds(1, 2, 6, in_flight=0))
    assert ahead == [0] * 6, "only the next in order may be read when the budget is full"


def test_the_earlier_record_is_read_once(bench: Bench) -> None:
    bench.pictures(2)
    bench.run(BrightEngine())
    (bench.folder / "001.png").write_bytes(b"broken")
    reads: list[str] = []
    bench.storage = WatchedStorage(reads.append)
    bench.run(BrightEngine(), force=True)
    assert bench.states() == {"000.png": "done", "001.png": "failed"}
    assert sorted(uri.rpartition("/")[2] for uri in reads if "/records/" in uri) == ["000.png.json", "001.png.json"]


ALL_FORMATS = [one.value for one in Format]


def test_folders_named_like_other_images_files_take_nobodys_place(bench: Bench) -> None:
    names = ["a.jpg", "a.jpg.json/b.jpg", "a.jpg.json~/b.jpg", "a.jpg.jpg/b.jpg", "a.jpg.png/b.jpg", "a.txt/b.jpg"]
    for name in names:
        bench.picture(name)
    spec = bench.spec(output={"uri": str(bench.output), "formats": ALL_FORMATS})
    bench.run(BrightEngine(), spec=spec)
    assert bench.states() == dict.fromkeys(names, "done")
    bench.run(BrightEngine(), spec=spec)
    assert bench.states() == dict.fromkeys(names, "skipped")
    assert {str(path.relative_to(bench.output)) for path in (bench.output / "records").rglob("*.json")} == {
        "records/a.jpg.json",
        "records/a.jpg.json~/b.jpg.json",
        "records/a.jpg.json~~/b.jpg.json",
        "records/a.jpg.jpg~/b.jpg.json",
        "records/a.jpg.png~/b.jpg.json",
        "records/a.txt~/b.jpg.json",
    }


def test_a_folder_in_the_place_of_a_file_fails_that_image_alone(bench: Bench) -> None:
    bench.pictures(3)
    (bench.output / "label-png/001.png.png/kept").mkdir(parents=True)
    spec = bench.spec(output={"uri": str(bench.output), "formats": ["label-png"]})
    bench.run(BrightEngine(), spec=spec)
    assert bench.states() == {"000.png": "done", "001.png": "failed", "002.png": "done"}
    failure = bench.record("001.png")
    assert isinstance(failure, FailureRecord)
    assert "label-png/001.png.png: a file stands where a folder is needed, or a folder" in failure.error
    assert not [name for name in bench.files() if ".samjobs" in name]


def test_a_folder_in_the_place_of_a_record_fails_that_image_alone_and_without_a_record(bench: Bench) -> None:
    bench.pictures(3)
    (bench.output / "records/001.png.json/kept").mkdir(parents=True)
    for _ in range(2):
        bench.run(BrightEngine())
        assert bench.states()["001.png"] == "failed"
        assert "records/001.png.json: a file stands where" in str(bench.committed[1].error)
    assert bench.files() == {"records/000.png.json", "records/002.png.json"}


def test_a_file_of_old_results_that_became_a_folder_is_left_alone(bench: Bench) -> None:
    bench.pictures(1)
    bench.run(BrightEngine(), spec=bench.spec(output={"uri": str(bench.output), "formats": ["label-png"]}))
    (bench.output / "label-png/000.png.png").unlink()
    (bench.output / "label-png/000.png.png/kept").mkdir(parents=True)
    bench.run(BrightEngine())
    assert bench.states() == {"000.png": "done"}


def test_a_link_that_leads_out_of_the_output_place_ends_the_run(bench: Bench) -> None:
    bench.picture("sub/a.png")
    (bench.output / "records").mkdir(parents=True)
    (bench.output / "records/sub").symlink_to(bench.folder)
    with pytest.raises(OutputUnwritable, match="a symlink leads to"):
        bench.run(BrightEngine())


def test_once_the_lease_is_lost_nothing_more_is_written(bench: Bench) -> None:
    bench.pictures(6)
    with pytest.raises(LeaseLost):
        bench.run(BrightEngine(), may_publish=lambda: len(bench.committed) < 2)
    assert bench.files() == {"records/000.png.json", "records/001.png.json"}


def test_an_output_place_that_refuses_is_no_images_fault(bench: Bench) -> None:
    bench.pictures(2)
    bench.output.write_text("a file where the folder should be")
    with pytest.raises(OutputUnwritable):
        bench.run(BrightEngine())
    assert not bench.committed


def test_an_image_that_broke_loses_its_old_results(bench: Bench) -> None:
    bench.pictures(2)
    spec = bench.spec(output={"uri": str(bench.output), "formats": ["overlay", "label-png"]})
    bench.run(BrightEngine(), spec=spec)
    assert "overlay/000.png.jpg" in bench.files()
    (bench.folder / "000.png").write_bytes(b"broken")
    bench.run(BrightEngine(), spec=spec)
    assert isinstance(bench.record("000.png"), FailureRecord)
    assert bench.files() == {
        "records/000.png.json",
        "records/001.png.json",
        "overlay/001.png.jpg",
        "label-png/001.png.png",
    }
    assert bench.committed[1].state is ImageState.SKIPPED


def test_files_of_a_format_no_longer_asked_for_are_removed(bench: Bench) -> None:
    bench.pictures(1)
    bench.run(BrightEngine(), spec=bench.spec(output={"uri": str(bench.output), "formats": ["overlay", "label-png"]}))
    bench.run(BrightEngine(), spec=bench.spec(output={"uri": str(bench.output), "formats": ["overlay"]}))
    assert bench.files() == {"records/000.png.json", "overlay/000.png.jpg"}


class Many(BrightEngine):
    """Finds as many things as it is told to."""

    def __init__(self, count: int) -> None:
        super().__init__(fingerprint=f"many-{count}")
        self.count = count

    def segment(self, *asked: Any) -> list[list[Candidates]]:
        def repeated(one: Candidates) -> Candidates:
            assert one.logits is not None
            scores, boxes = np.repeat(one.scores, self.count), np.repeat(one.boxes, self.count, axis=0)
            return Candidates(scores, boxes, logits=np.repeat(one.logits, self.count, axis=0))

        return [[repeated(one) for one in image] for image in super().segment(*asked)]


def test_a_crash_while_files_are_written_leaves_no_file_that_no_record_knows(bench: Bench) -> None:
    """An instance's file must not survive from a run whose record was never written."""
    bench.pictures(1)
    spec = bench.spec(output={"uri": str(bench.output), "formats": ["instance-png"]})
    bench.run(Many(5), spec=spec)
    writes = itertools.count()
    with pytest.raises(LeaseLost):  # stands for the crash: the note and three of seven files are written
        bench.run(Many(7), spec=spec, may_publish=lambda: next(writes) < 4)
    assert isinstance(bench.record("000.png"), FailureRecord), "no result is vouched for now"
    bench.run(Many(2), spec=spec)
    assert bench.committed[0].reason is Reason.FAILED_BEFORE
    folder = "instance-png/000.png"
    assert bench.files() == {"records/000.png.json", f"{folder}/0001.png", f"{folder}/0002.png"}


OUTAGES = {
    "the server is down": lambda bench: FlakyStorage("000.png"),
    "the folder is gone": lambda bench: (bench.folder / "000.png").unlink() or bench.storage,
}


@pytest.mark.parametrize("outage", OUTAGES)
def test_results_stay_when_the_photo_cannot_be_read(bench: Bench, outage: str) -> None:
    bench.pictures(2)
    spec = bench.spec(output={"uri": str(bench.output), "formats": ["overlay"]})
    bench.run(BrightEngine(), spec=spec)
    before, tasks, healthy = bench.files(), list(bench.tasks()), bench.storage
    picture = (bench.folder / "000.png").read_bytes()
    bench.storage = OUTAGES[outage](bench)
    bench.run(BrightEngine(), spec=spec, last_attempt=True, tasks=tasks)
    assert bench.states() == {"000.png": "failed", "001.png": "skipped"}
    assert bench.files() == before

    bench.storage = healthy
    (bench.folder / "000.png").write_bytes(picture)
    engine = BrightEngine()
    bench.run(engine, spec=spec, tasks=tasks)
    assert engine.images == 0, "nothing was lost, so nothing is to be done again"


def test_results_stay_when_the_prompt_is_at_fault(bench: Bench) -> None:
    bench.pictures(1)
    bench.run(BrightEngine())
    bench.prompts["000.png"] = Prompts.model_validate({"text": [FORBIDDEN]})
    bench.run(BrightEngine())
    assert bench.states() == {"000.png": "failed"}
    assert isinstance(bench.record("000.png"), Record)


def test_photos_that_moved_are_known_by_their_bytes_and_their_record_learns_the_place(bench: Bench) -> None:
    bench.pictures(1)
    bench.run(BrightEngine())
    bench.folder = bench.folder.rename(bench.folder.with_name("elsewhere"))
    engine = BrightEngine()
    bench.run(engine)
    assert engine.images == 0
    assert bench.record("000.png").uri == str(bench.folder / "000.png")


def test_a_removed_output_is_made_again(bench: Bench) -> None:
    bench.pictures(2)
    spec = bench.spec(output={"uri": str(bench.output), "formats": ["label-png"]})
    bench.run(BrightEngine(), spec=spec)
    (bench.output / "label-png/001.png.png").unlink()
    bench.run(BrightEngine(), spec=spec)
    assert [outcome.reason for outcome in bench.committed] == [Reason.UNCHANGED, Reason.OUTPUT_MISSING]


def test_a_touched_file_is_read_once_and_its_record_learns_the_new_time(bench: Bench) -> None:
    bench.pictures(1)
    bench.run(BrightEngine())
    (bench.folder / "000.png").touch()
    before = bench.record("000.png")
    engine = BrightEngine()
    bench.run(engine)
    after = bench.record("000.png")
    assert engine.images == 0
    assert before.source is not None
    assert after.source is not None
    assert before.source.token != after.source.token
    assert before.source.content_hash == after.source.content_hash


def test_a_record_cut_short_counts_as_none(bench: Bench) -> None:
    bench.pictures(1)
    bench.run(BrightEngine())
    path = bench.output / "records/000.png.json"
    path.write_bytes(path.read_bytes()[:-20])
    bench.run(BrightEngine())
    assert bench.committed[0].reason is Reason.NEW
