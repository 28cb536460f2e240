"""Where the weights are: a path or a model of the Hugging Face hub, found, checked and named.

Answers which files to load and which checksum they have, and explains in the words of the person who has to act why
they cannot be had: gated, missing, corrupt, offline. samjobs ships no weights and none are downloaded unless a hub id
was asked for. It does not promise that the numbers inside a file are right: only the checksum, recorded with every
result, can tell that.
"""

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

from samjobs.errors import ModelUnavailable

SAM3_FILE = "model.safetensors"
META_FILE = "sam3.pt"

LICENCE = (
    "SAM 3's weights are Meta's, under the SAM License (https://huggingface.co/facebook/sam3): "
    "read it, ask for access there, and keep the licence with every copy"
)

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
_CHUNK = 8 << 20  # bytes read at once for the checksum


@dataclass(frozen=True)
class Weights:
    """A checkpoint on this machine."""

    folder: Path
    files: tuple[Path, ...]  # those that hold weights
    model: str  # as asked for: path or hub id
    revision: str  # the hub's commit, "" for a path

    def fingerprint(self) -> str:
        """BLAKE2b over the weight files, in order: `blake2b:…`. Reads them whole (about a second per GB)."""
        digest = hashlib.blake2b(digest_size=20)
        self._read_into(digest)
        return f"blake2b:{digest.hexdigest()}"

    def check(self, sha256: str | None) -> None:
        """See that the weights file is the one that is meant; None: any. Reads it whole.

        Raises:
            ModelUnavailable: it is another, or the weights are in several files, which no one checksum is of.
        """
        if sha256 is None:
            return
        if len(self.files) > 1:
            raise ModelUnavailable(
                f"model {self.model!r}: the weights are in {len(self.files)} files, and sha256 {sha256} can be of one"
                " only: leave sha256 out; each result records the checksum of all"
            )
        digest = hashlib.sha256()
        self._read_into(digest)
        if digest.hexdigest() != sha256:
            raise ModelUnavailable(
                f"{self.files[0]}: its SHA-256 is {digest.hexdigest()}, not {sha256}: copy or download it again, or"
                " give the checksum of the weights that you mean"
            )

    def _read_into(self, digest: "hashlib._Hash | hashlib.blake2b") -> None:
        for path in self.files:
            with path.open("rb") as stream:
                while block := stream.read(_CHUNK):
                    digest.update(block)


def is_hub_id(model: str) -> bool:
    """Whether `model` names a model of the hub: it looks like owner/name and nothing lies at that path."""
    return _HUB_ID.fullmatch(model) is not None and not Path(model).exists()


def locate(model: str, revision: str | None, wanted: Sequence[str]) -> tuple[Path, str]:
    """The folder that holds `model`, and its commit ("" for a path). `wanted`: file patterns to fetch from the hub.

    Raises:
        ModelUnavailable: no such path, or the hub does not give it: gated, unknown, no such revision, not reachable.
    """
    if is_hub_id(model):
        return _from_hub(model, revision, wanted)
    path = Path(model).expanduser()
    if not path.exists():
        raise ModelUnavailable(
            f"model {model!r}: no such folder, and not a hub id of the form owner/name either. "
            f"Give the folder that holds config.json and model.safetensors. {LICENCE}"
        )
    return path, ""


def _from_hub(model: str, revision: str | None, wanted: Sequence[str]) -> tuple[Path, str]:
    """The hub's snapshot in the local cache, downloaded if need be; the library reads the token from HF_TOKEN."""
    try:
        from huggingface_hub import errors, snapshot_download
    except ImportError as error:
        raise ModelUnavailable(f"model {model!r} is on the hub: pip install huggingface_hub, or give a path") from error
    at = f"model {model!r}" + (f" at revision {revision!r}" if revision else "")
    try:
        folder = Path(snapshot_download(model, revision=revision, allow_patterns=list(wanted)))
    except errors.GatedRepoError as error:
        raise ModelUnavailable(
            f"{at} is gated and the hub refused ({_status(error)}): ask for access on its page, then set HF_TOKEN "
            f"to a token of that account that may read gated models; or give a folder as model. {LICENCE}"
        ) from error
    except errors.RevisionNotFoundError as error:
        raise ModelUnavailable(f"{at}: the hub has no such revision. Give a commit, tag or branch of it") from error
    except errors.RepositoryNotFoundError as error:
        raise ModelUnavailable(
            f"{at}: the hub does not know it, or not with this token ({_status(error)}). Check the spelling; "
            f"a private model needs HF_TOKEN. {LICENCE}"
        ) from error
    except (errors.LocalEntryNotFoundError, errors.OfflineModeIsEnabled) as error:
        raise ModelUnavailable(
            f"{at} is not on this machine and the hub cannot be reached (offline, HF_HUB_OFFLINE, or a proxy): "
            "download it where there is a network, or give the folder that holds it as model"
        ) from error
    except (errors.HfHubHTTPError, errors.HFValidationError, OSError) as error:
        raise ModelUnavailable(f"{at} could not be fetched from the hub: {error}") from error
    # The cache keeps each snapshot in a folder named by its commit.
    return folder, folder.name


