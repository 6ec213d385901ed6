"""Settings of every command, from the environment: `ACCOUNTANT_` and the field's name.

Each field states its unit; `docs/reference/settings.md` lists them all.
"""

from __future__ import annotations

import os
import re
from collections.abc import Set
from pathlib import Path
from typing import Annotated, Final, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr, ValidationError

from accountant.records import Genesis
from accountant.records.inputs import MAX_BYTES
from accountant.records.placement import Placement
from streams.address import LAST_PORT, LedgerUrl, ledger_url
from streams.clock import DAY_MS
from streams.errors import Refused
from streams.settings.access import AccessSettings, listed
from streams.settings.environment import (
    ANY,
    Unknown,
    check_alike,
    check_spellings,
    unknown_names,
)
from streams.settings.kafka import KafkaSecuritySettings
from streams.settings.login import LOGIN_FIELDS, LoginSettings
from streams.settings.questions import QUESTION_FIELDS, QuestionSettings
from streams.variables import PREFIX

LEAST_LIMIT: Final = 0.001  # requests a second of one address or name
DEFAULT_URL: Final = "sqlite:///accountant.db"
_APPLICATION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def _known(text: str) -> str:
    ledger_url(text)
    return text


def _named(text: str) -> str:
    if _APPLICATION.fullmatch(text) is None:
        raise ValueError("must be 1 to 100 letters, digits, '.', '_' or '-'")
    return text


def _posted_to(secret: SecretStr | None) -> SecretStr | None:
    """Check the webhook's address. It may contain a secret, so no message repeats it."""
    text = "" if secret is None else secret.get_secret_value()
    if not text:
        return None
    try:
        parts = urlsplit(text)
        known = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
        plain = parts.username is None and parts.password is None and not parts.fragment
    except ValueError:
        known = plain = False
    if not known or not plain or not text.isascii() or not text.isprintable() or " " in text:
        raise ValueError("must be http://HOST... or https://HOST..., without a user name")
    return secret


def _given(secret: SecretStr | None) -> SecretStr | None:
    """Treat an empty setting as unset."""
    return secret if secret is not None and secret.get_secret_value().strip() else None


def _header(secret: SecretStr | None) -> SecretStr | None:
    text = "" if secret is None else secret.get_secret_value()
    if not text.isascii() or not text.isprintable() or text != text.strip():
        raise ValueError("must be printable ASCII, without spaces around it")
    return secret if text else None


def _zero_or_more(number: float) -> float:
    if number and not number >= LEAST_LIMIT:
        raise ValueError(f"must be 0 or at least {LEAST_LIMIT}")
    return number


def _header_name(text: str | None) -> str | None:
    if text is not None and text.lower() == "forwarded":
        raise ValueError(
            "must be a header with addresses alone, such as X-Forwarded-For; Forwarded has another "
            "format"
        )
    if text is not None and re.fullmatch(r"[A-Za-z0-9-]{1,100}", text) is None:
        raise ValueError("must be `peer` or the name of a header, such as X-Forwarded-For")
    return text


def _allowed_names(text: str) -> str:
    for each in listed(text):
        if each != ANY and not each.upper().startswith(PREFIX):
            raise ValueError(f"must be names that begin with {PREFIX}, or `{ANY}`")
    return text


Port = Annotated[int, Field(ge=0, le=LAST_PORT)]


