"""Specs that are taken and specs that are refused: one table, judged by pydantic and by an API server.

A pair has a good spec and a bad one that differs in what one rule is about. `message` is the rule's own, word by word,
as the API server tells it of `field`; `words` is the part of it that pydantic says, too.
"""

from dataclasses import dataclass
from typing import Any

from controller.kube.jobrules import MOST_PROMPTS
from controller.kube.rules import MOST_ADDRESSES, MOST_CLASSES

Spec = dict[str, Any]


def job(**given: Any) -> Spec:
    """A SamJob's spec that is taken, but for what is given; None leaves a field out."""
    base = {
        "images": {"prefix": "s3://photos/2026/"},
        "prompts": {"text": [{"text": "red car"}]},
        "output": {"uri": "s3://results/2026/"},
    }
    return {name: value for name, value in (base | given).items() if value is not None}


def pool(**given: Any) -> Spec:
    """A SamWorkerPool's spec."""
    return given


@dataclass(frozen=True)
class Pair:
    """What one rule takes, and what it refuses."""

    field: str
    message: str
    bad: Spec
    good: Spec
    words: str | None = None  # left out: the message; "": pydantic lets it through, for the reason that stands there


def box(x0: float = 0, y0: float = 0, x1: float = 9, y1: float = 9, **more: Any) -> Spec:
    return {"xyxy": [x0, y0, x1, y1], **more}


def listed(*images: Any) -> Spec:
    """images.list of addresses, or of (address, prompts)."""
    items = [one if isinstance(one, tuple) else (one, None) for one in images]
    return {"list": [{"image": image} | ({"prompts": own} if own is not None else {}) for image, own in items]}


ONE = listed("/photos/a.jpg")
CAR = {"text": [{"text": "red car"}]}
BOX = {"boxes": [box()]}
NEGATIVE = {"boxes": [box(positive=False)]}
CLICK = {"points": [{"clicks": [{"x": 3, "y": 4}]}]}
BESIDE = {"points": [{"clicks": [{"x": 3, "y": 4, "positive": False}]}]}
SECRET = "s3://ada:secret@bucket/x"

USER = "the address holds a user and a password: leave them out, and set them where the work is done"
NUL = "the address holds a NUL character: leave it out"
PLACE = (
    "no absolute path, and no URL of a known scheme: give a path that all machines share, or one of abfs, az, file, "
    "gs, http, https, memory, s3"
)
CONTROL = "the URL holds control characters: percent-encode them"
READ_ONLY = "http and https can only be read: give a folder, or a URL of s3://, gs://, az:// or abfs://"
SPACES = "nothing but spaces: give a phrase"
BREAKS = "leave out line breaks and other control characters"
FILES = "boxes and points files go with a prefix; lists and manifests bring their own prompts"
ALL_NEGATIVE = "prompts.boxes are all negative: add text or a positive exemplar box"
ONLY_FIND_ALL = "prompts.boxes: a negative box only means something in find_all; leave out positive: false"
ONE_IMAGE = "prompts.boxes and prompts.points belong to one image: give them per image in images.list or a manifest"


def _places() -> list[Pair]:
    pairs = []
    for name in ("prefix", "manifest"):
        for bad, message, words in (
            (SECRET, USER, None),
            ("s3://photos/\x00", NUL, None),
            ("photos/2026", PLACE, "is a relative path"),
            ("ftp://photos/2026", PLACE, "scheme ftp is not known"),
            ("https://example.org/a\nb", CONTROL, "control characters"),
        ):
            good = job(images={name: "/photos/2026"})
            pairs.append(Pair(f"spec.images.{name}", message, job(images={name: bad}), good, words))
    for name, mode in (("boxes", "inside_box"), ("points", "point")):
        prefix = {"prefix": "/photos"}
        bad = job(images=prefix | {name: f"{name}.csv"}, mode=mode, prompts=None)
        good = job(images=prefix | {name: f"/photos/{name}.csv"}, mode=mode, prompts=None)
        pairs.append(Pair(f"spec.images.{name}", PLACE, bad, good, "is a relative path"))
    bad = job(images=listed("/photos/a.jpg", "b.jpg"))
    good = job(images=listed("/photos/a.jpg", "HTTPS://example.org/b.jpg"))
    pairs.append(Pair("spec.images.list[1].image", PLACE, bad, good, "is a relative path"))
    for bad_uri, message, words in (
        ("https://example.org/out", READ_ONLY, "http and https can only be read"),
        ("out", PLACE, "is a relative path"),
        (SECRET, USER, None),
    ):
        bad, good = job(output={"uri": bad_uri}), job(output={"uri": "file:///results"})
        pairs.append(Pair("spec.output.uri", message, bad, good, words))
    pairs.append(Pair("spec.model", USER, job(model=SECRET), job(model="facebook/sam3")))
    pairs.append(Pair("spec.model", NUL, job(model="a\x00b"), job(model="/models/sam3")))
    return pairs


