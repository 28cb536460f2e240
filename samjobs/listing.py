"""Which images does a job have? Its prefix, list or manifest, each image with the prompts that are its own."""

from collections import Counter
from collections.abc import Iterable

from samjobs.errors import InvalidInput
from samjobs.inputs import NewImage, check_classes, check_stems, expand
from samjobs.prompt_files import pair, read_boxes, read_points
from samjobs.spec import Format, JobSpec
from samjobs.storage import Storage, redact


def images_of(spec: JobSpec, storage: Storage, ignored: Counter[str]) -> Iterable[NewImage]:
    """The images that `spec` asks for, in input order, one after another.

    Args:
        ignored: is told what was passed over, by reason.

    Raises:
        InvalidInput: a line of a manifest or of a prompt file is wrong; while iterating.
        ObjectMissing, AccessDenied, StorageUnavailable: the input cannot be listed; while iterating.
    """
    found: Iterable[NewImage] = expand(spec.images, spec.mode, storage, exclude=spec.output.uri, ignored=ignored)
    if spec.images.prompts_file is not None:
        read = read_boxes if spec.images.boxes is not None else read_points
        own = {
            image: prompts.model_copy(update={"text": spec.prompts.text})
            for image, prompts in read(spec.images.prompts_file, storage).items()
        }
        paired = pair(found, own)
        if paired.left_out:
            ignored["without an entry in the file"] = paired.left_out
        found = paired.images
    found = (_with_prompts(image, spec) for image in found)
    return check_classes(check_stems(found), spec) if Format.YOLO_SEG in spec.output.formats else found


def _with_prompts(image: NewImage, spec: JobSpec) -> NewImage:
    """The image, when it has something to be asked: only a manifest's line can lack it."""
    if image.prompts is None and spec.prompts.empty:
        raise InvalidInput(f"{redact(image.uri)} has no prompts in the manifest, and the job has none for all images")
    return image


def nothing_found(spec: JobSpec, ignored: Counter[str]) -> InvalidInput:
    """What to say of a job without images."""
    place = spec.images.prefix or spec.images.manifest or "images.list"
    why = f" (passed over: {in_words(ignored)})" if ignored else ""
    return InvalidInput(f"no images in {redact(place)}{why}")


def in_words(ignored: Counter[str]) -> str:
    """What was passed over.

    >>> in_words(Counter({"hidden": 2, "not an image": 1}))
    '2 hidden, 1 not an image'
    """
    return ", ".join(f"{count} {reason}" for reason, count in sorted(ignored.items()))
