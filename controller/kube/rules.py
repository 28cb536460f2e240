"""What do the validators of JobSpec and PoolSpec say in CEL, so that the API server refuses what they refuse?

Each rule says what its pydantic validator says, in the same words where they hold no value; tests/crds judges one table
of specs by both. Rules go by the names of models and of fields as they are written in an object.

An API server estimates what a rule may cost at worst, so each list and text has a bound, and what would compare every
value of a list in a list with every other one is left to pydantic: the operator then tells the object that its spec is
invalid.
"""

from controller.kube.cel import Rule, any_of
from controller.kube.jobrules import MOST_PROMPTS, WHOLE_JOB
from samjobs.storage.paths import OBJECT_SCHEMES, WEB_SCHEMES

# A SamJob stays small: what is longer belongs into a file.
MOST_ADDRESSES = 8192  # characters of all addresses of images.list
MOST_CLASSES = 256

_SCHEMES = sorted(WEB_SCHEMES | OBJECT_SCHEMES | {"file"})
_CONTROL = r"[\p{Cc}\p{Zl}\p{Zp}]"

SECRETLESS = (
    Rule(r"!self.contains('\x00')", "the address holds a NUL character: leave it out"),
    Rule(
        r"!self.matches(r'^[A-Za-z][A-Za-z0-9+.-]*://[^/@]*:[^/@]*@')",
        "the address holds a user and a password: leave them out, and set them where the work is done",
    ),
)
ADDRESS = (
    *SECRETLESS,
    Rule(
        f"self.startsWith('/') || self.matches(r'^(?i)({'|'.join(_SCHEMES)})://')",
        "no absolute path, and no URL of a known scheme: give a path that all machines share, or one of "
        + ", ".join(_SCHEMES),
    ),
    Rule(f"!self.matches(r'(?is)^https?://.*{_CONTROL}')", "the URL holds control characters: percent-encode them"),
)
WRITABLE = (
    *ADDRESS,
    Rule(
        "!self.matches(r'^(?i)https?://')",
        "http and https can only be read: give a folder, or a URL of s3://, gs://, az:// or abfs://",
    ),
)
PHRASE = (
    Rule(r"self.matches(r'\S')", "nothing but spaces: give a phrase"),
    Rule(f"!self.matches(r'{_CONTROL}')", "leave out line breaks and other control characters"),
)
HTTPS = (
    Rule(
        "isURL(self) && url(self).getScheme() == 'https'",
        "the callback is not https: results would be told in the clear",
    ),
)

FIELD_RULES: dict[tuple[str, str], tuple[Rule, ...]] = {
    ("Images", "prefix"): ADDRESS,
    ("Images", "manifest"): ADDRESS,
    ("Images", "boxes"): ADDRESS,
    ("Images", "points"): ADDRESS,
    ("ImageItem", "image"): ADDRESS,
    ("Output", "uri"): WRITABLE,
    ("Output", "classes"): PHRASE,
    ("TextPrompt", "text"): PHRASE,
    ("TextPrompt", "label"): PHRASE,
    ("BoxPrompt", "label"): PHRASE,
    ("ClickPrompt", "label"): PHRASE,
    ("JobSpec", "model"): SECRETLESS,
    ("JobSpec", "callback"): HTTPS,
}


MODEL_RULES: dict[str, tuple[Rule, ...]] = {
    "JobSpec": WHOLE_JOB,
    "Images": (
        Rule(
            "[has(self.prefix), has(self.list), has(self.manifest)].filter(given, given).size() == 1",
            "exactly one of prefix, list, manifest is needed",
        ),
        Rule(
            "has(self.prefix) || !(has(self.boxes) || has(self.points))",
            "boxes and points files go with a prefix; lists and manifests bring their own prompts",
        ),
        Rule(
            "!(has(self.boxes) && has(self.points))",
            "boxes and points are for different modes: give one of them",
        ),
        Rule(
            f"!has(self.list) || self.list.map(i, i.image.size()).sum() <= {MOST_ADDRESSES}",
            f"the addresses are longer than {MOST_ADDRESSES} characters in all: put them into a manifest",
            ".list",
        ),
    ),
    "ImageItem": (
        Rule(
            f"!has(self.prompts) || {any_of('self.prompts')}",
            "empty: leave prompts out to use the job's",
            ".prompts",
        ),
    ),
    "BoxPrompt": (
        Rule(
            "self.xyxy[0] < self.xyxy[2] && self.xyxy[1] < self.xyxy[3]",
            "no area: give x0 < x1 and y0 < y1",
            ".xyxy",
        ),
    ),
    "ClickPrompt": (
        Rule(
            "self.clicks.exists(c, c.positive)",
            "clicks has no positive click: add one that lies on the object",
            ".clicks",
        ),
    ),
    "Thresholds": (Rule("!has(self.maxArea) || self.maxArea >= self.minArea", "maxArea is below minArea", ".maxArea"),),
    "Scaling": (
        Rule("self.minReplicas <= self.maxReplicas", "minReplicas is above maxReplicas", ".minReplicas"),
        Rule(
            "!has(self.steps) || (self.steps.map(s, s.shards).isSorted() && self.steps.map(s, s.replicas).isSorted()"
            " && self.steps.all(s, self.steps.exists_one(t, t.shards == s.shards)))",
            "steps are not in rising order: give shards that rise and replicas that do not fall",
            ".steps",
        ),
    ),
    "ModelSource": (
        Rule(
            "[has(self.claim), has(self.hub), has(self.path)].filter(given, given).size() <= 1",
            "one of claim, hub, path is enough",
        ),
    ),
    "EnvVar": (Rule("has(self.value) != has(self.secret)", "give either value or secret"),),
}

# Lists of which no two values have the same key; others are one value to whoever applies them.
LIST_KEYS: dict[tuple[str, str], str] = {("Images", "list"): "image", ("PoolSpec", "env"): "name"}

# Tighter than what a job from a file or a program may have.
OBJECT_BOUNDS: dict[tuple[str, str], dict[str, int]] = {
    ("Output", "classes"): {"maxItems": MOST_CLASSES},
    ("Prompts", "boxes"): {"maxItems": MOST_PROMPTS},
    ("Prompts", "points"): {"maxItems": MOST_PROMPTS},
}

# Descriptions that differ in an object: it takes no short forms, since a schema has one type per value.
WORDS: dict[tuple[str, str], str] = {
    ("Prompts", "text"): "Phrases, for find_all; each as {text: red car}.",
    ("Prompts", "boxes"): "Objects for inside_box, exemplars for find_all; each as {xyxy: [x0, y0, x1, y1]}.",
    ("Prompts", "points"): "Objects, for point; each as {clicks: [{x: 30, y: 40}]}.",
    ("ImageItem", "image"): "Absolute path or URL.",
}
