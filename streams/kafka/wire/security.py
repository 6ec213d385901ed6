"""TLS and SASL of connections to a cluster: the options of each client of the library."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

from streams.errors import Refused
from streams.files.private_files import check_trusted
from streams.settings import PREFIX, Settings

_MAX_PASSWORD_BYTES: Final = 4_096  # bytes; a file that is longer is another file


@dataclass(frozen=True, slots=True)
class Security:
    """TLS and SASL towards the brokers; by default neither.

    Attributes:
        protocol: Kafka's name for the combination.
        username, password, mechanism: of SASL.
        tls: the trusted authorities and the own certificate of TLS connections.
    """

    protocol: str = "PLAINTEXT"
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    mechanism: str = "SCRAM-SHA-512"
    tls: ssl.SSLContext | None = field(default=None, repr=False)

    @property
    def is_off(self) -> bool:
        """Whether connections are neither encrypted nor authenticated."""
        return self.protocol == "PLAINTEXT"

    @property
    def principal(self) -> str:
        """The name that the brokers have for this process, as far as it can know."""
        if self.username is not None:
            return f"User:{self.username}"
        return "User:ANONYMOUS" if self.is_off else "the certificate's principal"

    def options(self) -> dict[str, Any]:
        """Return the arguments of a client of aiokafka."""
        options: dict[str, Any] = {"security_protocol": self.protocol}
        if self.tls is not None:
            options["ssl_context"] = self.tls
        if self.username is not None:
            options |= {
                "sasl_mechanism": self.mechanism,
                "sasl_plain_username": self.username,
                "sasl_plain_password": self.password,
            }
        return options


UNSECURED: Final = Security()


@dataclass(frozen=True, slots=True)
class Cluster:
    """The addresses of brokers, and the security of connections to them.

    Attributes:
        bootstrap: `host:port`, several separated by commas.
    """

    bootstrap: str
    security: Security = UNSECURED

    def options(self) -> dict[str, Any]:
        """Return the arguments that every aiokafka client needs."""
        return {"bootstrap_servers": self.bootstrap, **self.security.options()}

    def tool(self, script: str) -> str:
        """Return the start of one of Kafka's own commands, ready to copy."""
        secured = "" if self.security.is_off else " --command-config client.properties"
        return f"{script} --bootstrap-server {self.bootstrap}{secured}"


def security_of(settings: Settings) -> Security:
    """Return the security that the settings describe; reads the files that they name.

    Raises: Refused: a file cannot be used; the message names the setting, never its content.
    """
    password = None
    if settings.kafka_uses_sasl:
        secret, file = settings.kafka_password, settings.kafka_password_file
        password = _read_password(file) if file else secret.get_secret_value() if secret else None
    files = settings.kafka_ca, settings.kafka_certificate, settings.kafka_key
    if settings.kafka_uses_tls:
        for name, file in zip(("CA", "CERTIFICATE", "KEY"), files, strict=True):
            if file is not None:
                _check_file(f"{PREFIX}KAFKA_{name}", file, secret=name == "KEY")
    return Security(
        protocol=settings.kafka_security_protocol,
        username=settings.kafka_username,
        password=password,
        mechanism=settings.kafka_sasl_mechanism,
        tls=_context(*files) if settings.kafka_uses_tls else None,
    )


def _read_password(file: Path) -> str:
    name = f"{PREFIX}KAFKA_PASSWORD_FILE"
    _check_file(name, file, secret=True)
    try:
        with file.open("rb") as opened:
            found = opened.read(_MAX_PASSWORD_BYTES + 1)
        text = found.decode().strip()
    except UnicodeDecodeError:  # drop the cause: its message has bytes of the file
        raise Refused(f"setting {name}: {file} is not a text file") from None
    if not text or len(found) > _MAX_PASSWORD_BYTES:
        raise Refused(
            f"setting {name}: {file} must hold a password of 1 to {_MAX_PASSWORD_BYTES} bytes"
        )
    return text


@cache  # loading the system's authorities takes longer than connecting
def _context(ca: Path | None, certificate: Path | None, key: Path | None) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=ca)
    except ssl.SSLError:
        raise Refused(f"setting {PREFIX}KAFKA_CA: {ca} must hold certificates, in PEM") from None
    if certificate is not None:
        try:
            # An empty password, so that OpenSSL never prompts: a service would wait for ever.
            context.load_cert_chain(certificate, key, password=str)
        except ssl.SSLError:
            raise Refused(
                f"setting {PREFIX}KAFKA_CERTIFICATE: {certificate} and {key} must hold a "
                "certificate and its private key, in PEM and without a password"
            ) from None
    return context


def _check_file(name: str, file: Path, *, secret: bool) -> None:
    """Check that a file can be read, and that others cannot use it. Raises: Refused."""
    try:
        check_trusted(file, secret=secret, then="replace it" if secret else "review it")
    except OSError as error:
        raise Refused(f"setting {name}: {file} cannot be read ({error.strerror})") from None
    except Refused as error:
        raise Refused(f"setting {name}: {error}") from None
