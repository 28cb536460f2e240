"""Webhooks: signed as receivers expect it, and reaching nothing inside."""

import base64
import threading
from datetime import UTC, datetime
from pathlib import Path

import fsspec.asyn
import pytest

from controller import webhooks
from controller.webhooks import Answer, Message, Sender, secrets_of, signed
from samjobs.errors import InvalidInput
from samjobs.settings import Settings
from samjobs.storage import Access
from tests.controller.receiver import Receiver, verified

AT = datetime(2026, 5, 4, 12, 30, 15, 700_000, tzinfo=UTC)
OLD, NEW = "whsec_b2xkIGtleQ==", "whsec_bmV3IGtleQ=="
INSIDE = Access(hosts=("localhost",))


def keys(*secrets: str) -> list[bytes]:
    return secrets_of(Settings(webhook_secret=" ".join(secrets)), "any")


def post(url: str, *secrets: str, access: Access = INSIDE, **payload: object) -> Answer:
    async def sent() -> Answer:
        async with Sender(access) as sender:
            return await sender.send(Message("msg-1", url, payload), keys(*(secrets or (NEW,))), AT)

    answer: Answer = fsspec.asyn.sync(fsspec.asyn.get_loop(), sent)
    return answer


class TestSigning:
    def test_the_signature_is_the_one_that_openssl_gives(self) -> None:
        key = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")

        headers, body = signed(
            Message("msg_p5jXN8AQM9LWM0D4loKWxJek", "https://example.com", {"test": 2432232314}),
            [key],
            datetime.fromtimestamp(1614265330, UTC),
        )

        assert body == b'{"test":2432232314}'
        assert headers["webhook-id"] == "msg_p5jXN8AQM9LWM0D4loKWxJek"
        assert headers["webhook-timestamp"] == "1614265330"
        # printf of id.timestamp.body, through: openssl dgst -sha256 -mac HMAC -macopt hexkey:… -binary | base64
        assert headers["webhook-signature"] == "v1,Vif40peJBP7Iyl0XGmu61n4MwdrcHov5CFREBpE0svs="

    def test_a_receiver_verifies_it_by_any_of_the_secrets(self, receiver: Receiver) -> None:
        assert post(receiver.url("/told?by=us"), OLD, NEW, name="Grüße") == Answer(200, None)

        (heard,) = receiver.heard
        assert heard.path == "/told?by=us"
        assert heard.body.decode() == '{"name":"Grüße"}'
        assert heard.headers["Content-Type"] == "application/json"
        assert heard.headers["webhook-timestamp"] == str(int(AT.timestamp()))
        assert verified(heard, OLD)
        assert verified(heard, NEW)
        assert not verified(heard, "whsec_YW5vdGhlcg==")


class TestSecrets:
    def test_a_tenants_own_file_goes_before_the_common_secret(self, tmp_path: Path) -> None:
        (tmp_path / "zoo").write_text(f"{NEW}\n{OLD}\n")
        settings = Settings(webhook_secret=OLD, webhook_secrets_dir=tmp_path)

        assert secrets_of(settings, "zoo") == [b"new key", b"old key"]
        assert secrets_of(settings, "farm") == [b"old key"]
        assert secrets_of(Settings(), "farm") == []

    @pytest.mark.parametrize("tenant", ["../zoo", "..", "sub/../zoo", "/etc/hostname", "zoo\0"])
    def test_a_tenants_name_leads_to_no_file_but_its_own(self, tenant: str, tmp_path: Path) -> None:
        (tmp_path / "zoo").write_text(NEW)
        (tmp_path / "sub").mkdir()

        assert secrets_of(Settings(webhook_secrets_dir=tmp_path / "sub"), tenant) == []

    @pytest.mark.parametrize("text", ["hunter2", "whsec_hunter2!", "whsec_", "aHVudGVyMg=="])
    def test_what_is_no_secret_is_refused_and_not_repeated(self, text: str) -> None:
        with pytest.raises(InvalidInput, match="SAMJOBS_WEBHOOK_SECRET holds something else") as refused:
            secrets_of(Settings(webhook_secret=text), "any")

        assert text.removeprefix("whsec_") == "" or text.removeprefix("whsec_") not in str(refused.value)

    def test_a_file_that_cannot_be_read_is_named(self, tmp_path: Path) -> None:
        (tmp_path / "zoo").mkdir()

        with pytest.raises(InvalidInput, match=r"secret in .*/zoo cannot be read: IsADirectoryError"):
            secrets_of(Settings(webhook_secrets_dir=tmp_path), "zoo")


class TestReaching:
    @pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
    def test_an_address_inside_is_refused_when_the_connection_is_made(self, host: str, receiver: Receiver) -> None:
        answer = post(receiver.url(host=host), access=Access())

        assert answer.status is None
        assert "a loopback address: refused" in (answer.error or "")
        assert "SAMJOBS_ALLOWED_HOSTS" in (answer.error or "")
        assert receiver.heard == []

    def test_a_network_that_is_allowed_is_reached(self, receiver: Receiver) -> None:
        assert post(receiver.url(), access=Access(networks=("127.0.0.0/8",))).status == 200

    def test_http_is_refused(self, receiver: Receiver) -> None:
        answer = post(receiver.url().replace("https", "http"))

        assert answer.status is None
        assert "over https only" in (answer.error or "")

    def test_a_redirect_is_not_followed(self, receiver: Receiver) -> None:
        receiver.answer = lambda number: (302, {"Location": receiver.url("/elsewhere")}, b"")

        assert post(receiver.url()) == Answer(302, "the receiver answers 302")
        assert [heard.path for heard in receiver.heard] == ["/hook"]

    def test_a_certificate_that_nobody_vouches_for_is_refused(
        self, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("SSL_CERT_FILE")

        answer = post(receiver.url())

        assert answer.status is None
        assert "CERTIFICATE_VERIFY_FAILED" in (answer.error or "")
        assert receiver.heard == []

    def test_of_a_refusal_no_more_than_the_first_words_are_kept(self, receiver: Receiver) -> None:
        receiver.answer = lambda number: (500, {}, b"\xff" + b"x" * 100_000)

        answer = post(receiver.url())

        assert answer.status == 500
        assert answer.error == f"the receiver answers 500: \N{REPLACEMENT CHARACTER}{'x' * 255}"

    def test_a_receiver_that_never_answers_is_left_in_time(
        self, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        done = threading.Event()
        monkeypatch.setattr(webhooks, "TIMEOUT_S", 0.2)
        receiver.answer = lambda number: (200, {}, b"") if done.wait(30) else (500, {}, b"")

        answer = post(receiver.url())
        done.set()

        assert answer.status is None
        assert "did not answer as it should" in (answer.error or "")

    def test_a_token_in_the_address_is_in_no_error(self, receiver: Receiver) -> None:
        receiver.close()

        answer = post(receiver.url("/hook?token=hunter2"))

        assert answer.status is None
        assert "hunter2" not in (answer.error or "")
