"""Make the secrets of docker-compose.yml: keys, passwords and tokens.

    first_start.py make           make the missing ones; the first start makes all
    first_start.py show NAME      print the token of NAME, or the authority's certificate (`ca`)

Each program has its own directory below HOME (default /etc/accountant), a volume that no other
program can read. The authority's key is deleted after it has signed, so nobody can sign with it.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import os
import re
import secrets
import subprocess
import sys
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from streams.cli.demo.week import DATASETS, USUAL, week

HOME: Final = Path(os.environ.get("HOME_OF_SECRETS", "/etc/accountant"))
BROKER: Final = "broker"
SERVERS: Final = ("worker", "gateway", "curator")
PRINCIPALS: Final = {role: f"accountant-{role}" for role in (*SERVERS, "operator")}
"""The programs that connect to the broker: the directory and the principal of each."""
ADMINISTRATOR: Final = "olga"
# The owners and analysts of the demo's week; each has a token.
PEOPLE: Final = (
    ADMINISTRATOR,
    *(opening.by for opening in DATASETS),
    *sorted({ask.analyst for ask in week(USUAL)}),
)
SCRAPER: Final = "prometheus"
METRICS_TOKEN: Final = "metrics.token"  # noqa: S105 (the name of a file)
NAMES: Final = ("kafka", "worker", "worker-2", "gateway", "curator", "localhost")
VALID: Final = dt.timedelta(days=825)
RENEWED: Final = dt.timedelta(days=30)
TOKEN: Final = re.compile(r"\bacct_[A-Za-z0-9_-]{43}\b")

Key = ec.EllipticCurvePrivateKey


def put(path: Path, content: bytes, mode: int = 0o600) -> None:
    """Write a file in one step; 0640 is for programs of other users in this one's group."""
    path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.new")
    partial.unlink(missing_ok=True)
    with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        os.fchmod(file.fileno(), mode)
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    partial.rename(path)


def pem(certificate: x509.Certificate) -> bytes:
    """Return a certificate as PEM."""
    return certificate.public_bytes(serialization.Encoding.PEM)


def secret_pem(key: Key) -> bytes:
    """Return a private key as PEM."""
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def named(common: str) -> x509.Name:
    """Return the name of a certificate."""
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def usage(*, signs: bool) -> x509.KeyUsage:
    """Return a key's permitted uses; strict clients (Python 3.13) require them."""
    others = dict.fromkeys(
        (
            *("content_commitment", "key_encipherment", "data_encipherment", "key_agreement"),
            *("encipher_only", "decipher_only"),
        ),
        False,
    )
    return x509.KeyUsage(digital_signature=not signs, key_cert_sign=signs, crl_sign=signs, **others)


def certificate(common: str, key: Key, signer: Key, now: dt.datetime) -> x509.Certificate:
    """Return a certificate: the authority's if a key signs itself, otherwise a server's."""
    authority = named("accountant compose authority")
    of_authority = key is signer
    extensions: list[tuple[x509.ExtensionType, bool]] = [
        (x509.BasicConstraints(ca=of_authority, path_length=0 if of_authority else None), True),
        (usage(signs=of_authority), True),
        (x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False),
        (x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), False),
    ]
    if not of_authority:
        loopback = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
        extensions += [
            (x509.SubjectAlternativeName([*map(x509.DNSName, NAMES), loopback]), False),
            (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False),
        ]
    builder = (
        x509.CertificateBuilder()
        .subject_name(authority if of_authority else named(common))
        .issuer_name(authority)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + VALID)
    )
    for extension, critical in extensions:
        builder = builder.add_extension(extension, critical=critical)
    return builder.sign(signer, hashes.SHA256())


