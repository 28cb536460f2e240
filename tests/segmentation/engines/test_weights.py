"""Weights found, or explained: missing, corrupt, gated, unknown, offline."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors.numpy import load_file, save_file

from samjobs.errors import ModelUnavailable
from samjobs.segmentation.engines import load
from samjobs.segmentation.engines.weights import meta_checkpoint, sam3_checkpoint
from tests.segmentation.engines.hub import COMMIT, serve

TINY = Path(__file__).parents[2] / "data" / "sam3-tiny"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A checkpoint to break."""
    return Path(shutil.copytree(TINY, tmp_path / "model"))


def test_a_folder_is_taken_as_it_is_and_its_checksum_is_of_the_weights() -> None:
    weights = sam3_checkpoint(str(TINY), None)
    assert (weights.model, weights.revision) == (str(TINY), "")
    content = (TINY / "model.safetensors").read_bytes()
    assert weights.fingerprint() == f"blake2b:{hashlib.blake2b(content, digest_size=20).hexdigest()}"


def test_one_changed_number_changes_the_fingerprint(copy: Path) -> None:
    before = sam3_checkpoint(str(copy), None).fingerprint()
    file = copy / "model.safetensors"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    assert sam3_checkpoint(str(copy), None).fingerprint() != before


def test_only_the_file_with_the_checksum_that_was_given_will_do(copy: Path) -> None:
    weights = sam3_checkpoint(str(copy), None)
    right = hashlib.sha256((copy / "model.safetensors").read_bytes()).hexdigest()
    weights.check(None)
    weights.check(right)
    with pytest.raises(ModelUnavailable, match=rf"model\.safetensors: its SHA-256 is {right}, not 0000"):
        weights.check("0" * 64)
    with pytest.raises(ModelUnavailable, match="not 0000"):
        load("sam3", model=str(copy), sha256="0" * 64, device="cpu")


def test_weights_in_several_files_are_all_taken(copy: Path) -> None:
    whole = load_file(copy / "model.safetensors")
    names = sorted(whole)
    shards = {"model-1.safetensors": names[::2], "model-2.safetensors": names[1::2]}
    for file, own in shards.items():
        save_file({name: whole[name] for name in own}, copy / file)
    (copy / "model.safetensors").unlink()
    index = {"weight_map": {name: file for file, own in shards.items() for name in own}}
    (copy / "model.safetensors.index.json").write_text(json.dumps(index))
    assert [path.name for path in sam3_checkpoint(str(copy), None).files] == list(shards)
    with pytest.raises(ModelUnavailable, match="in 2 files, and sha256"):
        sam3_checkpoint(str(copy), None).check("0" * 64)
    (copy / "model-2.safetensors").unlink()
    with pytest.raises(ModelUnavailable, match=r"model-2\.safetensors missing"):
        sam3_checkpoint(str(copy), None)


def cut(folder: Path) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-1000])


def flip_the_header(folder: Path) -> None:
    file = folder / "model.safetensors"
    content = bytearray(file.read_bytes())
    content[7] ^= 0xFF  # the highest byte of the header's length
    file.write_bytes(content)


def empty(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(b"")


def remove_weights(folder: Path) -> None:
    (folder / "model.safetensors").unlink()


def leave_only_a_pickle(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def remove_config(folder: Path) -> None:
    (folder / "config.json").unlink()


def cut_config(folder: Path) -> None:
    (folder / "config.json").write_text('{"model_type": ')


def other_model(folder: Path) -> None:
    (folder / "config.json").write_text('{"model_type": "sam2"}')


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (cut, r"model\.safetensors \(3,589,130 bytes\) is corrupt or cut short.*copy or download it again"),
        (flip_the_header, r"model\.safetensors .* is corrupt or cut short"),
        (empty, r"model\.safetensors \(0 bytes\) is corrupt or cut short"),
        (remove_weights, r"model\.safetensors is missing.*SAM License"),
        (leave_only_a_pickle, r"model\.safetensors is missing"),
        (remove_config, r"config\.json is missing.*SAM License"),
        (cut_config, r"config\.json cannot be read as JSON"),
        (other_model, r"model_type is 'sam2', expected 'sam3_video'"),
    ],
)
def test_a_broken_folder_is_refused_with_the_file_and_the_remedy(copy: Path, damage: object, message: str) -> None:
    assert callable(damage)
    damage(copy)
    with pytest.raises(ModelUnavailable, match=message):
        sam3_checkpoint(str(copy), None)


