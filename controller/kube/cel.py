"""How is a rule in CEL written down? What the tables of rules share."""

from dataclasses import dataclass
from typing import Any

PROMPTS = ("text", "boxes", "points")


@dataclass(frozen=True)
class Rule:
    """A condition on one value (`self`), and what is told where it does not hold."""

    holds: str
    message: str
    field_path: str = ""  # what is named, where it is not the value itself

    def as_validation(self) -> dict[str, Any]:
        """The rule as a schema holds it."""
        made = {"rule": self.holds, "message": self.message}
        return made | ({"fieldPath": self.field_path} if self.field_path else {})


def some(owner: str, field: str) -> str:
    """CEL: an optional list of a value that is there has an element."""
    return f"has({owner}.{field}) && {owner}.{field}.size() > 0"


def any_of(prompts: str) -> str:
    """CEL: prompts that are there ask for something."""
    return " || ".join(f"({some(prompts, field)})" for field in PROMPTS)