class Settings(AccessSettings, LoginSettings, KafkaSecuritySettings, QuestionSettings):
    """The settings of servers, commands and clients, with their defaults.

    Decision 0 of a log fixes five of them permanently: `application`, `partitions`, `window_ms`,
    `skew_ms` and `placement`. With another value the ledger refuses to start. An embedded ledger
    always has one partition, and no placement.
    """

    url: Annotated[str, AfterValidator(_known)] = Field(
        DEFAULT_URL, description="where the ledger is: sqlite:///, http:// or kafka://"
    )
    application: Annotated[str, AfterValidator(_named)] = Field(
        "accountant", description="prefix of transactional ids and the consumer group"
    )
    partitions: int = Field(4, ge=1, le=1000, description="partitions of each topic (Kafka)")
    placement: Placement = Field(
        "name",
        description="what the partition of a dataset depends on: its `name`, or its `group`, which "
        "ends before the first `::`; of a new ledger on Kafka",
    )
    replication: int = Field(
        1, ge=1, le=15, description="copies of each partition that `topics create` asks for"
    )
    topic_prefix: str = Field(
        "",
        pattern=r"^[A-Za-z0-9._-]{0,100}$",
        description="prefix of the names of all topics",
    )
    window_ms: int = Field(
        3_600_000,
        # A full table of ids never drops ids of the last minute, so the window is longer than
        # that; a larger table is counted once a second.
        ge=61_000,
        le=86_400_000,
        description="how long the ledger remembers an id after its creation, in milliseconds",
    )
    skew_ms: int = Field(
        300_000,
        ge=1_000,
        le=3_600_000,
        description="how far an id's time may be ahead of the clock, in milliseconds",
    )
    clock_ahead_days: int = Field(
        400,
        ge=1,
        le=36_500,
        description="how far the clock may be ahead of the last decision, in days; beyond that the "
        "ledger decides nothing",
    )
    unauthenticated_bind: str = Field(
        "127.0.0.1",
        min_length=1,
        description="address to listen at without authentication; everyone who can reach it has "
        "full access",
    )
    port: Port = Field(8000, description="TCP port of the HTTP server; 0 picks a free one")
    limit_per_second: Annotated[float, AfterValidator(_zero_or_more)] = Field(
        100.0,
        ge=0,
        le=100_000,
        description="requests per second of one address, ten seconds' worth at once; 0 for no "
        "limit",
    )
    limit_per_name: Annotated[float, AfterValidator(_zero_or_more)] = Field(
        1_000.0,
        ge=0,
        le=100_000,
        description="requests, and lines of batches, per second of one authenticated caller, ten "
        "seconds' worth at once; 0 for no limit",
    )
    limit_by: Annotated[str | None, AfterValidator(_header_name)] = Field(
        None,
        description="source of the client's address: `peer`, or a header that a trusted proxy sets "
        "[the peer, without counting requests from this machine or through a proxy]",
    )
    metrics_port: Port = Field(8001, description="TCP port of a worker's metrics")
    probe_port: Port | None = Field(
        None,
        description="TCP port of a separate server for /healthz, /healthz/metrics and /readyz, "
        "over plain HTTP and without authentication; 0 picks a free one",
    )
    probe_bind: str = Field(
        "127.0.0.1",
        min_length=1,
        description="address of the server for probes; others than this machine's own are open to "
        "everyone who can reach them",
    )
    metrics_analysts: int = Field(
        0,
        ge=0,
        le=10_000,
        description="largest number of dataset and analyst pairs in the metrics; 0 for none",
    )
    metrics_levels: int = Field(
        0,
        ge=0,
        le=10_000,
        description="largest number of limits in the metrics; 0 for none",
    )
    index: Path | None = Field(
        None,
        description="file of the usage index [next to the ledger's file; on Kafka temporary]",
    )
    data_sources: Path | None = Field(
        None,
        description="JSON file that says where the data of questions are; see docs/how-to/"
        "data-sources.md",
    )
    data_sources_key: Path | None = Field(
        None,
        description="file of the secret key that chooses which of a unit's rows enter an answer "
        "[next to the file of sources, with the suffix .key]",
    )
    data_sources_confirmed: Path | None = Field(
        None,
        description="file of the names and types of sources that were confirmed [next to the file "
        "of sources, with the suffix .confirmed]",
    )
    checkpoints: Literal["off"] | Path | None = Field(
        None,
        description="directory of the signed checkpoints of a ledger in a file, or `off` "
        "[the user's state directory]",
    )
    checkpoint_key: Path | None = Field(
        None, description="file of the key that signs checkpoints [a file in their directory]"
    )
    checkpoint_seconds: float = Field(
        1.0, ge=0.1, le=86_400, description="shortest time between two checkpoints, in seconds"
    )
    checkpoints_required: bool = Field(
        False,
        description="decide nothing if the checkpoints cannot be read, or a file's are missing",
    )
    checkpoint_places: Annotated[SecretStr | None, AfterValidator(_given)] = Field(
        None, description="additional sinks for checkpoints, separated by commas"
    )
    checkpoint_places_seconds: float = Field(
        60.0, ge=1, le=86_400, description="longest delay of a checkpoint at a sink, in seconds"
    )
    checkpoint_places_authorization: Annotated[SecretStr | None, AfterValidator(_header)] = Field(
        None, description="the Authorization header for webhooks among the sinks; never printed"
    )
    checkpoint_places_unencrypted: bool = Field(
        False, description="allow http:// to other machines as a sink for checkpoints"
    )
    batch: int = Field(2_000, ge=1, le=10_000, description="largest number of records a commit")
    wait_seconds: float = Field(
        0.1,
        gt=0,
        le=10,
        description="longest wait for the first record of a batch, in seconds",
    )
    most_waiting: int = Field(
        10_000,
        ge=1,
        le=1_000_000,
        description="largest number of waiting requests, of a ledger in a file",
    )
    most_body: int = Field(
        MAX_BYTES,
        ge=1_024,
        le=MAX_BYTES,
        description="largest body of a request, in bytes",
    )
    read_side: bool = Field(
        True, description="keep tables of budgets and usage in a worker, and publish alerts"
    )
    alert_webhook: Annotated[SecretStr | None, AfterValidator(_posted_to)] = Field(
        None, description="http(s) address that receives each alert; never printed"
    )
    alert_webhook_authorization: Annotated[SecretStr | None, AfterValidator(_header)] = Field(
        None, description="the Authorization header for the webhook; never printed"
    )
    alert_webhook_patience_seconds: float = Field(
        86_400,
        ge=1,
        le=2_592_000,
        description="how long to retry an alert that the webhook does not accept, in seconds",
    )
    instance_id: str | None = Field(
        None,
        max_length=100,
        description="unique name of a worker in its group; keep it across restarts [host name]",
    )
    access_log: Literal["off", "errors", "requests", "all"] = Field(
        "off",
        description="requests that a server logs, as JSON lines on stderr: `errors` for responses "
        "from 400 on, `requests` for all but successful probes and scrapes, `all`",
    )
    opentelemetry: bool = Field(
        False,
        description="send traces to an OpenTelemetry collector; the variables OTEL_* say where. "
        "Needs the extra `otel`",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="lowest level of logged messages"
    )
    log_format: Literal["console", "json"] = Field(
        "console", description="format of the log on stderr"
    )

    allow_unknown_settings: Annotated[str, AfterValidator(_allowed_names)] = Field(
        "",
        description="variables that begin with ACCOUNTANT_ and are no settings, separated by "
        "commas; `*` for all",
    )

    @property
    def max_ahead_ms(self) -> int:
        """How far a clock may be ahead of the last decision, in milliseconds."""
        return self.clock_ahead_days * DAY_MS

    @property
    def listens_at(self) -> str:
        """The address that the server listens at."""
        return self.bind if self.authenticates else self.unauthenticated_bind

    @property
    def ledger(self) -> LedgerUrl:
        """The parsed address of the ledger."""
        return ledger_url(self.url)

    def genesis(self, partition: int, partitions: int) -> Genesis:
        """Return the permanent settings of a new log."""
        return Genesis(self.application, partition, partitions, self.window_ms, self.skew_ms)


