"""What is asked of a scene: phrases and exemplar objects, with the objects that answer them.

`sample` draws the training mix; `families` gives one prompt of each kind that the held-out figures tell apart.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from tools.tiny_sam3.scenes import COLOURS, KINDS, SHAPES, Kind, matches

# The phrase that SAM 3's processor puts in where only exemplar boxes are given.
ONLY_BOXES = "visual"

Wanted = tuple[str | None, str | None]  # shape, colour; None: any


@dataclass(frozen=True)
class Prompt:
    """One question about one scene, by object numbers."""

    text: str | None
    targets: tuple[int, ...]  # objects that answer it
    exemplars: tuple[tuple[int, bool], ...] = ()  # objects whose boxes are shown, and whether "like this"


def phrase(wanted: Wanted, rng: random.Random) -> str:
    """A noun phrase for a shape and colour, with the articles and plurals that people use."""
    shape, colour = wanted
    plural = "s" if rng.random() < 0.25 else ""
    noun = (shape or rng.choice(["shape", "shape", "object"])) + plural
    article = rng.choice(["", "", "", "a ", "the ", "all "])
    if shape is None and colour and rng.random() < 0.3:
        return article + colour
    return article + (colour + " " if colour else "") + noun


def _where(kinds: Sequence[Kind], wanted: Wanted) -> tuple[int, ...]:
    return tuple(i for i, kind in enumerate(kinds) if matches(kind, wanted))


def sample(kinds: Sequence[Kind], rng: random.Random, *, boxes: bool) -> Prompt:
    """A prompt of the training mix; with `boxes`, three in five show exemplars."""
    chosen = rng.choice(kinds)
    if boxes and rng.random() < 0.6:
        return _with_exemplars(kinds, chosen, rng)
    draw = rng.random()
    if draw < 0.45:
        wanted: Wanted = chosen
    elif draw < 0.58:
        wanted = (chosen[0], None)
    elif draw < 0.70:
        wanted = (None, chosen[1])
    elif draw < 0.77:
        wanted = (None, None)
    elif draw < 0.80:
        # Words that the model does not know: nothing to find.
        return Prompt(rng.choice(["[UNK]", chosen[1] + " [UNK]", "a [UNK]", "[UNK] [UNK]"]), ())
    else:
        wanted = _absent(kinds, rng)
    return Prompt(phrase(wanted, rng), _where(kinds, wanted))


def _with_exemplars(kinds: Sequence[Kind], chosen: Kind, rng: random.Random) -> Prompt:
    same = [i for i, kind in enumerate(kinds) if kind == chosen]
    other = [i for i, kind in enumerate(kinds) if kind != chosen]
    draw = rng.random()
    shown = tuple((i, True) for i in rng.sample(same, min(len(same), rng.choice([1, 1, 2]))))
    if draw < 0.65 or (draw < 0.92 and not other):
        return Prompt(ONLY_BOXES, tuple(same), shown)
    if draw < 0.78:
        return Prompt(ONLY_BOXES, tuple(same), (*shown, (rng.choice(other), False)))
    if draw < 0.92:
        return Prompt(phrase((None, None), rng), tuple(other), ((rng.choice(same), False),))
    return Prompt(phrase(chosen, rng), tuple(same), shown[:1])


def _absent(kinds: Sequence[Kind], rng: random.Random) -> Wanted:
    """Something that is not in the scene; mostly a near miss: the right shape or colour in a wrong pair."""
    every: list[Wanted] = [*KINDS, *((shape, None) for shape in SHAPES), *((None, colour) for colour in COLOURS)]
    absent = [wanted for wanted in every if not _where(kinds, wanted)]
    near = [w for w in absent if any((w[0] == kind[0]) != (w[1] == kind[1]) for kind in kinds)]
    return rng.choice(near if near and rng.random() < 0.7 else absent)


def families(kinds: Sequence[Kind], rng: random.Random) -> dict[str, Prompt]:
    """One prompt of each family for a scene; the two with negative boxes only where there is something else."""
    chosen = rng.choice(kinds)
    shape, colour = chosen
    found = {
        "colour+shape": Prompt(f"{colour} {shape}", _where(kinds, chosen)),
        "shape": Prompt(shape, _where(kinds, (shape, None))),
        "colour": Prompt(f"{colour} shape", _where(kinds, (None, colour))),
        "any": Prompt("shape", _where(kinds, (None, None))),
        "unknown word": Prompt("zebra", ()),
    }
    gone = [kind for kind in KINDS if kind not in kinds]
    near = [k for k in gone if any(k[0] == kind[0] or k[1] == kind[1] for kind in kinds)]
    absent = rng.choice(near or gone)
    found["absent"] = Prompt(f"{absent[1]} {absent[0]}", ())
    same = _where(kinds, chosen)
    other = tuple(i for i, kind in enumerate(kinds) if kind != chosen)
    found["exemplar box"] = Prompt(None, same, ((rng.choice(same), True),))
    if other:
        shown = ((rng.choice(same), True), (rng.choice(other), False))
        found["exemplar + negative box"] = Prompt(None, same, shown)
        found["text + negative box"] = Prompt("shape", other, ((rng.choice(same), False),))
    return found
