"""A file of tokens: whose a token is, what each role may do and in which tenant, and how changes take effect."""

import logging
from pathlib import Path

import pytest

from api.access import access_of
from api.access.caller import Caller, Forbidden, Unauthenticated, Verb, reach, require
from api.access.tokens import TokenFile
from samjobs.errors import InvalidInput
from samjobs.settings import Settings
from samjobs.tokens import Entry, Role, fresh, sha256_of, written

LOOKS = {Verb.GET, Verb.LIST}
EDITS = LOOKS | {Verb.CREATE, Verb.UPDATE, Verb.RETRY}
ROLES = {Role.VIEWER: LOOKS, Role.EDITOR: EDITS, Role.ADMIN: EDITS | {Verb.PURGE, Verb.ADMIN}}


def entry(token: str, name: str = "ci", tenant: str = "acme", role: Role = Role.EDITOR) -> str:
    return written(Entry(name=name, token_sha256=sha256_of(token), tenant=tenant, role=role))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "tokens.yaml"
    path.write_text(entry("samjobs_a") + entry("samjobs_all", "boss", "*", Role.ADMIN))
    return path


# Whose a token is.


def test_a_token_of_the_file_is_its_callers(file: Path) -> None:
    caller = TokenFile(file).who("samjobs_a")
    assert (caller.name, caller.tenants()) == ("token:ci", frozenset({"acme"}))


def test_a_token_for_every_tenant_is_at_home_in_none(file: Path) -> None:
    assert TokenFile(file).who("samjobs_all").tenants() is None


@pytest.mark.parametrize(
    "token", ["", "samjobs_b", "samjobs_a ", "SAMJOBS_A", sha256_of("samjobs_a"), "\udcff", "ü" * 9]
)
def test_any_other_token_is_nobodys_and_is_not_repeated(file: Path, token: str) -> None:
    with pytest.raises(Unauthenticated) as refused:
        TokenFile(file).who(token)
    assert token not in str(refused.value) or not token


def test_the_file_holds_no_token(file: Path) -> None:
    assert "samjobs_a" not in file.read_text()


def test_two_fresh_tokens_are_two() -> None:
    assert fresh() != fresh()


# What a role may do.


@pytest.mark.parametrize("role", list(Role))
@pytest.mark.parametrize("verb", list(Verb))
def test_a_role_allows_its_verbs_in_its_tenant_and_nothing_elsewhere(tmp_path: Path, role: Role, verb: Verb) -> None:
    path = tmp_path / "tokens.yaml"
    path.write_text(entry("samjobs_a", role=role))
    access = TokenFile(path)
    caller = access.who("samjobs_a")
    assert access.allows(caller, verb, "acme") is (verb in ROLES[role])
    assert not any(access.allows(caller, verb, tenant) for tenant in ("other", "acme2", "ACME", "*", "", None))


@pytest.mark.parametrize("role", list(Role))
@pytest.mark.parametrize("verb", list(Verb))
def test_with_every_tenant_it_allows_them_everywhere(tmp_path: Path, role: Role, verb: Verb) -> None:
    path = tmp_path / "tokens.yaml"
    path.write_text(entry("samjobs_a", tenant="*", role=role))
    access = TokenFile(path)
    caller = access.who("samjobs_a")
    assert {access.allows(caller, verb, tenant) for tenant in ("acme", "other", None)} == {verb in ROLES[role]}


def test_a_caller_that_another_way_of_access_knows_may_nothing(file: Path) -> None:
    assert not TokenFile(file).allows(Caller(name="token:boss"), Verb.GET, "acme")


def test_a_list_without_a_tenant_is_about_the_callers_own(file: Path) -> None:
    access = TokenFile(file)
    assert reach(access, access.who("samjobs_a"), Verb.LIST, None) == {"acme"}
    assert reach(access, access.who("samjobs_all"), Verb.LIST, None) is None
    assert reach(access, access.who("samjobs_all"), Verb.LIST, "acme") == {"acme"}


def test_a_list_of_anothers_tenant_is_refused_whether_there_is_one_or_not(file: Path) -> None:
    access = TokenFile(file)
    with pytest.raises(Forbidden, match=r"token:ci has no right to list in tenant 'other'"):
        reach(access, access.who("samjobs_a"), Verb.LIST, "other")


def test_a_right_that_is_lacking_is_named(file: Path) -> None:
    access = TokenFile(file)
    require(access, access.who("samjobs_a"), Verb.RETRY, "acme")
    with pytest.raises(Forbidden, match=r"no right to purge in tenant 'acme'"):
        require(access, access.who("samjobs_a"), Verb.PURGE, "acme")
    with pytest.raises(Forbidden, match=r"no right to admin over all tenants"):
        require(access, access.who("samjobs_a"), Verb.ADMIN, None)


# Changes.


def test_a_token_is_given_and_taken_away_without_a_restart(file: Path) -> None:
    access = TokenFile(file)
    with file.open("a") as opened:
        opened.write(entry("samjobs_new", "new"))
    assert access.who("samjobs_new").name == "token:new"
    file.write_text(entry("samjobs_new", "new"))
    with pytest.raises(Unauthenticated):
        access.who("samjobs_a")


def test_a_file_that_takes_the_place_of_another_is_read_as_kubernetes_changes_a_mounted_secret(tmp_path: Path) -> None:
    for folder, token in (("1", "samjobs_a"), ("2", "samjobs_b")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "tokens.yaml").write_text(entry(token))
    (tmp_path / "now").symlink_to("1")
    access = TokenFile(tmp_path / "now" / "tokens.yaml")
    access.who("samjobs_a")
    (tmp_path / "next").symlink_to("2")
    (tmp_path / "next").rename(tmp_path / "now")
    access.who("samjobs_b")
    with pytest.raises(Unauthenticated):
        access.who("samjobs_a")


@pytest.mark.parametrize("spoilt", ["- name: ci\n  tenant: [", "- name: ci", None], ids=["no YAML", "no entry", "gone"])
def test_a_change_that_cannot_be_read_changes_nothing_and_is_told_once(
    file: Path, spoilt: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    access = TokenFile(file)
    right = file.read_text()
    file.unlink()
    if spoilt is not None:
        file.write_text(spoilt)
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            access.who("samjobs_a")
    (told,) = caplog.messages
    assert "the tokens are those of before" in told
    assert str(file) in told
    file.write_text(right.replace(sha256_of("samjobs_a"), sha256_of("samjobs_b")))
    assert access.who("samjobs_b").name == "token:ci"


# The setting.


def test_without_a_file_of_tokens_the_api_does_not_start_and_says_how_to_make_one() -> None:
    with pytest.raises(InvalidInput, match=r"SAMJOBS_API_TOKENS_FILE is not set: .*samjobs token NAME"):
        access_of(Settings())


def test_a_file_of_tokens_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"tokens\.yaml cannot be read: No such file"):
        access_of(Settings(api_tokens_file=tmp_path / "tokens.yaml"))


def test_the_file_that_the_setting_names_is_asked(file: Path) -> None:
    assert access_of(Settings(api_tokens_file=file)).who("samjobs_a").name == "token:ci"
