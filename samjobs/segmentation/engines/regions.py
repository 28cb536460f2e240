"""Regions of an image by classical means: connected components, GrabCut in a box, growth from a click.

Each gives (score, Crop) pairs, in pixels of the image that it was given. Scores are 0…1; what they mean stands with
each function. Everything is deterministic: OpenCV's random numbers are seeded before each use.
"""

import cv2
import numpy as np
import numpy.typing as npt

from samjobs.segmentation.engines import colours
from samjobs.segmentation.engines.base import Crop, Float32, UInt8Image

CORE_FIT = 0.75
CORE_SHARE = 0.2  # of a component that must fit as well as that
LEAST_SHARE = 0.002  # of the image's area that a component must have: smaller ones are specks
LEAST_PIXELS = 12
GRABCUT_SIDE = 448  # longer crops are shrunk to this: GrabCut's time grows with the area
GRABCUT_ROUNDS = 5
GRABCUT_MARGIN = 0.4  # of the box, on each side, from which the background is learnt
LARGEST_SHARE = 0.6  # of the image that a clicked region may cover
_TOLERANCES = np.arange(4.0, 34.0, 1.5)  # Lab distances at which a clicked region is tried

Mask = npt.NDArray[np.bool_]
Found = list[tuple[float, Crop]]
Box = tuple[int, int, int, int]


def components(fit: Float32) -> Found:
    """The connected regions (8 neighbours) where `fit` is at least ½ and somewhere well above.

    The region goes out to the edge of the colour, but only from a core that clearly has it: so a shaded object stays
    whole, and a vague tint alone is none. The score is the mean fit inside, ½…1.
    """
    height, width = fit.shape
    fit = _calmed(fit)
    count, labels, stats, _ = cv2.connectedComponentsWithStats(_closed((fit >= 0.5).astype(np.uint8)), connectivity=8)
    core = np.bincount(labels[fit >= CORE_FIT], minlength=count)
    least = max(LEAST_PIXELS, round(LEAST_SHARE * height * width))
    found = []
    for label in range(1, count):
        x, y, w, h, area = (int(value) for value in stats[label])
        if area >= least and core[label] >= CORE_SHARE * area:
            inside = labels[y : y + h, x : x + w] == label
            score = max(0.5, float(fit[y : y + h, x : x + w][inside].mean()))
            found.append((score, Crop(x, y, _filled(inside))))
    return found


def _calmed(fit: Float32) -> Float32:
    """The fit without the texture of leaves, wood and cloth: a median over 1/120 of the long side keeps edges."""
    size = 2 * round(max(fit.shape) / 240) + 1
    if size < 3:
        return fit
    calm = cv2.medianBlur((fit * 255).astype(np.uint8), size)
    return np.asarray(calm / np.float32(255), dtype=np.float32)


