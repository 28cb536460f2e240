"""Engines and access, as this machine's settings have them."""

from pathlib import Path

import pytest

from samjobs.errors import InvalidInput
from samjobs.execution.machine import Engines, access_for, wanted_by
from tests.execution.builders import settings, spec


def test_jobs_that_ask_for_the_same_engine_get_the_one_that_is_loaded(tmp_path: Path) -> None:
    with Engines(settings()) as engines:
        first = engines(spec(tmp_path / "a"))

        assert engines(spec(tmp_path / "b")) is first
        with pytest.raises(InvalidInput, match="no weights"):
            engines(spec(tmp_path, model="some/model"))
        assert engines(spec(tmp_path)) is not first, "one at a time: the first one was given back for the other"


def test_what_a_job_leaves_open_is_what_is_set() -> None:
    own = settings(sam3_model="some/model", sam3_revision="0123abc")

    assert str(wanted_by(own, "sam3")) == "sam3 some/model@0123abc"
    assert wanted_by(own, "sam3", "some/model", "0123abc") == wanted_by(own, "sam3")
    assert str(wanted_by(own, "sam3", "other/model")) == "sam3 other/model", "the revision is of no other model"
    assert str(wanted_by(own, "sam3", None, "4567def")) == "sam3 some/model@4567def"
    assert str(wanted_by(own, "opencv")) == "opencv"


def test_the_checksum_is_of_the_weights_that_are_set_and_of_no_others() -> None:
    own = settings(engine="sam3", sam3_model="some/model", sam3_revision="0123abc", model_sha256="ab" * 32)

    assert wanted_by(own, "sam3").sha256 == "ab" * 32
    assert wanted_by(own, "sam3", "some/model", "0123abc").sha256 == "ab" * 32
    assert wanted_by(own, "sam3", "other/model").sha256 is None
    assert wanted_by(own, "sam3", None, "4567def").sha256 is None
    assert wanted_by(own, "sam3-meta").sha256 is None


def test_hosts_and_networks_that_are_allowed_are_told_apart() -> None:
    access = access_for(settings(allowed_hosts="minio.local, 10.0.0.0/8,192.168.1.7"))

    assert access.hosts == ("minio.local",)
    assert access.networks == ("10.0.0.0/8", "192.168.1.7")
