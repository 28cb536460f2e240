"""Pages that are made from the code are what the code makes now."""

import pytest

from tools.generate import ROOT, pages


@pytest.mark.parametrize("name", sorted(pages()))
def test_a_generated_page_is_fresh(name: str) -> None:
    assert (ROOT / name).read_text() == pages()[name], f"{name} is stale: run `make generate` and commit it"


def test_every_field_of_a_job_has_a_meaning() -> None:
    rows = [line for line in pages()["docs/reference/job.md"].splitlines() if line.startswith("| `")]
    unexplained = [row for row in rows if row.endswith("|  |")]
    assert not unexplained, "add a description in samjobs/spec.py"
