"""Settings come from SAMJOBS_* variables, and a wrong one is named."""

import pytest

from samjobs import settings
from samjobs.errors import InvalidInput


def test_variables_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAMJOBS_ALLOWED_HOSTS", "photos.lan, 10.0.0.0/8")
    monkeypatch.setenv("SAMJOBS_DECODE_THREADS", "7")
    loaded = settings.load()
    assert loaded.allowed_hosts == ("photos.lan", "10.0.0.0/8")
    assert loaded.decode_threads == 7


def test_a_wrong_value_is_named_with_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAMJOBS_DECODE_THREADS", "many")
    with pytest.raises(InvalidInput, match=r"SAMJOBS_DECODE_THREADS: .*'many'"):
        settings.load()


def test_the_default_database_lies_in_the_users_state_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/somewhere")
    assert settings.load().database_url == "sqlite:////somewhere/samjobs/samjobs.db"


def test_every_setting_says_what_it_does() -> None:
    undescribed = [name for name, field in settings.Settings.model_fields.items() if not field.description]
    assert not undescribed, f"add a description to {undescribed} in samjobs/settings.py"


def test_each_engine_has_its_own_setting_for_its_weights() -> None:
    loaded = settings.Settings(sam3_model="/models/sam3", sam3_meta_checkpoint="/models/sam3.pt")
    assert [loaded.model_for(engine) for engine in ("sam3", "sam3-meta", "opencv")] == [
        "/models/sam3",
        "/models/sam3.pt",
        None,
    ]


def test_a_profile_gives_the_times_that_nothing_else_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAMJOBS_PROFILE", "prod")
    monkeypatch.setenv("SAMJOBS_STALE_JOB_TIMEOUT_SECONDS", "90")
    loaded = settings.load()
    assert loaded.stale_job_timeout_seconds == 90
    assert loaded.poller_interval_seconds == settings.PROFILES["prod"]["poller_interval_seconds"] == 30


def test_without_a_profile_it_is_dev() -> None:
    loaded = settings.load()
    assert loaded.profile == "dev"
    assert {name: getattr(loaded, name) for name in settings.PROFILES["dev"]} == settings.PROFILES["dev"]


def test_both_profiles_set_every_setting_that_has_no_default_of_its_own() -> None:
    needed = {name for name, field in settings.Settings.model_fields.items() if field.is_required()}
    assert {profile: set(values) for profile, values in settings.PROFILES.items()} == {"dev": needed, "prod": needed}


def test_an_unknown_profile_is_named_with_those_that_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAMJOBS_PROFILE", "production")
    with pytest.raises(InvalidInput, match=r"SAMJOBS_PROFILE: .*'dev' or 'prod'.*'production'"):
        settings.load()


def test_two_heartbeats_may_fail_before_the_lease_is_lost() -> None:
    assert settings.Settings(stale_job_timeout_seconds=6).beat_s == 2
    assert settings.Settings(stale_job_timeout_seconds=600).beat_s == settings.Settings().heartbeat_seconds


def test_secrets_and_addresses_are_not_in_a_settings_text() -> None:
    loaded = settings.Settings(
        database_url="postgresql://me:hush@host/db", redis_url="redis://:hush@host", webhook_secret="whsec_hush"
    )
    assert "hush" not in repr(loaded)
    assert "hush" not in str(loaded)


def test_thresholds_of_alerts_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAMJOBS_ALERT_THRESHOLDS", "SamJobsQueueDeep=500, SamJobsWaitLong=60")
    assert settings.load().alert_thresholds == {"SamJobsQueueDeep": 500, "SamJobsWaitLong": 60}


@pytest.mark.parametrize(
    "value", ["SamJobsQueueDepp=5", "SamJobsQueueDeep", "SamJobsQueueDeep=many", "SamJobsQueueDeep=-1"]
)
def test_a_threshold_that_is_none_is_named(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAMJOBS_ALERT_THRESHOLDS", value)
    with pytest.raises(InvalidInput, match=r"SAMJOBS_ALERT_THRESHOLDS: .*SamJobsQueue.*give"):
        settings.load()
