"""Which engines there are, what each needs and what it is: data, read without importing any of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from types import MappingProxyType

from samjobs.segmentation.engines.weights import META_FILE, SAM3_FILE


@dataclass(frozen=True)
class EngineKind:
    """One engine, before it is loaded."""

    name: str  # as in JobSpec.engine
    module: str  # has `load()`; of an engine with weights `load(model=, revision=, sha256=, device=, batch=)`
    extra: str | None  # of the samjobs package; None: part of the base installation
    needs: Mapping[str, str]  # importable module → the distribution that has it
    about: str
    licence: str
    default_model: str | None = None  # hub id; None: it has no weights
    weight_file: str = ""  # the file that holds them

    def missing(self) -> tuple[str, ...]:
        """The distributions that are not installed."""
        return tuple(sorted({package for module, package in self.needs.items() if find_spec(module) is None}))

    @property
    def remedy(self) -> str:
        """The command that installs what is missing."""
        if self.extra is None:
            return "pip install samjobs"
        return f'`make {self.extra}` in a checkout, or pip install "samjobs[{self.extra}]"'


_TORCH = {"torch": "torch", "torchvision": "torchvision"}
_SAM3 = "facebook/sam3"  # has the files of both

ENGINES: Mapping[str, EngineKind] = MappingProxyType(
    {
        kind.name: kind
        for kind in (
            EngineKind(
                name="sam3",
                module="samjobs.segmentation.engines.sam3",
                extra="sam3",
                needs={**_TORCH, "transformers": "transformers"},
                about="SAM 3 by transformers, on a GPU or the CPU",
                licence="code Apache-2.0; the weights are Meta's, under the SAM License, and come from you",
                default_model=_SAM3,
                weight_file=SAM3_FILE,
            ),
            EngineKind(
                name="sam3-meta",
                module="samjobs.segmentation.engines.sam3_meta",
                extra="meta",
                needs={
                    **_TORCH,
                    "sam3": "sam3",
                    "decord": "decord",
                    "einops": "einops",
                    "open_clip": "open-clip-torch",
                    "pkg_resources": "setuptools",
                    "psutil": "psutil",
                },
                about="SAM 3 by Meta's own package and sam3.pt, on an NVIDIA GPU only",
                licence="code and weights are Meta's, under the SAM License; the weights come from you",
                default_model=_SAM3,
                weight_file=META_FILE,
            ),
            EngineKind(
                name="opencv",
                module="samjobs.segmentation.engines.opencv",
                extra=None,
                needs={"cv2": "opencv-python-headless"},
                about="no model: colour names, GrabCut and flood fill, for demos and load tests",
                licence="Apache-2.0, no weights",
            ),
        )
    }
)
