"""A certificate authority, and what it signs: how the parts of a control plane know each other."""

import base64
import datetime
import ipaddress
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

# Far enough on both sides that no clock matters.
_BEGIN = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
_END = datetime.datetime(2060, 1, 1, tzinfo=datetime.UTC)


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, as files."""

    certificate: Path
    key: Path


class Authority:
    """Signs certificates; its own is `ca.crt` in `folder`. An authority that is there already goes on."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.certificate = folder / "ca.crt"
        key = folder / "ca.key"
        if key.exists():
            loaded = serialization.load_pem_private_key(key.read_bytes(), None)
            assert isinstance(loaded, ec.EllipticCurvePrivateKey)
            self._key = loaded
            self._name = x509.load_pem_x509_certificate(self.certificate.read_bytes()).subject
            return
        folder.mkdir(parents=True, exist_ok=True)
        self._key = _new_key(key)
        self._name = _subject("samjobs test cluster")
        draft = _draft(self._name, self._name, self._key).add_extension(
            x509.BasicConstraints(True, None), critical=True
        )
        self.certificate.write_bytes(_signed(draft, self._key))

    def sign(self, name: str, user: str, groups: Sequence[str] = (), hosts: Sequence[str] = ()) -> Pair:
        """A certificate for `user` in `groups`, which may also serve under `hosts`: names and addresses."""
        pair = Pair(self._folder / f"{name}.crt", self._folder / f"{name}.key")
        key = _new_key(pair.key)
        draft = _draft(_subject(user, groups), self._name, key).add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]), critical=False
        )
        if hosts:
            draft = draft.add_extension(x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False)
        pair.certificate.write_bytes(_signed(draft, self._key))
        return pair

    def kubeconfig(self, path: Path, server: str, user: str, groups: Sequence[str] = ()) -> Path:
        """Write how `user` reaches the API server at the address `server`."""
        pair = self.sign(path.stem, user, groups)
        written = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": user}}],
            "clusters": [
                {"name": "test", "cluster": {"server": server, "certificate-authority-data": _base64(self.certificate)}}
            ],
            "users": [
                {
                    "name": user,
                    "user": {
                        "client-certificate-data": _base64(pair.certificate),
                        "client-key-data": _base64(pair.key),
                    },
                }
            ],
        }
        path.touch(mode=0o600)
        path.write_text(json.dumps(written, indent=1))
        return path

    def signing_key(self) -> Path:
        """A key of no certificate, for the tokens of service accounts."""
        path = self._folder / "service-accounts.key"
        if not path.exists():
            _new_key(path)
        return path


def _new_key(path: Path) -> ec.EllipticCurvePrivateKey:
    key = ec.generate_private_key(ec.SECP256R1())
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
        )
    )
    return key


def _draft(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    draft = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key.public_key())
    return draft.serial_number(x509.random_serial_number()).not_valid_before(_BEGIN).not_valid_after(_END)


def _signed(draft: x509.CertificateBuilder, key: ec.EllipticCurvePrivateKey) -> bytes:
    return draft.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def _subject(user: str, groups: Sequence[str] = ()) -> x509.Name:
    names = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*names, x509.NameAttribute(NameOID.COMMON_NAME, user)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _base64(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
