"""`samjobs token`: a token that is shown once, and the entry by which the API knows its holder."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from samjobs.tokens import read, sha256_of
from tests.cli.command import Said


class Command:
    """The real command; it has no use for a database."""

    def run(self, *arguments: str | Path, code: int = 0) -> Said:
        done = subprocess.run(
            [sys.executable, "-m", "samjobs.cli", *arguments], capture_output=True, text=True, check=False
        )
        assert done.returncode == code, f"exit code {done.returncode}, not {code}\n{done.stdout}\n{done.stderr}"
        return Said(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def cli() -> Command:
    return Command()


def test_the_token_is_printed_with_the_entry_for_the_file(cli: Command) -> None:
    said = cli.run("token", "ci", "--tenant", "acme", "--role", "editor")
    token, *entry = said.out.splitlines()
    assert token.startswith("samjobs_")
    assert f"  tokenSha256: {sha256_of(token)}" in entry
    assert [line for line in entry if line.startswith(("- name", "  tenant", "  role"))] == [
        "- name: ci",
        "  tenant: acme",
        "  role: editor",
    ]


def test_with_a_file_the_entry_goes_there_and_the_token_is_alone(cli: Command, tmp_path: Path) -> None:
    file = tmp_path / "tokens.yaml"
    first = cli.run("token", "ci", "-n", "acme", "--role", "viewer", "--file", file).out.strip()
    file.write_text(file.read_text().rstrip("\n"))  # as an editor may leave it
    second = cli.run("token", "boss", "-n", "*", "--role", "admin", "--file", file).out.strip()
    assert [(one.name, one.token_sha256, one.tenant) for one in read(file)] == [
        ("ci", sha256_of(first), "acme"),
        ("boss", sha256_of(second), "*"),
    ]


def test_a_second_token_of_a_name_is_said_to_be_one_more(cli: Command, tmp_path: Path) -> None:
    make = ("token", "ci", "-n", "acme", "--role", "viewer", "--file", tmp_path / "tokens.yaml")
    assert cli.run(*make).err == ""
    assert "ci has 1 more in" in cli.run(*make).err


def test_as_json_it_is_one_object(cli: Command) -> None:
    (told,) = cli.run("token", "ci", "-n", "acme", "--role", "viewer", "--json").lines
    assert told["entry"] == {
        "name": "ci",
        "tokenSha256": sha256_of(told["token"]),
        "tenant": "acme",
        "role": "viewer",
    }


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("ci", "-n", "a b", "--role", "viewer"), "tenant: "),
        (("c i", "-n", "acme", "--role", "viewer"), "name: "),
        (("ci", "-n", "acme", "--role", "boss"), "'viewer', 'editor', 'admin'"),
        (("ci", "--role", "viewer"), "--tenant"),
        (("ci", "-n", "acme"), "--role"),
        (("ci", "-n", "acme", "--role", "viewer", "--file", ""), "--file"),
    ],
)
def test_what_has_no_meaning_is_refused(cli: Command, options: tuple[str, ...], told: str) -> None:
    said = cli.run("token", *options, code=2)
    assert told in said.err
    assert said.out == ""


def test_a_file_that_is_wrong_already_is_left_as_it_is(cli: Command, tmp_path: Path) -> None:
    file = tmp_path / "tokens.yaml"
    file.write_text(json.dumps({"not": "a list"}))
    said = cli.run("token", "ci", "-n", "acme", "--role", "viewer", "--file", file, code=2)
    assert "list" in said.err
    assert json.loads(file.read_text()) == {"not": "a list"}
