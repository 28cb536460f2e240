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