def _phrases() -> list[Pair]:
    def labelled(kind: str, label: str) -> Spec:
        if kind == "text":
            return job(prompts={"text": [{"text": "car", "label": label}]})
        if kind == "boxes":
            return job(images=ONE, prompts={"boxes": [box(label=label)]})
        return job(images=ONE, mode="point", prompts={"points": [{**CLICK["points"][0], "label": label}]})

    pairs = []
    for bad, message, words in (
        ("red\ncar", BREAKS, None),
        ("red\u2028car", BREAKS, None),
        ("red\x85car", BREAKS, None),
        ("   ", SPACES, "at least 1 character"),
    ):
        pairs.append(
            Pair(
                "spec.prompts.text[0].text",
                message,
                job(prompts={"text": [{"text": bad}]}),
                job(prompts={"text": [{"text": " rotes Auto, größer "}]}),
                words,
            )
        )
    for kind in ("text", "boxes", "points"):
        field = f"spec.prompts.{kind}[0].label"
        pairs.append(Pair(field, BREAKS, labelled(kind, "a\tb"), labelled(kind, "a b")))
    output = {"uri": "/out", "formats": ["yolo-seg"]}
    good = job(output=output | {"classes": ["car", "bus"]})
    pairs.append(Pair("spec.output.classes[1]", BREAKS, job(output=output | {"classes": ["car", "b\rus"]}), good))
    return pairs


def _modes() -> list[Pair]:
    pairs = []
    unfit = (
        ("find_all", "points", CLICK, CAR, "text and/or exemplar boxes"),
        ("inside_box", "text", CAR, BOX, "boxes"),
        ("inside_box", "points", CLICK, BOX, "boxes"),
        ("point", "text", CAR, CLICK, "points"),
        ("point", "boxes", BOX, CLICK, "points"),
    )
    for mode, field, bad, good, needs in unfit:
        message = f"prompts.{field} does not go with mode {mode}, which needs {needs}"
        pairs.append(
            Pair(
                "spec.prompts",
                message,
                job(mode=mode, images=ONE, prompts=bad),
                job(mode=mode, images=ONE, prompts=good),
            )
        )
        images = [listed(("/a.jpg", good), ("/b.jpg", own)) for own in (bad, good)]
        bad_own, good_own = (job(mode=mode, images=one, prompts=None) for one in images)
        pairs.append(Pair("spec.images.list", message, bad_own, good_own))
    for mode, needs, good in (
        ("find_all", "text and/or exemplar boxes", job()),
        ("inside_box", "boxes", job(mode="inside_box", images={"manifest": "/m.jsonl"}, prompts=None)),
        ("point", "points", job(mode="point", images=listed(("/a.jpg", CLICK)), prompts=None)),
    ):
        message = f"prompts is empty: mode {mode} needs {needs}"
        pairs.append(Pair("spec", message, job(mode=mode, prompts=None), good))
        without = listed("/a.jpg", ("/b.jpg", CLICK if mode == "point" else BOX))
        pairs.append(Pair("spec", message, job(mode=mode, images=without, prompts={}), good))
    for field, message, good in (
        ("spec.prompts", ONLY_FIND_ALL, BOX),
        ("spec.images.list", ONLY_FIND_ALL, BOX),
    ):
        own = field == "spec.images.list"
        bad_spec, good_spec = (
            job(mode="inside_box", images=listed(("/a.jpg", one)), prompts=None)
            if own
            else job(mode="inside_box", images=ONE, prompts=one)
            for one in (NEGATIVE, good)
        )
        pairs.append(Pair(field, message, bad_spec, good_spec))
    with_text = NEGATIVE | CAR
    pairs.append(
        Pair("spec.prompts", ALL_NEGATIVE, job(images=ONE, prompts=NEGATIVE), job(images=ONE, prompts=with_text))
    )
    images = [listed(("/a.jpg", own)) for own in (NEGATIVE, with_text)]
    bad_own, good_own = (job(images=one, prompts=None) for one in images)
    pairs.append(Pair("spec.images.list", ALL_NEGATIVE, bad_own, good_own))
    return pairs


