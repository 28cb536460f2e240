"""compose.yaml says only what is there: it cannot be run by these tests, which have no Docker."""

import re
import tomllib
from typing import Any

import pytest

from samjobs import tokens
from samjobs.settings import Settings
from tests.containers import compose
from tests.containers.compose import ROOT

SERVICES: dict[str, dict[str, Any]] = compose.filled(compose.load())["services"]
OURS = sorted(name for name, service in SERVICES.items() if "build" in service)
SECRETS = [value for name, value in compose.trial().items() if name.endswith("PASSWORD")]


def test_it_has_every_part_of_the_system() -> None:
    assert {"controller", "worker", "api", "migrate", "postgres", "redis", "store", "bucket"} <= set(SERVICES)


@pytest.mark.parametrize("service", OURS)
def test_every_setting_is_one(service: str) -> None:
    environment = SERVICES[service]["environment"]
    named = {name.removeprefix("SAMJOBS_").lower(): value for name, value in environment.items() if "SAMJOBS_" in name}
    assert set(named) <= set(Settings.model_fields), f"{service} names settings that samjobs/settings.py does not have"
    Settings(**named)


@pytest.mark.parametrize("service", OURS)
def test_it_is_built_from_files_that_are_there(service: str) -> None:
    build = SERVICES[service]["build"]
    dockerfile = ROOT / build["context"] / build["dockerfile"]
    arguments = set(re.findall(r"^ARG (\w+)", dockerfile.read_text(), flags=re.MULTILINE))
    assert set(build.get("args", {})) <= arguments
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(build.get("args", {}).get("EXTRAS", "worker").split(",")) <= set(extras)


@pytest.mark.parametrize("service", sorted(SERVICES))
def test_what_it_mounts_from_the_checkout_is_there(service: str) -> None:
    sources = [volume.split(":")[0] for volume in SERVICES[service].get("volumes", [])]
    absent = [source for source in sources if source.startswith("./") and not (ROOT / source).exists()]
    volumes = [source for source in sources if source[0] not in "./"]
    assert not absent
    assert set(volumes) <= set(compose.load()["volumes"])


@pytest.mark.parametrize("service", sorted(SERVICES))
def test_what_it_waits_for_can_come_true(service: str) -> None:
    for other, how in SERVICES[service].get("depends_on", {}).items():
        check = SERVICES[other].get("healthcheck", {})
        if how["condition"] == "service_healthy":
            assert "test" in check, f"{service} waits for {other} to be healthy, which has no check"
        else:
            assert how["condition"] == "service_completed_successfully"
            assert SERVICES[other]["restart"] == "on-failure", f"{other} ends, and has to stay ended"


@pytest.mark.parametrize("service", sorted(SERVICES))
def test_no_password_is_on_a_command_line(service: str) -> None:
    told = [SERVICES[service].get(part) for part in ("command", "entrypoint")]
    told.append(SERVICES[service].get("healthcheck", {}).get("test"))
    assert not [secret for secret in SECRETS if secret in str(told)]


@pytest.mark.parametrize("service", OURS)
def test_it_may_do_nothing_but_its_work(service: str) -> None:
    ours = SERVICES[service]
    assert ours["read_only"] is True
    assert ours["cap_drop"] == ["ALL"]
    assert ours["security_opt"] == ["no-new-privileges:true"]
    assert "user" not in ours, "the image's own user has no rights"


def test_only_the_store_and_the_api_can_be_reached_and_from_this_machine_alone() -> None:
    published = {name: service["ports"] for name, service in SERVICES.items() if "ports" in service}
    assert set(published) == {"store", "api"}
    assert all(port.startswith("127.0.0.1:") for ports in published.values() for port in ports)


def test_the_token_that_the_trial_names_is_one_of_its_file() -> None:
    file = ROOT / "examples" / "compose" / "tokens.yaml"
    (told,) = re.findall(r"the token (\S+),", file.read_text())
    (entry,) = tokens.read(file)
    assert entry.token_sha256 == tokens.sha256_of(told)
    assert "trial-only" in told
    mounted = f"./{file.relative_to(ROOT)}:{SERVICES['api']['environment']['SAMJOBS_API_TOKENS_FILE']}:ro"
    assert mounted in SERVICES["api"]["volumes"]


def test_redis_drops_nothing() -> None:
    assert "--maxmemory-policy noeviction" in str(SERVICES["redis"]["entrypoint"])


def test_the_trial_sets_exactly_what_is_asked_for() -> None:
    asked = set(re.findall(r"(?<!\$)\$\{(\w+):\?", compose.FILE.read_text()))
    assert asked == set(compose.trial())


def test_the_passwords_of_the_trial_say_what_they_are_for() -> None:
    assert all(value.startswith("trial-only-") for value in compose.trial().values())