def certificates_hold(now: dt.datetime) -> bool:
    """Return whether each program has a certificate of one authority that is valid for a while."""
    authorities = [HOME / role / "ca.pem" for role in (*PRINCIPALS, "people", SCRAPER)]
    servers = [HOME / BROKER / "broker.pem", *(HOME / role / "server.pem" for role in SERVERS)]
    try:
        (text,) = {path.read_bytes() for path in authorities}
        authority = x509.load_pem_x509_certificate(text)
        for path in servers:
            found = x509.load_pem_x509_certificate(path.read_bytes())
            found.verify_directly_issued_by(authority)
            if found.not_valid_after_utc < now + RENEWED:
                return False
    except (OSError, ValueError):  # several authorities are a ValueError, too
        return False
    return all((HOME / role / "server.key").exists() for role in SERVERS)


def make_certificates(now: dt.datetime) -> None:
    """Make an authority, and the certificates of the broker and of each HTTP server."""
    signer = ec.generate_private_key(ec.SECP256R1())
    authority = pem(certificate("", signer, signer, now))
    key = ec.generate_private_key(ec.SECP256R1())
    both = secret_pem(key) + pem(certificate("kafka", key, signer, now))
    put(HOME / BROKER / "broker.pem", both, 0o640)
    for role in SERVERS:
        key = ec.generate_private_key(ec.SECP256R1())
        put(HOME / role / "server.key", secret_pem(key))
        put(HOME / role / "server.pem", pem(certificate(role, key, signer, now)))
    for role in (*PRINCIPALS, "people", SCRAPER):
        put(HOME / role / "ca.pem", authority, 0o640)


def make_password(role: str, principal: str) -> None:
    """Make a principal's password: one file for the program, one for kafka-configs.sh."""
    own = HOME / role / "kafka.password"
    if not own.exists():
        put(own, secrets.token_urlsafe(32).encode())
    password = own.read_text()
    users = f"SCRAM-SHA-512=iterations=8192,password={password}\n"
    put(HOME / BROKER / "users" / f"{principal}.properties", users.encode(), 0o640)


def token(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `accountant token` on the file that ACCOUNTANT_TOKENS names."""
    program = Path(sys.executable).with_name("accountant")
    return subprocess.run(  # noqa: S603
        [program, "token", *arguments], check=False, capture_output=True, text=True
    )


def make_metrics_token() -> None:
    """Make the token with which Prometheus reads metrics, for it and for each server."""
    modes = {HOME / role / METRICS_TOKEN: 0o600 for role in SERVERS}
    modes[HOME / SCRAPER / METRICS_TOKEN] = 0o640
    if not all(file.exists() for file in modes) or len({*map(Path.read_bytes, modes)}) > 1:
        made = secrets.token_hex(32).encode()
        for file, mode in modes.items():
            put(file, made, mode)


def make_token(name: str, file: Path) -> None:
    """Make a token and write it to a file, unless the file exists."""
    if file.exists():
        return
    made = token("create", "--name", name)
    if made.returncode != 0:
        # An interrupted start has made a token and not stored its text.
        token("revoke", name)
        made = token("create", "--name", name)
    found = TOKEN.search(made.stdout)
    if made.returncode != 0 or found is None:
        sys.exit(f"no token for {name}: {made.stderr}")
    put(file, found[0].encode())


def make() -> None:
    """Make the missing secrets."""
    now = dt.datetime.now(dt.UTC)
    if not certificates_hold(now):
        make_certificates(now)
        print("made the certificates", flush=True)
    for role, principal in PRINCIPALS.items():
        make_password(role, principal)
    for name in PEOPLE:
        make_token(name, HOME / "people" / f"{name}.token")
    make_metrics_token()


def show(name: str) -> None:
    """Print a token, or the certificate of the authority."""
    file = HOME / "people" / ("ca.pem" if name == "ca" else f"{name}.token")
    if name not in {*PEOPLE, "ca"} or not file.exists():
        sys.exit(f"there is no token of {name}. Choose one of: {', '.join(('ca', *PEOPLE))}")
    print(file.read_text().strip())


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["make"]:
            make()
        case ["show", chosen]:
            show(chosen)
        case _:
            sys.exit(__doc__)
