"""The file of tokens, as people write it: what is refused, and how the fault is named."""

from pathlib import Path

import pytest

from samjobs.errors import InvalidInput
from samjobs.tokens import Role, read, sha256_of

GOOD = {"name": "ci", "tokenSha256": "0" * 64, "tenant": "acme", "role": "editor"}


def lines(**changed: str) -> str:
    return "- {" + ", ".join(f"{key}: '{value}'" for key, value in {**GOOD, **changed}.items()) + "}\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "tokens.yaml"


def test_entries_are_read_in_their_order(file: Path) -> None:
    file.write_text("# ours\n" + lines() + lines(name="boss", tenant="*", role="admin", tokenSha256="1" * 64))
    assert [(one.name, one.tenant, one.role) for one in read(file)] == [
        ("ci", "acme", Role.EDITOR),
        ("boss", "*", Role.ADMIN),
    ]


@pytest.mark.parametrize("text", ["", "# nobody yet\n", "[]"])
def test_a_file_without_entries_lets_nobody_in(file: Path, text: str) -> None:
    file.write_text(text)
    assert read(file) == ()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (lines(role="boss"), r"tokens\.yaml: 0\.role: .*'viewer', 'editor' or 'admin' \(got 'boss'\)"),
        (lines(tenant="a b"), r"0\.tenant: .*\(got 'a b'\)"),
        (lines(tenant=""), r"0\.tenant: "),
        (lines(tokenSha256="samjobs_x"), r"0\.tokenSha256: .*pattern"),
        (lines(name=""), r"0\.name: "),
        (lines(token="x"), r"0\.token: Extra inputs are not permitted"),
        ("- name: ci\n", r"0\.tokenSha256: Field required"),
        ("name: ci\n", r"tokens\.yaml: the whole: .*valid list"),
        (lines() + lines(name="other"), r"a tokenSha256 is in it twice"),
        ("- [", r"tokens\.yaml is no YAML: .*line"),
        ("- name: 2026-99-99\n", r"is no YAML: .*month"),
        ("[" * 20_000, r"is no YAML: RecursionError"),
        ("- !!python/object/apply:os.system [ls]", r"is no YAML: .*could not determine a constructor"),
    ],
)
def test_what_has_no_meaning_is_refused_by_its_field(file: Path, text: str, told: str) -> None:
    file.write_text(text)
    with pytest.raises(InvalidInput, match=told):
        read(file)


def test_bytes_that_are_no_text_are_refused(file: Path) -> None:
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidInput):
        read(file)


def test_a_folder_in_its_place_is_told(file: Path) -> None:
    file.mkdir()
    with pytest.raises(InvalidInput, match="cannot be read: Is a directory"):
        read(file)


def test_a_hash_is_of_the_tokens_characters() -> None:
    assert sha256_of("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