def _status(error: Exception) -> str:
    response = getattr(error, "response", None)
    return f"HTTP {response.status_code}" if response is not None else type(error).__name__


def sam3_checkpoint(model: str, revision: str | None) -> Weights:
    """A checkpoint in the layout of facebook/sam3, found and its files checked for being whole.

    Raises:
        ModelUnavailable: see `locate`; or a file is missing, cut short, or not what its name says.
    """
    folder, commit = locate(model, revision, ("*.json", "*.txt", "*.safetensors", "*.model"))
    _check_config(folder)
    files = weight_files(folder, SAM3_FILE)
    for path in files:
        _check_safetensors(path)
    return Weights(folder, files, model, commit)


def meta_checkpoint(model: str, revision: str | None) -> Weights:
    """Meta's `sam3.pt`: the file itself, or the folder or hub model that has it.

    Raises:
        ModelUnavailable: see `locate`; or the file is missing.
    """
    path, commit = locate(model, revision, (META_FILE,))
    files = weight_files(path, META_FILE)
    return Weights(files[0].parent, files, model, commit)


def _check_config(folder: Path) -> None:
    """`config.json` must describe SAM 3 with detector and tracker (model_type sam3_video, as facebook/sam3 has)."""
    path = folder / "config.json"
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
        kind = config.get("model_type")
    except FileNotFoundError:
        raise ModelUnavailable(f"{path} is missing: is {folder} the folder of a checkpoint? {LICENCE}") from None
    except (OSError, ValueError, AttributeError) as error:
        raise ModelUnavailable(f"{path} cannot be read as JSON ({error}): copy it again") from error
    if kind != "sam3_video":
        raise ModelUnavailable(
            f"{path}: model_type is {kind!r}, expected 'sam3_video', the layout of facebook/sam3 "
            "(detector and tracker in one folder)"
        )


def weight_files(path: Path, name: str) -> tuple[Path, ...]:
    """The files that hold the weights at `path`, which is a folder or the file itself: the one called `name`, or the
    shards that its index lists.

    Raises:
        ModelUnavailable: one is missing, or the index cannot be read.
    """
    is_file = path.is_file() or (path.suffix == PurePath(name).suffix and not path.is_dir())
    single = path if is_file else path / name
    if single.is_file():
        return (single,)
    folder, index = single.parent, single.with_name(f"{single.name}.index.json")
    if not index.is_file():
        raise ModelUnavailable(f"{single} is missing: copy it there, or give another path as model. {LICENCE}")
    try:
        names = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
    except (OSError, ValueError, KeyError, AttributeError) as error:
        raise ModelUnavailable(f"{index} cannot be read ({error}): copy it again") from error
    files = tuple(folder / name for name in names)
    missing = [path.name for path in files if not path.is_file()]
    if missing:
        raise ModelUnavailable(f"{folder}: {', '.join(missing)} missing, which {index.name} lists: copy the files")
    return files


def _check_safetensors(path: Path) -> None:
    """The header must be readable and the file as long as it says; a cut download fails here, not in the GPU."""
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError as error:
        raise ModelUnavailable('safetensors is not installed: pip install "samjobs[sam3]"') from error
    try:
        with safe_open(path, framework="numpy"):
            pass
    except (SafetensorError, OSError) as error:
        size = path.stat().st_size
        raise ModelUnavailable(
            f"{path} ({size:,} bytes) is corrupt or cut short ({error}): copy or download it again"
        ) from error
