"""How clients and workers prove to a broker who they are, and see that it is theirs."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings


class KafkaSecuritySettings(BaseSettings):
    """TLS and SASL towards the broker."""

    kafka_security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = Field(
        "PLAINTEXT", description="how a connection to the broker is secured"
    )
    kafka_sasl_mechanism: Literal["SCRAM-SHA-512", "SCRAM-SHA-256"] = Field(
        "SCRAM-SHA-512", description="how SASL proves the password"
    )
    kafka_username: str | None = Field(
        None, max_length=200, description="name of the principal at the broker"
    )
    kafka_password: SecretStr | None = Field(None, description="its password; never shown")
    kafka_password_file: Path | None = Field(None, description="file that holds its password")
    kafka_ca: Path | None = Field(
        None,
        description="PEM file of the authorities that sign brokers' certificates [the system's]",
    )
    kafka_certificate: Path | None = Field(
        None, description="PEM file of the client's certificate, where the broker asks for one"
    )
    kafka_key: Path | None = Field(None, description="PEM file of its private key")
