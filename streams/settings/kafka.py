"""Settings of TLS and SASL between this program and the Kafka brokers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BeforeValidator, Field, SecretStr, model_validator

from streams.settings.environment_model import EnvironmentModel

_SASL: Final = ("SASL_PLAINTEXT", "SASL_SSL")
_TLS: Final = ("SSL", "SASL_SSL")
_PROTOCOL: Final = "ACCOUNTANT_KAFKA_SECURITY_PROTOCOL"


def _given(text: Any) -> Any:
    """Treat an empty setting as unset: a settings file may list all of them."""
    return None if isinstance(text, str) and not text.strip() else text


Text = Annotated[str | None, BeforeValidator(_given)]
File = Annotated[Path | None, BeforeValidator(_given)]
Secret = Annotated[SecretStr | None, BeforeValidator(_given)]


class KafkaSecuritySettings(EnvironmentModel):
    """The settings of TLS and SASL towards the broker.

    A setting that the protocol does not use is refused: somebody may rely on a password that is
    never sent.
    """

    kafka_security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = Field(
        "PLAINTEXT", description="how a connection to the broker is secured"
    )
    kafka_sasl_mechanism: Literal["SCRAM-SHA-512", "SCRAM-SHA-256"] = Field(
        "SCRAM-SHA-512", description="how SASL proves the password"
    )
    kafka_username: Text = Field(
        None, max_length=200, description="name of the principal at the broker"
    )
    kafka_password: Secret = Field(None, description="its password; never shown")
    kafka_password_file: File = Field(None, description="file that holds its password")
    kafka_ca: File = Field(
        None,
        description="PEM file of the authorities that sign brokers' certificates [the system's]",
    )
    kafka_certificate: File = Field(
        None, description="PEM file of the client's certificate, if the broker requires one"
    )
    kafka_key: File = Field(None, description="PEM file of its private key")

    @property
    def kafka_uses_sasl(self) -> bool:
        """Whether connections authenticate with a password."""
        return self.kafka_security_protocol in _SASL

    @property
    def kafka_uses_tls(self) -> bool:
        """Whether connections are encrypted, and the broker's certificate is checked."""
        return self.kafka_security_protocol in _TLS

    @model_validator(mode="after")
    def _belongs_together(self) -> Self:
        if self.kafka_uses_sasl:
            self._check_credentials()
        else:
            self._check_unused(
                "SASL_SSL",
                KAFKA_USERNAME=self.kafka_username,
                KAFKA_PASSWORD=self.kafka_password,
                KAFKA_PASSWORD_FILE=self.kafka_password_file,
            )
        if not self.kafka_uses_tls:
            self._check_unused(
                "SASL_SSL or SSL",
                KAFKA_CA=self.kafka_ca,
                KAFKA_CERTIFICATE=self.kafka_certificate,
                KAFKA_KEY=self.kafka_key,
            )
        if self.kafka_certificate is None and self.kafka_key is not None:
            raise ValueError("ACCOUNTANT_KAFKA_CERTIFICATE: must be set if ACCOUNTANT_KAFKA_KEY is")
        if self.kafka_key is None and self.kafka_certificate is not None:
            raise ValueError("ACCOUNTANT_KAFKA_KEY: must be set if ACCOUNTANT_KAFKA_CERTIFICATE is")
        return self

    def _check_credentials(self) -> None:
        protocol = self.kafka_security_protocol
        if self.kafka_username is None:
            raise ValueError(f"ACCOUNTANT_KAFKA_USERNAME: must be set with {protocol}")
        given = [each for each in (self.kafka_password, self.kafka_password_file) if each]
        if not given:
            raise ValueError(
                f"ACCOUNTANT_KAFKA_PASSWORD_FILE: must be set with {protocol}, or "
                "ACCOUNTANT_KAFKA_PASSWORD"
            )
        if len(given) > 1:
            raise ValueError(
                "ACCOUNTANT_KAFKA_PASSWORD: must not be set together with "
                "ACCOUNTANT_KAFKA_PASSWORD_FILE"
            )

    def _check_unused(self, protocols: str, **given: object) -> None:
        for name, value in given.items():
            if value is not None:
                raise ValueError(
                    f"{_PROTOCOL}: must be {protocols} if ACCOUNTANT_{name} is set, got "
                    f"{self.kafka_security_protocol}"
                )
