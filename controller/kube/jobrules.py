"""What do the validators of JobSpec as a whole say in CEL: does all of it fit together, and does it stay as it was?"""

from controller.kube.cel import Rule, any_of, some
from samjobs.spec import NEEDED, UNFIT, JobSpec, Mode

# What of a SamJob may be changed once it is there.
MUTABLE = ("suspend", "priority", "ttlSecondsAfterFinished")
LEFT_OUT = ("dedupe",)  # each object is a job of its own

MOST_PROMPTS = 128  # phrases, boxes and clicks in the whole object

_LISTED = "has(self.images.list)"


def _prompts(field: str) -> str:
    return f"has(self.prompts) && {some('self.prompts', field)}"


def _unfit() -> list[Rule]:
    """Of each mode, the prompts that it cannot use."""
    rules = []
    for mode, fields in UNFIT.items():
        for field in fields:
            message = f"prompts.{field} does not go with mode {mode.value}, which needs {NEEDED[mode]}"
            other = f"self.mode != '{mode.value}'"
            rules.append(Rule(f"{other} || !({_prompts(field)})", message, ".prompts"))
            own = f"!(has(i.prompts) && {some('i.prompts', field)})"
            rules.append(Rule(f"{other} || !({_LISTED}) || self.images.list.all(i, {own})", message, ".images.list"))
    return rules


def _boxes() -> list[Rule]:
    """What a negative box means."""
    rules = []
    pairs = (
        (
            Mode.INSIDE_BOX,
            "{0}.boxes.all(b, b.positive)",
            "prompts.boxes: a negative box only means something in find_all; leave out positive: false",
        ),
        (
            Mode.FIND_ALL,
            "({1}) || {0}.boxes.size() == 0 || {0}.boxes.exists(b, b.positive)",
            "prompts.boxes are all negative: add text or a positive exemplar box",
        ),
    )
    for mode, holds, message in pairs:
        other = f"self.mode != '{mode.value}'"
        job = holds.format("self.prompts", some("self.prompts", "text"))
        own = holds.format("i.prompts", some("i.prompts", "text"))
        rules.append(
            Rule(f"{other} || !(has(self.prompts) && has(self.prompts.boxes)) || ({job})", message, ".prompts")
        )
        each = f"!(has(i.prompts) && has(i.prompts.boxes)) || ({own})"
        rules.append(Rule(f"{other} || !({_LISTED}) || self.images.list.all(i, {each})", message, ".images.list"))
    return rules


def _needed() -> list[Rule]:
    """Every image has prompts, its own or the job's."""
    job = f"has(self.prompts) && ({any_of('self.prompts')})"
    elsewhere = " || ".join(f"has(self.images.{field})" for field in ("manifest", "boxes", "points"))
    own = f"({_LISTED} && self.images.list.all(i, has(i.prompts)))"
    return [
        Rule(
            f"self.mode != '{mode.value}' || {elsewhere} || {own} || ({job})",
            f"prompts is empty: mode {mode.value} needs {needs}",
        )
        for mode, needs in NEEDED.items()
    ]


def _settled() -> list[Rule]:
    """Nothing but MUTABLE may change, appear or vanish."""
    rules = []
    for name, field in JobSpec.model_fields.items():
        alias = field.alias or name
        if alias in (*MUTABLE, *LEFT_OUT):
            continue
        same = f"self.{alias} == oldSelf.{alias}"
        if not field.is_required():
            same = f"has(self.{alias}) == has(oldSelf.{alias}) && (!has(self.{alias}) || {same})"
        rules.append(Rule(same, f"{alias} cannot be changed: make a new SamJob", f".{alias}"))
    return rules


def _total() -> str:
    """CEL: how many phrases, boxes and clicks there are in a job."""
    parts = []
    for owner in ("self.prompts", "i.prompts"):
        text, boxes, points = (f"{owner}.{field}" for field in ("text", "boxes", "points"))
        counts = [f"(has({one}) ? {one}.size() : 0)" for one in (text, boxes)]
        counts.append(f"(has({points}) ? {points}.map(p, p.clicks.size()).sum() : 0)")
        parts.append(" + ".join(counts))
    job, own = parts
    listed = f"self.images.list.map(i, has(i.prompts) ? {own} : 0).sum()"
    return f"(has(self.prompts) ? {job} : 0) + ({_LISTED} ? {listed} : 0)"


def _files() -> list[Rule]:
    """Files of boxes and of points go with their mode. That there are both is told once, of the images."""
    rules = [
        Rule(
            "self.mode != 'point' || !has(self.images.boxes) || has(self.images.points)",
            f"images.boxes does not go with mode point, which needs {NEEDED[Mode.POINT]}",
            ".images",
        )
    ]
    for mode in (Mode.FIND_ALL, Mode.INSIDE_BOX):
        message = f"images.points does not go with mode {mode.value}, which needs {NEEDED[mode]}"
        holds = f"self.mode != '{mode.value}' || !has(self.images.points) || has(self.images.boxes)"
        rules.append(Rule(holds, message, ".images"))
    return rules


WHOLE_JOB: tuple[Rule, ...] = (
    *_unfit(),
    *_boxes(),
    *_files(),
    *_needed(),
    Rule(
        f"({_LISTED} && self.images.list.size() == 1) || !({_prompts('boxes')} || {_prompts('points')})",
        "prompts.boxes and prompts.points belong to one image: give them per image in images.list or a manifest",
        ".prompts",
    ),
    # Of the job's own alone: for every image's it would cost more than a rule may.
    Rule(
        f"!({_prompts('text')}) || self.prompts.text.all(a, self.prompts.text.exists_one(b, "
        "b.text.lowerAscii().trim() == a.text.lowerAscii().trim()))",
        "a phrase is asked twice: every object would be found twice",
        ".prompts",
    ),
    Rule(
        f"{_total()} <= {MOST_PROMPTS}",
        f"more than {MOST_PROMPTS} phrases, boxes and clicks in all: put them into a manifest",
    ),
    *_settled(),
)