def _closed(region: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Small gaps bridged, hairlines cut; on small images nothing is changed."""
    radius = round(max(region.shape) / 400)
    if radius < 1:
        return region
    kernel = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * radius + 1, 2 * radius + 1))
    opened = cv2.morphologyEx(region, cv2.MORPH_OPEN, kernel)
    return np.asarray(cv2.morphologyEx(opened, cv2.MORPH_CLOSE, kernel), dtype=np.uint8)


def _filled(mask: Mask) -> Mask:
    """Without pinholes: those of less than a two-hundredth of the mask's area."""
    count, labels, stats, _ = cv2.connectedComponentsWithStats((~np.pad(mask, 1)).astype(np.uint8), connectivity=4)
    holes = 1 + np.flatnonzero(stats[1:count, cv2.CC_STAT_AREA] < mask.sum() / 200)
    return mask | np.isin(labels, holes)[1:-1, 1:-1]


def in_box(rgb: UInt8Image, box: Box) -> Found:
    """The object in a box by GrabCut; nothing when the box holds no colour that differs from around it.

    The score is the mean probability, by GrabCut's two colour models, that the mask's pixels are not background.
    """
    x0, y0, x1, y1 = box
    height, width = rgb.shape[:2]
    dx, dy = round((x1 - x0) * GRABCUT_MARGIN) + 2, round((y1 - y0) * GRABCUT_MARGIN) + 2
    left, top = max(0, x0 - dx), max(0, y0 - dy)
    crop = rgb[top : min(height, y1 + dy), left : min(width, x1 + dx)]
    scale = min(1.0, GRABCUT_SIDE / max(crop.shape[:2]))
    small = cv2.resize(crop, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA) if scale < 1 else crop
    state = np.full(small.shape[:2], cv2.GC_BGD, np.uint8)
    rows = slice(int((y0 - top) * scale), max(int((y0 - top) * scale) + 1, round((y1 - top) * scale)))
    columns = slice(int((x0 - left) * scale), max(int((x0 - left) * scale) + 1, round((x1 - left) * scale)))
    state[rows, columns] = cv2.GC_PR_FGD
    if (state == cv2.GC_BGD).sum() < LEAST_PIXELS:
        state[[0, -1], :] = state[:, [0, -1]] = cv2.GC_BGD  # the box is the whole image: its rim is the background
    cut = _grabcut(np.ascontiguousarray(small), state)
    if cut is None:
        return []
    mask, score = cut
    if scale < 1:
        mask = cv2.resize(mask.astype(np.float32), crop.shape[1::-1], interpolation=cv2.INTER_LINEAR) >= 0.5
    mask[: y0 - top] = mask[y1 - top :] = mask[:, : x0 - left] = mask[:, x1 - left :] = False
    return _cropped(_largest(mask), score, left, top)


def _grabcut(image: UInt8Image, state: npt.NDArray[np.uint8]) -> tuple[Mask, float] | None:
    """GrabCut's mask, and the mean probability inside it of not being background; None without an object."""
    background, foreground = np.zeros((1, 65)), np.zeros((1, 65))
    cv2.setRNGSeed(1)
    if (state == cv2.GC_PR_FGD).sum() < LEAST_PIXELS:
        return None
    cv2.grabCut(image, state, (0, 0, 1, 1), background, foreground, GRABCUT_ROUNDS, cv2.GC_INIT_WITH_MASK)
    mask = (state == cv2.GC_FGD) | (state == cv2.GC_PR_FGD)
    if not mask.any():
        return None
    pixels = image[mask].astype(np.float64)
    ours, theirs = _likelihood(pixels, foreground[0]), _likelihood(pixels, background[0])
    return mask, float(((ours + 1e-30) / (ours + theirs + 2e-30)).mean())


def _likelihood(pixels: npt.NDArray[np.float64], model: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Density of each pixel (n, 3) under OpenCV's mixture: 5 weights, 5 means, 5 covariances, row by row."""
    weights, means, covariances = model[:5], model[5:20].reshape(5, 3), model[20:].reshape(5, 3, 3)
    total = np.zeros(len(pixels))
    for weight, mean, covariance in zip(weights, means, covariances, strict=True):
        if weight <= 0:
            continue
        covariance = covariance + 0.01 * np.eye(3)
        offset = pixels - mean
        power = np.einsum("ni,ij,nj->n", offset, np.linalg.inv(covariance), offset)
        total += weight * np.exp(-0.5 * power) / np.sqrt(np.linalg.det(covariance))
    return total


def grown_region(lab: Float32, clicks: list[tuple[int, int]], positives: tuple[bool, ...]) -> Found:
    """The regions of like colour under the positive clicks as one object, less what is nearer to a negative click's.

    For each positive click the tolerance is the one at which the region's area changes least (the idea of MSER:
    Matas et al. 2002). The score is the mean fit of the colours inside, ½…1.
    """
    height, width = lab.shape[:2]
    inside = [(min(max(x, 0), width - 1), min(max(y, 0), height - 1)) for x, y in clicks]
    seeds = [(point, colours.distance_to(lab, _colour_at(lab, point))) for point in inside]
    wanted = [seed for seed, yes in zip(seeds, positives, strict=True) if yes]
    unwanted = [distance for (_, distance), yes in zip(seeds, positives, strict=True) if not yes]
    mask, fit = np.zeros((height, width), np.bool_), np.zeros((height, width), np.float32)
    for point, distance in wanted:
        blocked = np.zeros((height, width), np.bool_)
        for other in unwanted:
            blocked |= other < distance
        region, tolerance = _stable_region(np.where(blocked, np.inf, distance).astype(np.float32), point)
        mask |= region
        fit = np.maximum(fit, np.where(region, colours.fit_distance(distance, tolerance), 0))
    if not mask.any():
        return []
    return _cropped(mask, float(fit[mask].mean()), 0, 0)


def _colour_at(lab: Float32, point: tuple[int, int]) -> Float32:
    """Median of the 5 × 5 pixels around a point, so that one odd pixel does not decide."""
    x, y = point
    patch = lab[max(0, y - 2) : y + 3, max(0, x - 2) : x + 3].reshape(-1, 3)
    return np.asarray(np.median(patch, axis=0), dtype=np.float32)


def _stable_region(distance: Float32, point: tuple[int, int]) -> tuple[Mask, float]:
    """The connected region around a point at the tolerance where its area grows least, and that tolerance."""
    x, y = point
    areas: list[int] = []
    regions: list[Mask] = []
    for tolerance in _TOLERANCES:
        near = (distance <= tolerance).astype(np.uint8)
        near[y, x] = 1
        _, labels = cv2.connectedComponents(near, connectivity=4)
        region = labels == labels[y, x]
        area = int(region.sum())
        if regions and area > LARGEST_SHARE * distance.size:
            break
        areas.append(area)
        regions.append(region)
    growth = [
        (areas[min(index + 1, len(areas) - 1)] - areas[max(index - 1, 0)]) / areas[index] for index in range(len(areas))
    ]
    best = min(range(1, len(areas) - 1), key=lambda index: growth[index], default=len(areas) - 1)
    return regions[best], float(_TOLERANCES[best])


def _largest(mask: Mask) -> Mask:
    """The largest connected part, and each other part of at least a tenth of it; holes stay."""
    count, labels, stats, _ = cv2.connectedComponentsWithStats(mask.astype(np.uint8), connectivity=8)
    if count <= 2:
        return mask
    areas = stats[1:, cv2.CC_STAT_AREA]
    kept = 1 + np.flatnonzero(areas >= 0.1 * areas.max())
    return np.isin(labels, kept)


def _cropped(mask: Mask, score: float, left: int, top: int) -> Found:
    if not mask.any():
        return []
    x, y, w, h = cv2.boundingRect(mask.astype(np.uint8))
    return [(score, Crop(left + x, top + y, mask[y : y + h, x : x + w].copy()))]