def _images() -> list[Pair]:
    both = {"prefix": "/photos", "boxes": "/b.csv", "points": "/p.csv"}
    boxes = {"prefix": "/photos", "boxes": "/b.csv"}
    points = {"prefix": "/photos", "points": "/p.csv"}
    good_boxes = job(mode="inside_box", images=boxes, prompts=None)
    good_points = job(mode="point", images=points, prompts=None)
    one_needed = "exactly one of prefix, list, manifest is needed"
    per_image = job(mode="inside_box", images=listed(("/a.jpg", BOX), ("/b.jpg", BOX)), prompts=None)
    return [
        Pair("spec.images", one_needed, job(images={}), job(images={"manifest": "/m.jsonl"})),
        Pair("spec.images", one_needed, job(images={"prefix": "/a", "manifest": "/b"}), job(images={"prefix": "/a"})),
        Pair("spec.images", one_needed, job(images=ONE | {"prefix": "/a"}), job(images=ONE)),
        Pair("spec.images", FILES, job(images=ONE | {"boxes": "/b.csv"}, mode="inside_box", prompts=BOX), good_boxes),
        Pair(
            "spec.images",
            "boxes and points are for different modes: give one of them",
            job(mode="point", images=both, prompts=None),
            good_points,
        ),
        Pair(
            "spec.images",
            "images.boxes does not go with mode point, which needs points",
            job(mode="point", images=boxes, prompts=None),
            good_boxes,
        ),
        Pair(
            "spec.images",
            "images.points does not go with mode find_all, which needs text and/or exemplar boxes",
            job(images=points),
            good_points,
        ),
        Pair(
            "spec.images",
            "images.points does not go with mode inside_box, which needs boxes",
            job(mode="inside_box", images=points, prompts=None),
            good_points,
        ),
        Pair("spec.prompts", ONE_IMAGE, job(mode="inside_box", prompts=BOX), per_image),
        Pair(
            "spec.prompts", ONE_IMAGE, job(images=listed("/a.jpg", "/b.jpg"), prompts=BOX), job(images=ONE, prompts=BOX)
        ),
        Pair("spec.prompts", ONE_IMAGE, job(mode="point", images={"manifest": "/m"}, prompts=CLICK), good_points),
        Pair(
            "spec.images.list[0].prompts",
            "empty: leave prompts out to use the job's",
            job(images=listed(("/a.jpg", {}))),
            job(images=ONE),
            "",  # said when the images are listed, since a manifest's line may be so, too
        ),
        Pair(
            "spec.images.list[1]",
            'Duplicate value: {"image":"/a.jpg"}',
            job(images=listed("/a.jpg", "/a.jpg")),
            job(images=listed("/a.jpg", "/b.jpg")),
            "",  # said when the images are listed, as of a manifest
        ),
    ]