_UNUSED_BY_COMMANDS: Final = frozenset(
    {
        "access_log",
        "administrators",
        "bind",
        "data_sources",
        "data_sources_confirmed",
        "data_sources_key",
        "instance_id",
        "limit_by",
        "limit_per_name",
        "limit_per_second",
        "metrics_port",
        "metrics_readers",
        "metrics_token_file",
        "oidc_algorithms",
        "oidc_audience",
        "oidc_client_id",
        "oidc_client_secret_file",
        "oidc_outage_seconds",
        "oidc_redirect_url",
        "oidc_scopes",
        "oidc_sign_in_parameters",
        "oidc_skew_seconds",
        "oidc_subject_field",
        "openers",
        "opentelemetry",
        "port",
        "probe_bind",
        "probe_port",
        "read_side",
        "tls_certificate",
        "tls_key",
        "trusted_proxy",
        "unauthenticated_bind",
        *LOGIN_FIELDS,
        *QUESTION_FIELDS,
    }
)
_USED_BY_COMMANDS: Final = Settings.model_fields.keys() - _UNUSED_BY_COMMANDS
_UNUSED_OVER_HTTP: Final = Settings.model_fields.keys() - {
    *("url", "token", "token_file", "token_unencrypted")
}
_UNUSED_BY_LOGIN: Final = Settings.model_fields.keys() - LOGIN_FIELDS - {"url"}


def load(**given: object) -> Settings:
    """Return the settings of the environment; arguments other than None override them.

    Raises: Refused: a value breaks its rule; the message names the setting.
    """
    return _loaded(given)


def load_command(**given: object) -> Settings:
    """Return the settings of a command; those that only servers use are ignored.

    Raises: Refused: as `load`.
    """
    return _loaded(given, _UNUSED_BY_COMMANDS)


def load_client(**given: object) -> Settings:
    """Return the settings of a client; those that it does not use are ignored.

    Raises: Refused: as `load`, or a variable is nearly a setting.
    """
    check_alike(os.environ, Settings.model_fields, _USED_BY_COMMANDS - {"tokens"})
    ledger = _loaded({"url": given.get("url")}, _UNUSED_OVER_HTTP).ledger
    return _loaded(given, _UNUSED_OVER_HTTP if ledger.kind == "http" else _UNUSED_BY_COMMANDS)


def load_login(**given: object) -> Settings:
    """Return the settings of `accountant login`; all others are ignored.

    Raises: Refused: as `load`.
    """
    return _loaded(given, _UNUSED_BY_LOGIN)


def load_server(**given: object) -> Settings:
    """Return the settings of a server, which refuses to start with an unknown variable.

    Raises: Refused: as `load`, or a variable is misspelt.
    """
    unknown_now().check()
    return load(**given)


def check_names() -> None:
    """Check that no variable of this process is nearly a setting that commands use.

    Raises: Refused: it names each variable, and the setting that was probably meant.
    """
    check_alike(os.environ, Settings.model_fields, _USED_BY_COMMANDS | LOGIN_FIELDS)


def unknown_now() -> Unknown:
    """Return the variables of this process's environment that are no settings."""
    return unknown_names(os.environ, Settings.model_fields)


def _loaded(given: dict[str, object], unused: Set[str] = frozenset()) -> Settings:
    check_spellings(os.environ, Settings.model_fields.keys() - unused)
    given = {name: value for name, value in given.items() if value is not None}
    try:
        return Settings(unused, **given)  # type: ignore[arg-type, call-arg]
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        what = str(first["msg"]).removeprefix("Value error, ")
        if name in given:
            said = what if what.startswith(name) else f"{name}: {what}"
        else:  # a rule about several settings names the one to change in its own text
            said = f"setting {PREFIX}{name.upper()}: {what}" if name else f"setting {what}"
        raise Refused(said) from error
