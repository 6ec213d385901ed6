"""A local broker with authentication: TLS, SCRAM-SHA-512, and Kafka's authorizer."""

from __future__ import annotations

import datetime as dt
import ipaddress
import json
import secrets
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from streams.clock import SystemClock
from streams.testing.broker_settings import HOST, Ports

SUPER_USER: Final = "root"
"""The super user, exempt from ACLs: it sets up a test's topics and users."""

_VALID_DAYS: Final = 2


class BrokerSecurity:
    """The certificates and users of one broker, stored in its directory.

    Args:
        directory: of the broker.
        users: names of further users besides `SUPER_USER`; they have no rights without ACLs.

    Attributes:
        ca: file of the authority that signs the broker's certificate.
        keystore: file of that certificate, for this machine, and of its key.
        passwords: by user.
    """

    def __init__(self, directory: Path, users: Iterable[str]) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.keystore = directory / "broker.pem"
        self.ca = directory / "ca.pem"
        known = directory / "passwords.json"
        if not known.exists():  # otherwise the broker's storage has these users already
            made = {user: secrets.token_urlsafe(24) for user in (SUPER_USER, *users)}
            self._make_certificates()
            known.touch(mode=0o600)
            known.write_text(json.dumps(made), encoding="utf-8")
        self.passwords: Mapping[str, str] = json.loads(known.read_text(encoding="utf-8"))

    def environment(self, user: str) -> dict[str, str]:
        """Return the settings of a command or a client for this user."""
        return {
            "ACCOUNTANT_KAFKA_SECURITY_PROTOCOL": "SASL_SSL",
            "ACCOUNTANT_KAFKA_USERNAME": user,
            "ACCOUNTANT_KAFKA_PASSWORD": self.passwords[user],
            "ACCOUNTANT_KAFKA_CA": str(self.ca),
        }

    def format_arguments(self) -> list[str]:
        """Return the arguments that create the users when the broker's storage is formatted."""
        return [
            argument
            for name, password in self.passwords.items()
            for argument in ("--add-scram", f"SCRAM-SHA-512=[name={name},password={password}]")
        ]

    def properties(self, ports: Ports) -> dict[str, str]:
        """Return the broker's settings.

        The listener INTERNAL has no TLS and is for the broker's own connections. It uses the port
        that a broker without security has for a proxy.
        """
        clients, internal = (
            f"CLIENTS://{HOST}:{ports.clients}",
            f"INTERNAL://{HOST}:{ports.proxied}",
        )
        return {
            "listeners": f"{clients},{internal},CONTROLLER://{HOST}:{ports.controller}",
            "advertised.listeners": f"{clients},{internal}",
            "inter.broker.listener.name": "INTERNAL",
            "listener.security.protocol.map": "CLIENTS:SASL_SSL,INTERNAL:PLAINTEXT,"
            "CONTROLLER:PLAINTEXT",
            "sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "listener.name.clients.scram-sha-512.sasl.jaas.config": "org.apache.kafka.common."
            "security.scram.ScramLoginModule required;",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.keystore),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:{SUPER_USER};User:ANONYMOUS",  # clients of INTERNAL
        }

    def _make_certificates(self) -> None:
        signer = ec.generate_private_key(ec.SECP256R1())
        authority = _name("local authority")
        self.ca.write_bytes(_pem(_signed(authority, authority, signer, signer)))
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = _signed(_name("local broker"), authority, key, signer)
        secret = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        self.keystore.touch(mode=0o600)
        self.keystore.write_bytes(secret + _pem(certificate))


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _signed(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    signer: ec.EllipticCurvePrivateKey,
) -> x509.Certificate:
    """Return a certificate: an authority's if a key signs itself, otherwise one for loopback."""
    is_authority = key is signer
    now = dt.datetime.fromtimestamp(SystemClock().now() / 1000, dt.UTC)
    day = dt.timedelta(days=1)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - day)
        .not_valid_after(now + _VALID_DAYS * day)
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
    )
    if not is_authority:
        names = [x509.IPAddress(ipaddress.ip_address(HOST)), x509.DNSName("localhost")]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(signer, hashes.SHA256())