def _values() -> list[Pair]:
    area = "no area: give x0 < x1 and y0 < y1"
    with_box = [
        job(images=ONE, prompts={"boxes": [one]}) for one in (box(9, 0, 0, 9), box(0, 9, 9, 9), box(0.5, 0, 1, 9))
    ]
    twice = [job(prompts={"text": [{"text": "red car"}, {"text": one}]}) for one in (" Red Car", "red cars")]
    callback = "the callback is not https: results would be told in the clear"
    return [
        Pair("spec.prompts.boxes[0].xyxy", area, with_box[0], with_box[2], "has no area: give x0 < x1 and y0 < y1"),
        Pair("spec.prompts.boxes[0].xyxy", area, with_box[1], with_box[2], "has no area: give x0 < x1 and y0 < y1"),
        Pair(
            "spec.prompts",
            "a phrase is asked twice: every object would be found twice",
            *twice,
            "is asked twice: every object would be found twice",
        ),
        Pair(
            "spec.prompts.points[0].clicks",
            "clicks has no positive click: add one that lies on the object",
            job(mode="point", images=ONE, prompts=BESIDE),
            job(mode="point", images=ONE, prompts=CLICK),
        ),
        Pair(
            "spec.thresholds.maxArea",
            "maxArea is below minArea",
            job(thresholds={"minArea": 10, "maxArea": 5}),
            job(thresholds={"minArea": 5, "maxArea": 5}),
            "maxArea 5 is below minArea 10",
        ),
        Pair(
            "spec.callback", callback, job(callback="http://example.org/done"), job(callback="https://example.org/done")
        ),
        Pair(
            "spec.callback", callback, job(callback="done"), job(callback="HTTPS://example.org:8443/d?x=1"), "callback"
        ),
    ]


def _sizes() -> list[Pair]:
    """An object is small; a job from a file may be larger, so pydantic lets these through."""
    long = "/" + "a" * 1000
    images = [listed(*(f"{long}{number}.jpg" for number in range(count))) for count in (9, 8)]
    phrases = [{"text": f"phrase {number}"} for number in range(50)]
    prompts = [listed(*((f"/{number}.jpg", {"text": phrases}) for number in range(count))) for count in (3, 2)]
    clicks = [{"clicks": [{"x": 1, "y": 1}] * 32}] * 5
    points = [job(mode="point", images=ONE, prompts={"points": one}) for one in (clicks, clicks[:4])]
    prompts_message = f"more than {MOST_PROMPTS} phrases, boxes and clicks in all: put them into a manifest"
    return [
        Pair(
            "spec.images.list",
            f"the addresses are longer than {MOST_ADDRESSES} characters in all: put them into a manifest",
            job(images=images[0]),
            job(images=images[1]),
            "",
        ),
        Pair("spec", prompts_message, *(job(images=one, prompts=None) for one in prompts), ""),
        Pair("spec", prompts_message, *points, ""),
        Pair(
            "spec.output.classes",
            f"Too many: {MOST_CLASSES + 1}: must have at most {MOST_CLASSES} items",
            job(output={"uri": "/out", "classes": [f"class {number}" for number in range(MOST_CLASSES + 1)]}),
            job(output={"uri": "/out", "classes": [f"class {number}" for number in range(MOST_CLASSES)]}),
            "",
        ),
    ]


JOB_PAIRS = [*_places(), *_phrases(), *_modes(), *_images(), *_values(), *_sizes()]

STEPS = "steps are not in rising order: give shards that rise and replicas that do not fall"


def steps(*rows: tuple[int, int]) -> Spec:
    made = [{"shards": shards, "replicas": replicas} for shards, replicas in rows]
    return pool(scaling={"policy": "steps", "maxReplicas": 9, "steps": made})


SOURCE = "one of claim, hub, path is enough"
EITHER = "give either value or secret"
KEY = {"name": "hub", "key": "token"}

