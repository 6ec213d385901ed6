"""Find out why no broker accepts a client, after a connection has failed.

The client library writes the reason into its log and only raises that it found no broker. So this
connects to each address once more, for the reason alone.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import Any, Final

from aiokafka import errors as kafka
from aiokafka.conn import create_conn
from aiokafka.protocol.admin import SaslHandShakeRequest

from accountant.errors import PortableError

_PROTOCOL: Final = "ACCOUNTANT_KAFKA_SECURITY_PROTOCOL"
_PLAIN: Final = {"SSL": "PLAINTEXT", "SASL_SSL": "PLAINTEXT"}
_SECURED_S: Final = 5.0
_UNSECURED_S: Final = 1.0  # where nothing is secured, an absent broker is the common case
_CLOSED: Final = (OSError, kafka.KafkaConnectionError)


class ConnectionDenied(PortableError, kafka.KafkaError):  # type: ignore[misc]  # aiokafka carries no types
    """Brokers answer, but reject this client, or this client does not trust them.

    Args:
        reason: in words, with the setting to check and without a secret.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


async def diagnose_auth(client: Any) -> ConnectionDenied | None:
    """Return why the brokers reject an aiokafka client; None if none gives a reason."""
    plain = client._security_protocol == "PLAINTEXT"
    asking = [asyncio.create_task(_reason(client, host, port)) for host, port, _ in client.hosts]
    done, late = await asyncio.wait(asking, timeout=_UNSECURED_S if plain else _SECURED_S)
    for task in late:
        task.cancel()
    reasons = [task.result() for task in asking if task in done]
    found = next((reason for reason in reasons if reason), None)
    return None if found is None else ConnectionDenied(found)


async def _reason(client: Any, host: str, port: int) -> str | None:
    where, protocol = f"{host}:{port}", client._security_protocol
    name, mechanism = f"User:{client._sasl_plain_username}", client._sasl_mechanism
    try:
        return await _reason_after_connect(client, host, port)
    except ssl.SSLCertVerificationError as error:
        return (
            f"the certificate of {where} is not trusted ({error.verify_message}): check "
            "ACCOUNTANT_KAFKA_CA, and that the certificate names this address"
        )
    except (kafka.SaslAuthenticationFailed, kafka.AuthenticationFailedError):
        return (
            f"{where} rejects {name} with {mechanism}: check ACCOUNTANT_KAFKA_USERNAME, and "
            "ACCOUNTANT_KAFKA_PASSWORD or the file of ACCOUNTANT_KAFKA_PASSWORD_FILE"
        )
    except kafka.UnsupportedSaslMechanismError:
        return f"{where} does not support {mechanism}: check ACCOUNTANT_KAFKA_SASL_MECHANISM"
    except kafka.IllegalSaslStateError:
        return f"{where} does not use passwords: check {_PROTOCOL}, which is {protocol}"
    except ValueError:  # SCRAM: a server without the password could still answer "accepted"
        return f"{where} does not know the password of {name}, so it is not the broker"
    except _CLOSED:
        return await _reason_after_close(client, host, port)
    except (TimeoutError, kafka.KafkaError):
        return None


async def _reason_after_connect(client: Any, host: str, port: int) -> str | None:
    """Connect as the client does; the broker may still expect a password on the connection."""
    conn = await _connect(client, host, port, client._security_protocol)
    try:
        if client._sasl_plain_username is not None:
            return None
        answer = await conn.send(SaslHandShakeRequest("SCRAM-SHA-512"))
        if kafka.for_code(answer.error_code) is kafka.IllegalSaslStateError:
            return None
        return (
            f"{host}:{port} requires a name and a password: set {_PROTOCOL}, "
            "ACCOUNTANT_KAFKA_USERNAME and ACCOUNTANT_KAFKA_PASSWORD_FILE"
        )
    finally:
        conn.close()


async def _reason_after_close(client: Any, host: str, port: int) -> str | None:
    """Return why a broker closes a connection without an answer: it expects TLS, or does not."""
    protocol = client._security_protocol
    if protocol not in _PLAIN:
        is_cause = await _uses_tls(host, port)
        what, other = "uses TLS", "SASL_SSL or SSL"
    else:
        is_cause = await _uses_plaintext(client, host, port)
        what, other = "does not use TLS", "SASL_PLAINTEXT or PLAINTEXT"
    if not is_cause:
        return None
    return f"{host}:{port} {what}: {_PROTOCOL} must be {other}, and is {protocol}"


async def _uses_tls(host: str, port: int) -> bool:
    # This sends nothing over the connection, so the certificate does not matter.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        _, writer = await asyncio.open_connection(host, port, ssl=context)
    except OSError:
        return False
    writer.close()
    return True


async def _uses_plaintext(client: Any, host: str, port: int) -> bool:
    try:
        conn = await _connect(client, host, port, "PLAINTEXT")
    except (TimeoutError, OSError, kafka.KafkaError):
        return False
    conn.close()
    return True


async def _connect(client: Any, host: str, port: int, protocol: str) -> Any:
    return await create_conn(
        host,
        port,
        client_id=client._client_id,
        request_timeout_ms=int(_SECURED_S * 1_000),
        ssl_context=client._ssl_context,
        security_protocol=protocol,
        sasl_mechanism=client._sasl_mechanism,
        sasl_plain_username=client._sasl_plain_username,
        sasl_plain_password=client._sasl_plain_password,
    )