@pytest.mark.parametrize("name", ["/no/such/folder", "./no/such", "nowhere"])
def test_a_path_that_does_not_exist_is_not_asked_of_the_hub(name: str) -> None:
    with pytest.raises(ModelUnavailable, match=r"no such folder.*SAM License"):
        sam3_checkpoint(name, None)


def test_metas_checkpoint_is_a_file_or_the_folder_that_has_it(tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailable, match=r"sam3\.pt is missing"):
        meta_checkpoint(str(tmp_path), None)
    (tmp_path / "sam3.pt").write_bytes(b"weights")
    assert meta_checkpoint(str(tmp_path), None).files == (tmp_path / "sam3.pt",)
    assert meta_checkpoint(str(tmp_path / "sam3.pt"), None).files == (tmp_path / "sam3.pt",)


ASK = """
import sys
from samjobs.errors import ModelUnavailable
from samjobs.segmentation.engines.weights import sam3_checkpoint
try:
    weights = sam3_checkpoint(sys.argv[1], sys.argv[2] or None)
    print("loaded", weights.revision, weights.fingerprint())
except ModelUnavailable as error:
    print(error)
"""


def ask_hub(
    home: Path, endpoint: str, *, model: str = "facebook/sam3", revision: str = "", offline: bool = False
) -> str:
    """What a process of its own says, for which that hub is the hub: the library reads its address at import."""
    kept = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    own = {"HF_HOME": str(home), "HF_ENDPOINT": endpoint, "HF_HUB_OFFLINE": str(int(offline)), "HF_TOKEN": "hf_secret"}
    run = subprocess.run(
        [sys.executable, "-c", ASK, model, revision], env={**kept, **own}, capture_output=True, text=True, check=True
    )
    assert "hf_secret" not in run.stdout + run.stderr
    return run.stdout


@pytest.mark.parametrize("status", [401, 403])
def test_a_gated_model_says_how_to_get_access(tmp_path: Path, status: int) -> None:
    with serve(TINY, refusal=(status, "GatedRepo")) as endpoint:
        said = ask_hub(tmp_path, endpoint)
    assert f"is gated and the hub refused (HTTP {status})" in said
    assert "HF_TOKEN" in said
    assert "SAM License" in said


def test_a_model_or_revision_that_the_hub_does_not_have_is_named(tmp_path: Path) -> None:
    with serve(TINY) as endpoint:
        assert "model 'someone/sam3': the hub does not know it" in ask_hub(tmp_path, endpoint, model="someone/sam3")
        assert "'v9': the hub has no such revision" in ask_hub(tmp_path, endpoint, revision="v9")


def test_a_hub_model_is_downloaded_once_and_its_commit_recorded(tmp_path: Path) -> None:
    with serve(TINY) as endpoint:
        first = ask_hub(tmp_path, endpoint)
    again = ask_hub(tmp_path, endpoint, offline=True)
    assert first == again == f"loaded {COMMIT} {sam3_checkpoint(str(TINY), None).fingerprint()}\n"


def test_offline_or_unreachable_is_told_apart_from_gated(tmp_path: Path) -> None:
    with serve(TINY) as endpoint:
        assert "the hub cannot be reached" in ask_hub(tmp_path, endpoint, offline=True)
    assert "the hub cannot be reached" in ask_hub(tmp_path, endpoint)  # nobody listens there any more