POOL_PAIRS = [
    Pair(
        "spec.scaling.minReplicas",
        "minReplicas is above maxReplicas",
        pool(scaling={"minReplicas": 2}),
        pool(scaling={"minReplicas": 2, "maxReplicas": 2}),
        "minReplicas 2 is above maxReplicas 1",
    ),
    Pair("spec.scaling.steps", STEPS, steps((10, 1), (10, 2)), steps((10, 1), (11, 1))),
    Pair("spec.scaling.steps", STEPS, steps((10, 1), (5, 2)), steps((5, 1), (10, 2))),
    Pair("spec.scaling.steps", STEPS, steps((10, 2), (20, 1)), steps((10, 2), (20, 3))),
    Pair(
        "spec.model",
        SOURCE,
        pool(model={"path": "/models/sam3", "hub": {"id": "facebook/sam3"}}),
        pool(model={"hub": {"id": "facebook/sam3", "tokenSecret": KEY}}),
    ),
    Pair(
        "spec.model",
        SOURCE,
        pool(model={"claim": {"name": "weights"}, "path": "/models"}),
        pool(model={"claim": {"name": "weights", "path": "sam3"}}),
    ),
    Pair("spec.env[0]", EITHER, pool(env=[{"name": "A"}]), pool(env=[{"name": "A", "value": ""}])),
    Pair(
        "spec.env[0]",
        EITHER,
        pool(env=[{"name": "A", "value": "1", "secret": KEY}]),
        pool(env=[{"name": "A", "secret": KEY}]),
    ),
    Pair(
        "spec.env[1]",
        'Duplicate value: {"name":"A"}',
        pool(env=[{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]),
        pool(env=[{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]),
        "A is set twice: leave one of them out",
    ),
]

# What bounds, types and patterns refuse: field and spec.
JOB_REFUSED = [
    ("spec.mode", job(mode="find_some")),
    ("spec.engine", job(engine="sam4")),
    ("spec.images", {"prompts": CAR, "output": {"uri": "/out"}}),
    ("spec.output", {"prompts": CAR, "images": {"prefix": "/a"}}),
    ("spec.output.uri", job(output={})),
    ("spec.output.uri", job(output={"uri": ""})),
    ("spec.output.uri", job(output={"uri": "/" + "a" * 4096})),
    ("spec.output.formats[0]", job(output={"uri": "/out", "formats": ["gif"]})),
    ("spec.images.list", job(images={"list": []})),
    ("spec.images.list", job(images=listed(*(f"/{number}.jpg" for number in range(101))))),
    ("spec.images.list[0].image", job(images={"list": [{}]})),
    ("spec.prompts.text", job(prompts={"text": [{"text": str(number)} for number in range(65)]})),
    ("spec.prompts.text[0].text", job(prompts={"text": [{"text": "a" * 201}]})),
    ("spec.prompts.text[0].scoreThreshold", job(prompts={"text": [{"text": "car", "scoreThreshold": 1.1}]})),
    ("spec.prompts.boxes[0].xyxy", job(images=ONE, prompts={"boxes": [{"xyxy": [0, 0, 9]}]})),
    ("spec.prompts.boxes[0].xyxy", job(images=ONE, prompts={"boxes": [{"xyxy": [0, 0, 9, 9, 9]}]})),
    ("spec.prompts.points[0].clicks", job(images=ONE, mode="point", prompts={"points": [{"clicks": []}]})),
    ("spec.prompts.points[0].clicks[0].y", job(images=ONE, mode="point", prompts={"points": [{"clicks": [{"x": 1}]}]})),
    ("spec.thresholds.score", job(thresholds={"score": -0.1})),
    ("spec.thresholds.mask", job(thresholds={"mask": 0})),
    ("spec.thresholds.mask", job(thresholds={"mask": 1})),
    ("spec.thresholds.minArea", job(thresholds={"minArea": -1})),
    ("spec.thresholds.maxArea", job(thresholds={"maxArea": 0})),
    ("spec.thresholds.maxInstances", job(thresholds={"maxInstances": 10_001})),
    ("spec.revision", job(revision="a b")),
    ("spec.region", job(region="-eu")),
    ("spec.region", job(region="eu west")),
    ("spec.priority", job(priority=1001)),
    ("spec.priority", job(priority=-1001)),
    ("spec.shardSize", job(shardSize=0)),
    ("spec.parallelism", job(parallelism=0)),
    ("spec.retryPolicy.maxAttempts", job(retryPolicy={"maxAttempts": 0})),
    ("spec.retryPolicy.backoff", job(retryPolicy={"backoff": "linear"})),
    ("spec.failurePolicy.maxFailedImages", job(failurePolicy={"maxFailedImages": -1})),
    ("spec.notBefore", job(notBefore="2027-01-01T00:00:00")),
    ("spec.notBefore", job(notBefore="tomorrow")),
    ("spec.activeDeadlineSeconds", job(activeDeadlineSeconds=0)),
    ("spec.activeDeadlineSeconds", job(activeDeadlineSeconds=10**12)),
    ("spec.ttlSecondsAfterFinished", job(ttlSecondsAfterFinished=-1)),
    ("spec.ttlSecondsAfterFinished", job(ttlSecondsAfterFinished=10**12)),
]

POOL_REFUSED = [
    ("spec.engine", pool(engine="sam4")),
    ("spec.region", pool(region="a/b")),
    ("spec.replicas", pool(replicas=-1)),
    ("spec.replicas", pool(replicas=1001)),
    ("spec.scaling.maxReplicas", pool(scaling={"maxReplicas": 0})),
    ("spec.scaling.policy", pool(scaling={"policy": "guess"})),
    ("spec.scaling.steps", pool(scaling={"steps": []})),
    ("spec.scaling.targetSeconds", pool(scaling={"targetSeconds": 0})),
    ("spec.model.sha256", pool(model={"sha256": "abc"})),
    ("spec.model.path", pool(model={"path": "models"})),
    ("spec.model.claim.name", pool(model={"claim": {}})),
    ("spec.model.claim.name", pool(model={"claim": {"name": "Weights"}})),
    ("spec.model.claim.path", pool(model={"claim": {"name": "weights", "path": "../other"}})),
    ("spec.resources.limits.memory", pool(resources={"limits": {"memory": "lots"}})),
    ("spec.resources.limits.memory", pool(resources={"limits": {"memory": True}})),
    ("spec.env[0].name", pool(env=[{"name": "1A", "value": "x"}])),
    ("spec.tolerations[0].operator", pool(tolerations=[{"operator": "Like"}])),
    ("spec.volumes[0].mountPath", pool(volumes=[{"claim": "data", "mountPath": "data"}])),
    ("spec.cache.sizeLimit", pool(cache={"sizeLimit": "-1Gi"})),
    ("spec.imagePullSecrets[0]", pool(imagePullSecrets=["Reg"])),
    ("spec.terminationGracePeriodSeconds", pool(terminationGracePeriodSeconds=1)),
]

FULL_JOB = job(
    images=listed(
        "/photos/a.jpg", ("s3://photos/b.jpg", {"text": [{"text": "dog"}], "boxes": [box(), box(positive=False)]})
    ),
    prompts={"text": [{"text": "red car", "label": "car", "scoreThreshold": 0.3}, {"text": "bus"}]},
    thresholds={
        "score": 0.4,
        "mask": 0.6,
        "nmsIou": 0.7,
        "nmsAcrossPrompts": True,
        "minArea": 1,
        "maxArea": 9,
        "maxInstances": 3,
    },
    output={"uri": "gs://results/x", "formats": ["overlay", "label-png"], "classes": ["car", "bus"]},
    engine="opencv",
    model="facebook/sam3",
    revision="refs/pr/1",
    region="eu-west.1_a",
    priority=-7,
    shardSize=8,
    parallelism=4,
    retryPolicy={"maxAttempts": 5, "backoff": "quadratic"},
    failurePolicy={"maxFailedImages": 0},
    suspend=True,
    notBefore="2027-01-01T00:00:00.5+01:00",
    activeDeadlineSeconds=3600,
    ttlSecondsAfterFinished=0,
    callback="https://example.org/done",
    resume=False,
)

FULL_POOL = pool(
    region="eu-west",
    engine="sam3-meta",
    model={"hub": {"id": "facebook/sam3", "revision": "abc", "tokenSecret": KEY}, "sha256": "0" * 64},
    replicas=2,
    scaling={"mode": "external", "minReplicas": 1, "maxReplicas": 8, "targetSeconds": 60, "upCooldownSeconds": 0},
    resources={"requests": {"cpu": 2, "memory": "1.5Gi"}, "limits": {"nvidia.com/gpu": 1, "cpu": "500m"}},
    image="registry.example.com/worker@sha256:" + "0" * 64,
    imagePullSecrets=["registry"],
    nodeSelector={"gpu": "h100"},
    tolerations=[{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}, {"operator": "Exists"}],
    affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}},
    priorityClassName="batch",
    runtimeClassName="nvidia",
    env=[{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}, {"name": "TOKEN", "secret": KEY}],
    volumes=[{"claim": "photos", "mountPath": "/photos", "readOnly": False}],
    cache={"claim": "hub-cache"},
    podLabels={"team": "vision"},
    podAnnotations={"note": "a\nb"},
    terminationGracePeriodSeconds=600,
)

JOB_TAKEN = [job(), FULL_JOB, *(pair.good for pair in JOB_PAIRS)]
POOL_TAKEN = [pool(), FULL_POOL, *(pair.good for pair in POOL_PAIRS)]
